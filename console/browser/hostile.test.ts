// Texts as bad as they may be, on every page: nothing runs, everything is text, the layout stays.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TEXTS } from '../dev/hostile.mjs';
import { done, type Opened, open, settled } from './setup';

const name = (text: string) => encodeURIComponent(text);
const evil = (text: string, kind: string) => name(`evil-${kind}-${text}`.slice(0, kind === 'long' ? 10_000 : 200));
const PAGES: [string, string][] = [
  ['overview', '/'],
  ['events', '/events'],
  ['failures', '/failures'],
  ['failures by topic', '/failures?by=topic'],
  ['traces', '/traces'],
  ['consumers', '/consumers'],
  ['subscriptions', '/subscriptions'],
  ['subscriptions as a list', '/subscriptions?view=list'],
  ['operations', '/operations'],
  ['audit', '/audit?range=any'],
  ...Object.entries(TEXTS).flatMap(([kind, text]): [string, string][] => [
    [`event, ${kind}`, `/events/${evil(text, kind)}`],
    [`panel of an event, ${kind}`, `/events?sel=${evil(text, kind)}`],
    [`filter, ${kind}`, `/events?topic=${name(text)}`],
    [`story, ${kind}`, `/stories/${name(text)}`],
  ]),
  ...(['timeline', 'payload', 'envelope', 'trace', 'history'] as const).flatMap((tab): [string, string][] =>
    (['html', 'long'] as const).map((kind) => [`${tab}, ${kind}`, `/events/${evil(TEXTS[kind], kind)}?tab=${tab}`]),
  ),
  ['trace', '/traces/0bad0000000000000000000000000003'],
];

describe('hostile text', () => {
  describe.each([1440, 390])('at a width of %i', (width) => {
    let opened: Opened;
    beforeAll(async () => {
      opened = await open('/', { scenario: 'hostile', width });
      await settled(opened.page);
    });
    afterAll(() => done(opened));

    test.each(PAGES)('%s keeps its layout', async (_, path) => {
      const { page } = opened;
      opened.errors.length = 0;
      await page.goto(`${opened.base}${path}`);
      await settled(page);
      const found = await page.evaluate(() => {
        const box = (selector: string) => document.querySelector(selector)?.getBoundingClientRect();
        return {
          hacked: 'hacked' in window,
          images: document.querySelectorAll('img, script:not([src]), iframe').length,
          sideways: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          top: box('header.top')?.height ?? 0,
          failed: document.querySelector('main .empty.failed')?.textContent ?? null,
          hidden: /[\u0000\u202e]/.test(document.body.textContent ?? ''),
        };
      });
      expect(found).toMatchObject({ hacked: false, images: 0, failed: null, hidden: false });
      expect(found.sideways).toBeLessThanOrEqual(0);
      expect(found.top).toBeLessThan(70);
      expect(opened.errors).toEqual([]);
    });
  });
});
