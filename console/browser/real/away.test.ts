// The server dies and comes back; its store goes away and comes back.
import { expect, test } from 'vitest';
import { done, open } from '../setup';
import { Door } from './proxy';
import { makeDatabase, Server } from './server';

/** D.13 A.14: an open page keeps what it has while the server is dead, and goes on by itself with the new process. */
test('the server dies and comes back, and the page goes on', async () => {
  const server = await Server.start('serve');
  await server.subscribe('order.paid', 'points');
  const opened = await open('/consumers', { server });
  const { page } = opened;
  await page.getByRole('button', { name: 'points', exact: true }).waitFor();
  await page.evaluate(() => Object.assign(window, { marked: true }));
  await server.kill();
  await page
    .getByText(/Reconnecting in|Every 5 s/)
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'points', exact: true }).waitFor();
  await server.revive();
  await server.subscribe('order.paid', 'wallet');
  await page.getByRole('button', { name: 'wallet', exact: true }).waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
  expect(await page.evaluate(() => 'marked' in window), 'no reload').toBe(true);
  await done(opened);
  await server.stop();
});

/** D.13 F44: while PostgreSQL does not answer, a card says so; it goes by itself when the store is back. */
test('the store goes away and comes back, on postgres', async () => {
  const database = makeDatabase();
  const to = new URL(database.url);
  const door = await Door.to(to.hostname, Number(to.port || 5432));
  const through = new URL(database.url);
  through.host = `127.0.0.1:${door.port}`;
  const server = await Server.start('serve', through.toString());
  await server.subscribe('order.paid', 'points');
  const opened = await open('/consumers', { server });
  const { page } = opened;
  await page.getByRole('button', { name: 'points', exact: true }).waitFor();
  await page.evaluate(() => Object.assign(window, { marked: true }));
  door.shut();
  await page.getByRole('link', { name: 'Subscriptions' }).click();
  await page.getByRole('heading', { name: 'The store does not answer' }).waitFor();
  expect(await page.getByRole('link', { name: 'Overview' }).count(), 'the shell stays').toBeGreaterThan(0);
  door.open();
  await page.getByRole('heading', { name: 'Subscriptions' }).waitFor();
  await page.getByRole('button', { name: 'order.paid, points: enabled' }).waitFor();
  expect(await page.evaluate(() => 'marked' in window), 'no reload').toBe(true);
  await done(opened);
  await server.stop();
  door.close();
  database.drop();
});
