import { describe } from 'vitest';
import { makeDatabase, Server } from './server';
import { work } from './work';

describe('on postgres', () =>
  work(async () => {
    const database = makeDatabase();
    const server = await Server.start('serve', database.url);
    server.whenStopped = database.drop;
    return server;
  }));
