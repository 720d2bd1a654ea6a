// axe finds nothing on any page, in both themes and both languages, and a picture of each in three widths is written to shots/.
// A file for each theme, so that they run side by side.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PAGES } from './pages';
import { done, type Opened, open, picture, settled, violationsOf } from './setup';

export function axe(theme: 'light' | 'dark'): void {
  describe.each(['en', 'zh'] as const)(`axe, ${theme}, %s`, (language) => {
    const options = { theme, language };
    let shared: Opened;
    beforeAll(async () => {
      shared = await open('/', options);
      await settled(shared.page);
    });
    afterAll(() => done(shared));

    const check = async ({ page, errors }: Opened) => {
      await settled(page);
      expect(await violationsOf(page)).toEqual([]);
      expect(errors).toEqual([]);
    };

    const keep = ({ page }: Opened, name: string) =>
      picture(page, `${name.replace(', ', '-').replace(' ', '-')}-${theme}-${language}`);

    test.each(PAGES.filter(([, , scenario]) => !scenario))('%s', async (name, path) => {
      shared.errors.length = 0;
      await shared.page.goto(`${shared.base}${path}`);
      await check(shared);
      await keep(shared, name);
    });
    test.each(PAGES.filter(([, , scenario]) => scenario))('%s', async (name, path, scenario) => {
      const opened = await open(path, { ...options, scenario });
      await check(opened);
      await keep(opened, name);
      await done(opened);
    });
    test('login', async () => {
      const opened = await open('/login', { ...options, token: '' });
      await check(opened);
      await keep(opened, 'login');
      await done(opened);
    });
    test('the search, the wizard and a question', async () => {
      const opened = await open('/failures', options);
      const { page } = opened;
      await page.locator('.failures tbody tr').first().waitFor();
      await page.keyboard.press('Control+k');
      await page.keyboard.type('10492');
      await page.getByRole('option').nth(2).waitFor();
      await check(opened);
      await page.keyboard.press('Escape');
      await page.locator('.panel .btn.primary').click();
      await page.locator('.wizard .ramp').waitFor();
      await check(opened);
      await page.locator('.wizard footer .btn.primary').click();
      await page.locator('.findings li').first().waitFor();
      await check(opened);
      await page.keyboard.press('Escape');
      await page.locator('.panel footer .btn.icon').click();
      await page.locator('dialog form').waitFor();
      await check(opened);
      await done(opened);
    });
  });
}
