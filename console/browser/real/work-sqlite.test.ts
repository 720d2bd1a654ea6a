import { describe } from 'vitest';
import { Server } from './server';
import { work } from './work';

describe('on SQLite', () => work(() => Server.start('serve')));
