import { describe } from 'vitest';
import { Server } from './server';
import { work } from './work';

describe('on SQLite, with the shop running', () =>
  work(
    () => Server.start('demo'),
    () => Server.start('serve'),
  ));
