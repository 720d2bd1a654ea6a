// Tests run against CONSOLE_URL (with CONSOLE_TOKEN), or against the mock where no address is given.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { startMock } from '../dev/server.mjs';
import { launch, openPage } from './open.mjs';

export const REAL = process.env.CONSOLE_URL?.replace(/\/$/, '');
export type Options = {
  theme?: 'light' | 'dark';
  language?: 'en' | 'zh';
  width?: number;
  height?: number;
  token?: string;
  scenario?: string;
  /** The path that the mock is served under. */
  base?: string;
};
export type Opened = {
  page: Page;
  /** Where the console is, without a slash at its end. */
  base: string;
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
export async function open(
  path: string,
  { scenario = 'shop', base: under, ...options }: Options = {},
): Promise<Opened> {
  const mock = REAL ? null : await startMock({ scenario, base: under });
  if (mock) mocks.push(mock);
  const base = REAL ?? mock?.url ?? '';
  const page: Page = await openPage(browser, base, path, options);
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of (4|5)\d\d/.test(message.text())) errors.push(message.text());
  });
  return { page, base, errors, mock };
}

type Sample = { event: string; trace: string; key: string };
let sample: Promise<Sample> | undefined;

/** Things to look at: those of the mock, or the newest event that the real server has. */
async function findSample(): Promise<Sample> {
  if (!REAL) return { event: 'order:10531:paid', trace: '7d19c0aa4be2f09d44e18a60b1c991fe', key: '123' };
  const headers = { authorization: `Bearer ${process.env.CONSOLE_TOKEN}` };
  const answer = await fetch(`${REAL}/api/v1/events?limit=50`, { headers });
  const { events } = (await answer.json()) as { events: { eventId: string; traceId?: string; key?: string }[] };
  const found = events.find((each) => each.key && each.traceId) ?? events[0];
  if (!found) throw new Error(`${REAL} has no event to look at`);
  return { event: found.eventId, trace: found.traceId ?? '', key: found.key ?? '' };
}

/** A path with `{event}`, `{trace}` or `{key}` in it, for what there is. */
export async function pathOf(template: string): Promise<string> {
  sample ??= findSample();
  const found = await sample;
  return template.replace(/\{(event|trace|key)\}/g, (_, name: keyof Sample) => encodeURIComponent(found[name]));
}

export async function done({ page, mock }: Opened): Promise<void> {
  await page.context().close();
  mock?.close();
}
