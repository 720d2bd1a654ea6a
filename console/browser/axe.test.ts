// axe finds nothing on any page, in both themes and both languages; no page scrolls sideways on a small screen.
import AxeBuilder from '@axe-core/playwright';
import { describe, expect, test } from 'vitest';
import { done, open, pathOf, REAL } from './setup';

const ALL: [string, string, string?][] = [
  ['overview', '/'],
  ['promises', '/?panel=promises'],
  ['events', '/events?consumer=points'],
  ['event, consumers', '/events/{event}'],
  ['event, timeline', '/events/{event}?tab=timeline'],
  ['event, payload', '/events/{event}?tab=payload'],
  ['event, envelope', '/events/{event}?tab=envelope'],
  ['event, trace', '/events/{event}?tab=trace'],
  ['event, history', '/events/{event}?tab=history'],
  ['failures', '/failures'],
  ['traces', '/traces'],
  ['trace', '/traces/{trace}'],
  ['story', '/stories/{key}'],
  ['consumers', '/consumers'],
  ['subscriptions', '/subscriptions?topic=order.refunded&consumer=analytics', 'admin'],
  ['operations', '/operations'],
  ['system', '/system'],
  ['audit', '/audit'],
  ['first run', '/', 'first-run'],
  ['store down', '/', 'store-down'],
];
/** A real server is in no scenario. */
const PAGES = ALL.filter(([, , scenario]) => !REAL || scenario === undefined || scenario === 'admin');

for (const theme of ['light', 'dark'] as const) {
  for (const language of ['en', 'zh'] as const) {
    describe(`${theme}, ${language}`, () => {
      test.each(PAGES)('%s', async (_, path, scenario) => {
        const opened = await open(await pathOf(path), { theme, language, scenario });
        await opened.page.waitForTimeout(500);
        const { violations } = await new AxeBuilder({ page: opened.page })
          .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'])
          .analyze();
        expect(
          violations.map(
            (each) =>
              `${each.id}: ${each.nodes
                .map((node) => `${node.target.join(' ')} ${(node.failureSummary ?? '').slice(0, 200)}`)
                .slice(0, 3)
                .join(' | ')}`,
          ),
        ).toEqual([]);
        expect(opened.errors).toEqual([]);
        await done(opened);
      });
      test('login', async () => {
        const opened = await open('/login', { theme, language, token: '' });
        await opened.page.waitForTimeout(300);
        const { violations } = await new AxeBuilder({ page: opened.page }).analyze();
        expect(violations.map((each) => each.id)).toEqual([]);
        await done(opened);
      });
    });
  }
}

describe('reflow', () => {
  test.each(PAGES.filter(([name]) => !/trace|subscriptions|timeline/.test(name)))(
    '%s fits a width of 320',
    async (_, path, scenario) => {
      const opened = await open(await pathOf(path), { width: 320, height: 700, scenario });
      await opened.page.waitForTimeout(500);
      const extra = await opened.page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect(extra).toBeLessThanOrEqual(0);
      await done(opened);
    },
  );
});
