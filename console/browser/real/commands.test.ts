// Every screen is a command: the line at the bottom of a page is taken by the command line as it stands.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { done, type Opened, open, settled } from '../setup';
import { Server } from './server';

const KEY = "it's $(id) `id` --key";
let server: Server;
let opened: Opened;
beforeAll(async () => {
  server = await Server.start('serve');
  await server.subscribe('cli.asked', 'shell');
  const about = { key: KEY, traceId: '0c11aa00aa4be2f09d44e18a60b1c991' };
  await server.publish({ eventId: 'cli:1', topic: 'cli.asked', ...about });
  const failed = { success: false, willRetry: false, errorCode: '500', errorMessage: 'no' };
  await server.work('shell', failed);
  await server.call('POST', '/operations', {
    kind: 'redrive',
    filter: { consumerId: 'shell', deliveryStatus: 'DEAD' },
    ratePerSecond: 5,
    dryRun: false,
    reason: KEY,
  });
  await server.work('shell', failed);
  opened = await open('/', { server });
  await settled(opened.page);
});
afterAll(async () => {
  await done(opened);
  await server.stop();
});

const PAGES: [string, string][] = [
  ['events', '/events'],
  ['events by consumer and time', '/events?consumer=shell&range=1h&delivery=DEAD'],
  ['events of a key', `/events?key=${encodeURIComponent(KEY)}`],
  ['events that are slow', '/events?preset=slow'],
  ['failures', '/failures?consumer=shell'],
  ['traces', '/traces/0c11aa00aa4be2f09d44e18a60b1c991'],
  ['consumers', '/consumers?sel=shell'],
  ['subscriptions', '/subscriptions?topic=cli.asked&consumer=shell'],
  ['operations', '/operations'],
  ['system', '/system'],
  ['audit', '/audit?actor=admin'],
];

describe('the line at the bottom', () => {
  /** D.13: the command line takes it, whatever names are in it. */
  test.each(PAGES)('of %s', async (_, path) => {
    const { page } = opened;
    await page.goto(`${opened.base}${path}`);
    await settled(page);
    if (path === '/operations') await page.locator('.operations tbody tr').first().click();
    const line = (await page.locator('.cli code').first().textContent()) ?? '';
    expect(line).toMatch(/^(postrider|curl) /);
    // A redrive is only counted.
    const { code, output } = server.shell(line.includes(' redrive') ? `${line} --dry-run` : line);
    expect(code, `${line}\n${output}`).toBe(0);
    expect(output).not.toContain('uid=');
  });

  test('of the wizard', async () => {
    const { page } = opened;
    await page.goto(`${opened.base}/failures?consumer=shell`);
    await page.getByRole('button', { name: 'Redrive 1…' }).click();
    await page.getByRole('button', { name: 'Check' }).last().click();
    // The answer to the dry run says what the server takes.
    await page.getByText('of 1 will be redriven').waitFor();
    const line = (await page.locator('.wizard .cli code').textContent()) ?? '';
    const { code, output } = server.shell(`${line} --dry-run`);
    expect(code, `${line}\n${output}`).toBe(0);
    await page.keyboard.press('Escape');
  });

  test('and what is copied of an event', async () => {
    const { page } = opened;
    await page.goto(`${opened.base}/events/cli%3A1`);
    await page.getByRole('button', { name: 'Copy as' }).click();
    for (const name of ['CLI', 'cURL']) {
      await page.locator('.copy-as').getByRole('button', { name, exact: true }).hover();
      const line = (await page.locator('.copy-preview pre').textContent()) ?? '';
      expect(line).not.toContain(server.token);
      const { code, output } = server.shell(line);
      expect(code, `${line}\n${output}`).toBe(0);
      expect(output).toContain('cli:1');
    }
  });
});
