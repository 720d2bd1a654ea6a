// Chromium with the flags that a small machine needs, and a page that is logged in.
import { existsSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
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

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** The pages of `dist/` instead of those that the executable has, with its own headers. */
async function serveBuild(context, base) {
  const index = readFileSync(join(DIST, 'index.html'));
  await context.route(
    (url) => url.href.startsWith(`${base}/`) && !/^\/(api|readyz|livez)/.test(url.pathname),
    async (route) => {
      const request = route.request();
      if (request.isNavigationRequest()) return route.fulfill({ response: await route.fetch(), body: index });
      const file = join(DIST, new URL(request.url()).pathname);
      return existsSync(file)
        ? route.fulfill({ body: readFileSync(file), contentType: TYPES[extname(file)] ?? 'application/octet-stream' })
        : route.continue();
    },
  );
}

/** A page with a theme and a language, logged in by token. */
export async function openPage(browser, base, path, options = {}) {
  const {
    theme = 'light',
    language = 'en',
    width = 1440,
    height = 900,
    token = 'prt_mock',
    cookies = [],
    build = false,
    scale = 1,
    forcedColors = null,
    before = () => {},
  } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    deviceScaleFactor: scale,
    forcedColors,
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
  await context.addCookies(cookies);
  if (build) await serveBuild(context, base);
  const page = await context.newPage();
  before(page);
  await page.goto(`${base}${path}${token ? `#token=${token}` : ''}`);
  return page;
}
