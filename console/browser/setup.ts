// A page of the console in Chromium: on a real server where one is given, else on a mock of its own.
import AxeBuilder from '@axe-core/playwright';
import type { Browser, Cookie, Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { startMock } from '../dev/server.mjs';
import { launch, openPage } from './open.mjs';
import type { Server } from './real/server';

export type Options = {
  theme?: 'light' | 'dark';
  language?: 'en' | 'zh';
  width?: number;
  height?: number;
  token?: string;
  /** Device pixels for each pixel of the page, as after zooming. */
  scale?: number;
  forcedColors?: 'active';
  scenario?: string;
  server?: Server;
  /** The path that the mock is served under. */
  base?: string;
};
export type Opened = {
  page: Page;
  /** Where the console is, without a slash at its end. */
  base: string;
  errors: string[];
  /** Calls that were answered with an error. */
  refused: string[];
  mock: { url: string; state: Record<string, unknown>; close: () => void } | null;
};

let browser: Browser;
/** Sessions by server and token: a server refuses many logins in a short time. */
const sessions = new Map<string, Cookie[]>();
const mocks: { close: () => void }[] = [];

beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  for (const mock of mocks) mock.close();
});

/** A page of the console, logged in. Errors of the page, also refusals by the content security policy, are collected. */
export async function open(
  path: string,
  { scenario = 'shop', base: under, server, ...options }: Options = {},
): Promise<Opened> {
  const mock = server ? null : await startMock({ scenario, base: under });
  if (mock) mocks.push(mock);
  const base = server?.url ?? mock?.url ?? '';
  const errors: string[] = [];
  const refused: string[] = [];
  const before = (page: Page) => {
    page.on('pageerror', (error) => errors.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error' && !/status of (4|5)\d\d/.test(message.text())) errors.push(message.text());
    });
    page.on('response', (answer) => {
      if (answer.status() >= 400) refused.push(`${answer.status()} ${new URL(answer.url()).pathname}`);
    });
  };
  const token = options.token ?? server?.token;
  const who = `${base} ${token}`;
  const cookies = sessions.get(who);
  const page: Page = await openPage(browser, base, path, {
    before,
    ...options,
    token: cookies ? '' : token,
    cookies,
    // CONSOLE_DIST=1: for an executable that was built before the console.
    build: server !== undefined && !!process.env.CONSOLE_DIST,
  });
  if (server && token && !cookies) {
    await page.locator('header.top').waitFor();
    sessions.set(who, await page.context().cookies());
  }
  return { page, base, errors, refused, mock };
}

/** Waits until a page has its data. */
export async function settled(page: Page): Promise<void> {
  // On a narrow screen the title of a page may be hidden.
  await page.locator('main h1, .login h1, main .card').first().waitFor({ state: 'attached' });
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"]') === null);
}

const SHOTS = new URL('../shots/', import.meta.url).pathname;
export const SIZES = [
  [1440, 900],
  [768, 1024],
  [390, 844],
] as const;

/** Writes a picture of the page in each width. */
export async function picture(page: Page, name: string): Promise<void> {
  for (const [width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    await page.screenshot({ path: `${SHOTS}${name}-${width}.png` });
  }
  await page.setViewportSize({ width: SIZES[0][0], height: SIZES[0][1] });
}

type Rules = { without?: string[] };

/** What axe finds against WCAG 2.2 AA, one line each. */
export async function violationsOf(page: Page, { without }: Rules = {}): Promise<string[]> {
  const axe = new AxeBuilder({ page });
  // The pages have no frames; looking for some would open a second page for each.
  axe.setLegacyMode(true);
  // Only what is wrong is written down in full, which is most of the work.
  axe.options({ resultTypes: ['violations'] });
  axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']);
  if (without) axe.disableRules(without);
  const { violations } = await axe.analyze();
  const nodes = (each: (typeof violations)[number]) =>
    each.nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${(node.failureSummary ?? '').slice(0, 200)}`);
  return violations.map((each) => `${each.id}: ${nodes(each).join(' | ')}`);
}

export async function done({ page, mock }: Opened): Promise<void> {
  await page.context().close();
  mock?.close();
}
