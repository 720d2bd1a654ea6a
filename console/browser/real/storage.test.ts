// What the browser keeps: the choices of the person, and nothing of the data or the session.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { done, open, settled } from '../setup';
import { Server } from './server';

let server: Server;
beforeAll(async () => {
  server = await Server.start('serve');
});
afterAll(() => server?.stop());

/** S6: no token, payload or id is kept where a script can read it, after a tour of the pages and a reload. */
test('no credential, payload or id is in web storage', async () => {
  const secret = 'canary-payload-4471';
  await server.subscribe('store.asked', 'storekeeper');
  await server.publish({ eventId: 'canary-id', topic: 'store.asked', key: 'canary-key', payload: { secret } });
  const opened = await open('/', { server });
  const { page } = opened;
  await settled(page);
  // Links, not addresses: moving inside the page is what remembers places.
  for (const name of ['Events', 'Failures', 'Traces', 'Consumers', 'Subscriptions', 'Operations', 'System', 'Audit']) {
    await page.getByRole('link', { name, exact: true }).first().click();
    await settled(page);
  }
  await page.getByRole('link', { name: 'Events', exact: true }).first().click();
  await page.locator('tbody tr .id', { hasText: 'canary-id' }).click();
  for (const tab of [/Payload/, /Timeline/, /Envelope/]) await page.getByRole('tab', { name: tab }).click();
  await page.goto(`${opened.base}/events/canary-id?tab=payload`);
  await page.getByText(secret).first().waitFor();
  await page.goto(`${opened.base}/events?key=canary-key&sel=canary-id`);
  await page.locator('tbody tr', { hasText: 'canary-id' }).waitFor();
  await page.reload();
  await page.locator('tbody tr', { hasText: 'canary-id' }).waitFor();
  const kept = await page.evaluate(async () => ({
    local: { ...localStorage },
    session: { ...sessionStorage },
    cookie: document.cookie,
    databases: (await indexedDB.databases()).map((each) => each.name),
    caches: await caches.keys().catch(() => []),
    workers: (await navigator.serviceWorker?.getRegistrations())?.length ?? 0,
  }));
  const all = JSON.stringify(kept);
  for (const part of [server.token, 'prt_', 'canary', secret, 'storekeeper']) expect(all).not.toContain(part);
  expect(kept).toMatchObject({ cookie: '', databases: [], caches: [], workers: 0 });
  expect(Object.keys(kept.local)).toEqual(['postrider.settings']);
  await done(opened);
});
