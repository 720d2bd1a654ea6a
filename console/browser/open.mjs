// Chromium with the flags that a small machine needs, and a page that is logged in.
import { chromium } from 'playwright-core';

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** A page with a theme and a language, logged in by token. */
export async function openPage(browser, base, path, options = {}) {
  const {
    theme = 'light',
    language = 'en',
    width = 1440,
    height = 900,
    token = 'prt_mock',
    before = () => {},
  } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    timezoneId: 'Asia/Shanghai',
    reducedMotion: 'reduce',
  });
  await context.addInitScript(
    (settings) => {
      if (!localStorage.getItem('postrider.settings'))
        localStorage.setItem('postrider.settings', JSON.stringify(settings));
    },
    { theme, language },
  );
  const page = await context.newPage();
  before(page);
  await page.goto(`${base}${path}${token ? `#token=${token}` : ''}`);
  return page;
}
