// Every page over the demo's own traffic: nothing fails, axe finds nothing, and a picture of each in three widths is written to
// shots/.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { done, type Opened, open, picture, settled, violationsOf } from '../setup';
import { Server } from './server';

type Summary = { eventId: string; traceId?: string; key?: string };
let server: Server;
const found: Record<string, string> = {};
/** PICTURES=1 makes the pictures of docs/console.md anew, of a demo that has run for some minutes. */
const docs = new URL('../../../docs/console/', import.meta.url).pathname;
const PICTURES = ['overview', 'events', 'event', 'event-timeline', 'trace', 'failures', 'subscriptions'];
const MINUTES = 8;
const HOOK_MS = process.env.PICTURES ? 900_000 : 90_000;

/** Asks until the demo has come so far. */
async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const list = async (query: string) => (await server.call('GET', `/events?limit=50&${query}`)).events as Summary[];

beforeAll(async () => {
  server = await Server.start('demo');
  // The parcel of the demo's story is given up after two attempts; the newsletter gives up one event of each trace.
  await until(async () => (await list('deliveryStatus=DEAD')).find((each) => each.eventId === 'adas-parcel'));
  const dead = await until(async () => (await list('deliveryStatus=DEAD')).find((each) => each.key && each.traceId));
  if (process.env.PICTURES)
    await until(async () => {
      const { minutes } = (await server.call('GET', '/stats?minutes=15')) as { minutes: unknown[] };
      return minutes.length >= MINUTES ? true : undefined;
    });
  Object.assign(found, { event: dead.eventId, trace: dead.traceId, key: dead.key });
}, HOOK_MS);
afterAll(() => server?.stop());

const PAGES: [string, string][] = [
  ['overview', '/?range=15m'],
  ['events', '/events'],
  ['event-panel', '/events?sel={event}'],
  ['event', '/events/{event}'],
  ['event-timeline', '/events/{event}?tab=timeline'],
  ['event-payload', '/events/{event}?tab=payload'],
  ['event-envelope', '/events/{event}?tab=envelope'],
  ['event-trace', '/events/{event}?tab=trace'],
  ['event-history', '/events/{event}?tab=history'],
  ['failures', '/failures'],
  ['traces', '/traces'],
  ['trace', '/traces/{trace}'],
  ['story', '/stories/{key}'],
  ['consumers', '/consumers?sel=points'],
  ['subscriptions', '/subscriptions?topic=order.refunded&consumer=newsletter'],
  ['operations', '/operations'],
  ['system', '/system'],
  ['audit', '/audit'],
];

/** Calls that the console is ready for before the server is. */
const AHEAD = /^404 \/api\/v1\/stories$/;

/** All four pairs are looked at with the mock's data. */
const VARIANTS = [
  ['light', 'en'],
  ['dark', 'zh'],
] as const;

describe.each(VARIANTS)('%s, %s', (theme, language) => {
  let opened: Opened;
  beforeAll(async () => {
    opened = await open('/', { server, theme, language });
    await settled(opened.page);
  });
  afterAll(() => done(opened));

  /** D.13: every page has something real to show, and nothing of it fails. */
  test.each(PAGES)('%s', async (name, template) => {
    const path = template.replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(found[key] ?? ''));
    const { page } = opened;
    for (const seen of [opened.errors, opened.refused]) seen.length = 0;
    await page.goto(`${opened.base}${path}`);
    await settled(page);
    await page.locator('main :is(table, svg, dl, pre)').first().waitFor();
    expect(await page.locator('main .empty.failed').count(), 'nothing failed').toBe(0);
    await picture(page, `real-${name}-${theme}-${language}`);
    if (process.env.PICTURES && theme === 'light' && language === 'en' && PICTURES.includes(name)) {
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.waitForTimeout(2_000);
      await page.screenshot({ path: `${docs}${name}.png` });
      await page.setViewportSize({ width: 1440, height: 900 });
    }
    expect(await violationsOf(page)).toEqual([]);
    expect(opened.refused.filter((each) => !AHEAD.test(each))).toEqual([]);
    expect(opened.errors).toEqual([]);
  });
});
