// Tests run against CONSOLE_URL (with CONSOLE_TOKEN), or against the mock where no address is given.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { startMock } from '../dev/server.mjs';
import { launch, openPage } from './open.mjs';

export const REAL = process.env.CONSOLE_URL;
export type Options = {
  theme?: 'light' | 'dark';
  language?: 'en' | 'zh';
  width?: number;
  height?: number;
  token?: string;
  scenario?: string;
};
export type Opened = {
  page: Page;
  errors: string[];
  mock: { url: string; state: Record<string, unknown>; close: () => void } | null;
};

let browser: Browser;
const mocks: { close: () => void }[] = [];

beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  for (const mock of mocks) mock.close();
});

/** A page of the console, logged in. Errors of the page, also refusals by the content security policy, are collected. */
export async function open(path: string, { scenario = 'shop', ...options }: Options = {}): Promise<Opened> {
  const mock = REAL ? null : await startMock({ scenario });
  if (mock) mocks.push(mock);
  const page: Page = await openPage(browser, REAL ?? mock?.url ?? '', path, options);
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of (4|5)\d\d/.test(message.text())) errors.push(message.text());
  });
  return { page, errors, mock };
}

export async function done({ page, mock }: Opened): Promise<void> {
  await page.context().close();
  mock?.close();
}
