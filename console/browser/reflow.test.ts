// On a small screen and after zooming no page scrolls sideways; in forced colours everything can still be told apart.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PAGES } from './pages';
import { done, type Opened, open, settled, violationsOf } from './setup';

/** Tables for a large screen. */
const WIDE = new Set(['trace, table', 'story', 'system', 'operations']);

describe.each([
  ['a width of 320', { width: 320, height: 700 }],
  ['a zoom of 200 %', { width: 720, height: 450, scale: 2 }],
] as const)('%s', (_, size) => {
  const shared = new Map<string, Opened>();
  beforeAll(async () => {
    for (const scenario of new Set(PAGES.map(([, , scenario = 'shop']) => scenario)))
      shared.set(scenario, await open('/', { ...size, scenario }));
  });
  afterAll(async () => {
    for (const opened of shared.values()) await done(opened);
  });

  test.each(PAGES)('%s does not scroll sideways', async (name, path, scenario = 'shop') => {
    const { page, base } = shared.get(scenario)!;
    await page.goto(`${base}${path}`);
    await settled(page);
    const found = await page.evaluate(() => {
      const { clientWidth, scrollWidth } = document.documentElement;
      // A button that is cut off cannot be pressed. What is in a box that scrolls can be reached.
      const cut = [...document.querySelectorAll<HTMLElement>('main button, main a, main input')].filter((each) => {
        const box = each.getBoundingClientRect();
        const beyond = box.width > 0 && box.left < clientWidth && box.right > clientWidth + 1;
        return beyond && !each.closest('.scroll-x, .fall, .segments, .tabs');
      });
      // What a phone is for needs no scrolling to the side, not even in a box of its own.
      const boxes = [...document.querySelectorAll<HTMLElement>('.scroll-x:not(.fall, :has(.matrix))')];
      const beyond = boxes
        .filter((each) => each.scrollWidth > each.clientWidth)
        .map((each) => each.firstElementChild?.className);
      return { extra: scrollWidth - clientWidth, cut: cut.map((each) => each.outerHTML.slice(0, 120)), beyond };
    });
    expect(found).toEqual({ extra: 0, cut: [], beyond: WIDE.has(name) ? expect.anything() : [] });
  });
});

describe('forced colours', () => {
  test.each(['/', '/events?consumer=points', '/events/order:10531:paid', '/traces/7d19c0aa4be2f09d44e18a60b1c991fe'])(
    'axe finds nothing on %s',
    async (path) => {
      const opened = await open(path, { forcedColors: 'active' });
      await settled(opened.page);
      // The contrast is that of the person's own colours, which axe does not know.
      expect(await violationsOf(opened.page, { without: ['color-contrast'] })).toEqual([]);
      await done(opened);
    },
  );
  test('what says something by its fill keeps it, and what is chosen has an edge', async () => {
    const opened = await open('/events?consumer=points', { forcedColors: 'active' });
    const { page } = opened;
    const fill = (selector: string) =>
      page
        .locator(selector)
        .first()
        .evaluate((each) => getComputedStyle(each).backgroundColor);
    await page.locator('.meter .m-ok').first().waitFor();
    const canvas = await fill('body');
    const fills = await Promise.all(['ok', 'warn', 'bad'].map((meaning) => fill(`.meter .m-${meaning}`)));
    expect(new Set([canvas, ...fills]).size, 'each meaning has its own fill').toBe(4);
    const edge = (selector: string) =>
      page
        .locator(selector)
        .first()
        .evaluate((each) => getComputedStyle(each).outlineStyle);
    expect(await edge('.rail [aria-current="page"]')).toBe('solid');
    expect(await edge('.segments [aria-pressed="true"]')).toBe('solid');
    await done(opened);
  });
});
