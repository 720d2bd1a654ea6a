// axe finds nothing on any page, in both themes and both languages; no page scrolls sideways on a small screen.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { done, type Opened, open, type Rules, settled, violationsOf } from './setup';

const PAGES: [string, string, string?][] = [
  ['overview', '/'],
  ['promises', '/?panel=promises'],
  ['events', '/events?consumer=points'],
  ['event, consumers', '/events/order:10531:paid'],
  ['event, timeline', '/events/order:10531:paid?tab=timeline'],
  ['event, payload', '/events/order:10531:paid?tab=payload'],
  ['event, envelope', '/events/order:10531:paid?tab=envelope'],
  ['event, trace', '/events/order:10531:paid?tab=trace'],
  ['event, history', '/events/order:10531:paid?tab=history'],
  ['failures', '/failures'],
  ['traces', '/traces'],
  ['trace', '/traces/7d19c0aa4be2f09d44e18a60b1c991fe'],
  ['story', '/stories/123'],
  ['consumers', '/consumers'],
  ['subscriptions', '/subscriptions?topic=order.refunded&consumer=analytics', 'admin'],
  ['operations', '/operations'],
  ['system', '/system'],
  ['audit', '/audit'],
  ['first run', '/', 'first-run'],
  ['store down', '/', 'store-down'],
];

const CONTRAST = ['color-contrast'];
/** A theme changes colours only, and a language texts only, so the mixed pairs look at one of both. */
const VARIANTS: { theme: 'light' | 'dark'; language: 'en' | 'zh'; rules: Rules }[] = [
  { theme: 'light', language: 'en', rules: {} },
  { theme: 'light', language: 'zh', rules: { without: CONTRAST } },
  { theme: 'dark', language: 'en', rules: { only: CONTRAST } },
  { theme: 'dark', language: 'zh', rules: {} },
];

describe.each(VARIANTS)('$theme, $language', ({ theme, language, rules }) => {
  let shared: Opened;
  beforeAll(async () => {
    shared = await open('/', { theme, language });
    await settled(shared.page);
  });
  afterAll(() => done(shared));

  const check = async ({ page, errors }: Opened) => {
    await settled(page);
    expect(await violationsOf(page, rules)).toEqual([]);
    expect(errors).toEqual([]);
  };

  test.each(PAGES.filter(([, , scenario]) => !scenario))('%s', async (_, path) => {
    shared.errors.length = 0;
    await shared.page.goto(`${shared.base}${path}`);
    await check(shared);
  });
  test.each(PAGES.filter(([, , scenario]) => scenario))('%s', async (_, path, scenario) => {
    const opened = await open(path, { theme, language, scenario });
    await check(opened);
    await done(opened);
  });
  test('login', async () => {
    const opened = await open('/login', { theme, language, token: '' });
    await check(opened);
    await done(opened);
  });
});

describe('reflow', () => {
  test.each(PAGES.filter(([name]) => !/trace|subscriptions|timeline/.test(name)))(
    '%s fits a width of 320',
    async (_, path, scenario) => {
      const opened = await open(path, { width: 320, height: 700, scenario });
      await settled(opened.page);
      const extra = await opened.page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect(extra).toBeLessThanOrEqual(0);
      await done(opened);
    },
  );
});
