// The hostile corpus of the project, stored through every field of the real executable: the pages show it as text.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { done, type Opened, open, settled } from '../setup';
import { Server } from './server';

const corpus = (name: string) =>
  readFileSync(new URL(`../../../crates/postrider-conformance/hostile/${name}`, import.meta.url), 'utf8');
const TEXTS = JSON.parse(corpus('strings.json')) as string[];
/** One JSON literal a line. */
const ERRORS = corpus('error-texts.txt')
  .split('\n')
  .filter((line) => line.trim() !== '')
  .map((line) => JSON.parse(line) as string);
/** An event id has at most this many bytes. */
const ID_MAX = 64;

let server: Server;
/** Texts by the id of the event that has them in all its fields. */
const stored = new Map<string, string>();
/** Ids that are hostile texts themselves. */
const ids: string[] = [];

beforeAll(async () => {
  server = await Server.start('serve');
  await server.subscribe('evil.asked', 'evil', { description: '<img src=x onerror=alert(1)>' });
  for (const [index, text] of TEXTS.entries()) {
    const id = `evil:${index}`;
    const whole = {
      eventId: id,
      topic: 'evil.asked',
      key: text,
      aggregateType: text,
      aggregateId: text,
      tenantId: text,
      storeId: text,
      initiator: { service: text, operation: text, userId: text, clientRequestId: text },
      payload: { [text]: text, list: [text] },
      metadata: { [text]: text },
    };
    // What one field refuses is stored through the others, and through the payload in any case.
    const bare = { eventId: id, topic: 'evil.asked', payload: { text } };
    if ((await server.try('POST', '/events', whole)).status < 300) stored.set(id, text);
    else if ((await server.try('POST', '/events', bare)).status < 300) stored.set(id, text);
    if (Buffer.byteLength(text) <= ID_MAX) {
      const named = { eventId: text, topic: 'evil.asked', payload: {} };
      if (text && (await server.try('POST', '/events', named)).status < 300) ids.push(text);
    }
  }
  // Each delivery fails with texts of its own.
  const errors = [...TEXTS, ...ERRORS];
  for (let left = stored.size + ids.length; left > 0; left -= 1) {
    const message = errors[left % errors.length];
    await server.work('evil', { success: false, willRetry: false, errorCode: message, errorMessage: message });
  }
  // What operators write: reasons, descriptions, names of tokens.
  for (const [index, text] of TEXTS.entries()) {
    const consumer = `evil-${index}`;
    if ((await server.try('PUT', `/subscriptions/evil.other/${consumer}`, { description: text })).status >= 300)
      continue;
    await server.try('POST', `/consumers/${consumer}/pause`, { reason: text });
    await server.try('POST', '/tokens', { name: text, role: 'viewer' });
    await server.try('POST', '/operations', {
      kind: 'redrive',
      filter: { consumerId: consumer },
      dryRun: false,
      reason: text,
    });
  }
});
afterAll(() => server?.stop());

type Seen = { dialogs: string[]; check: (what: string) => Promise<void> } & Opened;

/** A page that notes every dialog and every report of the content security policy. */
async function watched(width: number): Promise<Seen> {
  const opened = await open('/', { server, width });
  const { page } = opened;
  const dialogs: string[] = [];
  page.on('dialog', (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  await page.addInitScript(() => {
    const store = window as unknown as { reports: string[] };
    store.reports = [];
    document.addEventListener('securitypolicyviolation', (each) => store.reports.push(each.violatedDirective));
  });
  await page.reload();
  const check = async (what: string) => {
    await settled(page);
    const found = await page.evaluate(() => ({
      reports: (window as unknown as { reports: string[] }).reports,
      strangers: document.querySelectorAll('img, iframe, object, script:not([src]), svg[onload]').length,
      sideways: Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth),
      top: (document.querySelector('header.top')?.getBoundingClientRect().height ?? 0) < 70,
      failed: document.querySelector('main .empty.failed')?.textContent ?? null,
      unseen: /[\u0000\u0007\u001b\u202e]/.test(document.body.textContent ?? ''),
    }));
    expect(found, what).toEqual({ reports: [], strangers: 0, sideways: 0, top: true, failed: null, unseen: false });
    expect(dialogs, what).toEqual([]);
    expect(opened.errors, what).toEqual([]);
  };
  return { ...opened, dialogs, check };
}

const PAGES = [
  '/',
  '/events',
  '/events?status=FAILED',
  '/failures',
  '/failures?by=topic',
  '/traces',
  '/consumers',
  '/subscriptions',
  '/subscriptions?view=list',
  '/operations',
  '/system',
  '/audit',
];

describe('hostile text', () => {
  test('most of the corpus can be stored', () => {
    expect(stored.size).toBeGreaterThan(TEXTS.length * 0.8);
    expect(ids.length).toBeGreaterThan(TEXTS.length * 0.5);
  });

  /** S11: lists show it as text at every width. */
  test.each([1440, 390])('every page keeps its layout at a width of %i', async (width) => {
    const seen = await watched(width);
    for (const path of PAGES) {
      await seen.page.goto(`${seen.base}${path}`);
      await seen.check(path);
    }
    await done(seen);
  });

  /** Goes on without a reload, and waits for the answer that the new page shows. */
  async function go({ page }: Opened, path: string, asks: (url: string) => boolean): Promise<void> {
    const answer = page.waitForResponse((each) => asks(each.url()));
    await page.evaluate((href) => {
      history.pushState(null, '', href);
      dispatchEvent(new PopStateEvent('popstate'));
    }, path);
    await answer;
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  }

  /** S11: an event with a text in all its fields, in each of its tabs. */
  test('every event shows it as text', { timeout: 180_000 }, async () => {
    const seen = await watched(1440);
    const tabs = ['consumers', 'timeline', 'payload', 'envelope', 'trace', 'history'];
    let turn = 0;
    for (const [id, text] of [...stored, ...ids.map((id): [string, string] => [id, id])]) {
      const tab = tabs[turn++ % tabs.length]!;
      const part = encodeURIComponent(id);
      await go(seen, `/events/${part}?tab=${tab}`, (url) => url.includes(`/api/v1/events/${part}?`));
      await seen.page.locator('.event-head h1').waitFor();
      await seen.check(`${JSON.stringify(text)} in ${tab}`);
    }
    await done(seen);
  });

  /** S11: each text as a filter, in the address, and in the search. */
  test('every text is a filter and a search', { timeout: 180_000 }, async () => {
    const seen = await watched(1440);
    const { page } = seen;
    for (const text of TEXTS.filter((each) => each.trim() !== '')) {
      const word = encodeURIComponent(text);
      await go(seen, `/events?service=${word}&tenant=${word}`, (url) => url.includes('/api/v1/events?'));
      await settled(page);
      // A text that no field can have is refused by name; the page says so and stays whole.
      if ((await page.locator('main .empty.failed').count()) === 0) await seen.check(`filter ${JSON.stringify(text)}`);
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox').fill(text);
      await page.locator('.palette-list > *').first().waitFor();
      expect(seen.dialogs, text).toEqual([]);
      await page.keyboard.press('Escape');
    }
    expect(await page.evaluate(() => (window as unknown as { reports: string[] }).reports)).toEqual([]);
    await done(seen);
  });
});
