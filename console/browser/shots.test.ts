// Pictures of states that take a few steps, in both themes and languages and three widths. `npm run shots` writes them to shots/;
// those of every page as it opens are written by the other tests.
import { mkdirSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { describe, test } from 'vitest';
import { done, open, SIZES, settled } from './setup';

type Shot = { path: string; scenario?: string; token?: string; act?: (page: Page) => Promise<void> };

const press = async (page: Page, selector: string) => page.locator(selector).first().click();
const wizard = async (page: Page) => {
  await press(page, '.panel .btn.primary');
  await page.locator('.wizard .ramp').waitFor();
};

const SHOTS: Record<string, Shot> = {
  overview: { path: '/' },
  promises: { path: '/?panel=promises' },
  events: { path: '/events?consumer=points' },
  'event-consumers': { path: '/events/order:10531:paid' },
  'event-timeline': { path: '/events/order:10531:paid?tab=timeline' },
  'event-then': {
    path: '/events/order:10531:paid?tab=timeline',
    act: async (page) => {
      for (let step = 0; step < 5; step += 1) await page.keyboard.press('[');
    },
  },
  'event-payload': {
    path: '/events/order:10531:paid?tab=payload',
    act: async (page) => {
      if (await page.locator('.event-head .only-wide .btn').first().isVisible())
        await press(page, '.event-head .menu-box .btn');
    },
  },
  'event-envelope': { path: '/events/order:10531:paid?tab=envelope' },
  'event-trace': { path: '/events/order:10531:paid?tab=trace' },
  'event-history': { path: '/events/order:10531:paid?tab=history' },
  'why-dead': { path: '/events/order:10518:paid' },
  'why-held': { path: '/events/order:10492:refunded' },
  'why-working': { path: '/events/order:10532:checkout_locked' },
  'why-later': { path: '/events/order:10600:paid' },
  'why-turn': { path: '/events/order:10534:checkout_locked' },
  'why-unheard': { path: '/events/order:10399:reopened' },
  failures: { path: '/failures' },
  'failures-panel': { path: '/failures?sel=g-points-503' },
  'wizard-how': { path: '/failures?sel=g-points-503', act: wizard },
  'wizard-check': {
    path: '/failures?sel=g-points-503',
    act: async (page) => {
      await wizard(page);
      await press(page, '.wizard footer .btn.primary');
      await page.locator('.findings li').first().waitFor();
    },
  },
  traces: { path: '/traces' },
  trace: { path: '/traces/7d19c0aa4be2f09d44e18a60b1c991fe' },
  'key-order-123': { path: '/stories/123' },
  consumers: { path: '/consumers' },
  'consumers-panel': { path: '/consumers?sel=points' },
  subscriptions: { path: '/subscriptions?topic=order.refunded&consumer=analytics', scenario: 'admin' },
  operations: { path: '/operations' },
  system: { path: '/system' },
  audit: { path: '/audit' },
  palette: {
    path: '/events?consumer=points',
    act: async (page) => {
      await page.keyboard.press('Control+k');
      await page.keyboard.type('10492');
      await page.getByRole('option').nth(3).waitFor();
    },
  },
  session: {
    path: '/',
    act: (page) => press(page, '.tools .menu-box button:visible, .tabbar .tab:visible'),
  },
  login: { path: '/login', token: '' },
  'first-run': { path: '/', scenario: 'first-run' },
  'store-down': { path: '/', scenario: 'store-down' },
};
const dir = new URL('../shots/', import.meta.url).pathname;
/** SHOTS names the wanted pictures, as in SHOTS=overview-dark,login; 1 means all. */
const wanted = (process.env.SHOTS ?? '1').split(',');

describe('pictures', () => {
  mkdirSync(dir, { recursive: true });
  for (const theme of ['light', 'dark'] as const) {
    for (const language of ['en', 'zh'] as const) {
      for (const [width, height] of SIZES) {
        const all = Object.entries(SHOTS).map(([name, shot]) => ({
          ...shot,
          file: `${name}-${theme}-${language}-${width}`,
        }));
        const chosen = all.filter(({ file }) => wanted[0] === '1' || wanted.some((each) => file.startsWith(each)));
        test.each(chosen)('$file', async ({ file, path, act, ...options }) => {
          const opened = await open(path, { ...options, theme, language, width, height });
          // The figures of a picture stand still.
          if (opened.mock) opened.mock.state.quiet = true;
          await settled(opened.page);
          await act?.(opened.page);
          await opened.page.waitForTimeout(500);
          await opened.page.screenshot({ path: `${dir}${file}.png` });
          await done(opened);
        });
      }
    }
  }
});
