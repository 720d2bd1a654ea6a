// Pictures of every page in both themes and languages and three widths, written to shots/. `npm run shots` makes them.
import { mkdirSync } from 'node:fs';
import { describe, test } from 'vitest';
import { done, open } from './setup';

const PAGES: [string, string, string?][] = [
  ['overview', '/'],
  ['promises', '/?panel=promises'],
  ['events', '/events?consumer=points'],
  ['event-consumers', '/events/order:10531:paid'],
  ['event-timeline', '/events/order:10531:paid?tab=timeline'],
  ['event-payload', '/events/order:10531:paid?tab=payload'],
  ['failures', '/failures'],
  ['traces', '/traces'],
  ['trace', '/traces/7d19c0aa4be2f09d44e18a60b1c991fe'],
  ['key-order-123', '/stories/123'],
  ['consumers', '/consumers'],
  ['subscriptions', '/subscriptions', 'admin'],
  ['operations', '/operations'],
  ['system', '/system'],
  ['audit', '/audit'],
  ['first-run', '/', 'first-run'],
  ['store-down', '/', 'store-down'],
];
const SIZES: [number, number][] = [
  [1440, 900],
  [768, 1024],
  [390, 844],
];
const dir = new URL('../shots/', import.meta.url).pathname;

describe('pictures', () => {
  mkdirSync(dir, { recursive: true });
  for (const theme of ['light', 'dark'] as const) {
    for (const language of ['en', 'zh'] as const) {
      for (const [width, height] of SIZES) {
        test.each(PAGES)(`%s ${theme} ${language} ${width}`, async (name, path, scenario) => {
          const opened = await open(path, { theme, language, width, height, scenario });
          await opened.page.waitForTimeout(700);
          await opened.page.screenshot({ path: `${dir}${name}-${theme}-${language}-${width}.png` });
          await done(opened);
        });
      }
    }
  }
});
