import { axe } from './axe';

axe('dark');
