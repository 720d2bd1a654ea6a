import { axe } from './axe';

axe('light');
