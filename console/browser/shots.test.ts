// Pictures of every page in both themes and languages and three widths, written to shots/. SHOTS=1 switches them on.
import { mkdirSync } from 'node:fs';
import { describe, test } from 'vitest';
import { done, open, pathOf, REAL } from './setup';

const ALL: [string, string, string?][] = [
  ['overview', '/'],
  ['promises', '/?panel=promises'],
  ['events', '/events?consumer=points'],
  ['event-consumers', '/events/{event}'],
  ['event-timeline', '/events/{event}?tab=timeline'],
  ['event-payload', '/events/{event}?tab=payload'],
  ['failures', '/failures'],
  ['traces', '/traces'],
  ['trace', '/traces/{trace}'],
  ['key-order-123', '/stories/{key}'],
  ['consumers', '/consumers'],
  ['subscriptions', '/subscriptions', 'admin'],
  ['operations', '/operations'],
  ['system', '/system'],
  ['audit', '/audit'],
  ['first-run', '/', 'first-run'],
  ['store-down', '/', 'store-down'],
];
/** A real server is in no scenario. */
const PAGES = ALL.filter(([, , scenario]) => !REAL || scenario === undefined || scenario === 'admin');
const SIZES: [number, number][] = [
  [1440, 900],
  [768, 1024],
  [390, 844],
];
const dir = new URL('../shots/', import.meta.url).pathname;

describe.skipIf(!process.env.SHOTS)('pictures', () => {
  mkdirSync(dir, { recursive: true });
  for (const theme of ['light', 'dark'] as const) {
    for (const language of ['en', 'zh'] as const) {
      for (const [width, height] of SIZES) {
        test.each(PAGES)(`%s ${theme} ${language} ${width}`, async (name, path, scenario) => {
          const opened = await open(await pathOf(path), { theme, language, width, height, scenario });
          await opened.page.waitForTimeout(700);
          await opened.page.screenshot({ path: `${dir}${name}-${theme}-${language}-${width}.png` });
          await done(opened);
        });
      }
    }
  }
});
