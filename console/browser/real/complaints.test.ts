// What users of comparable consoles complain about, on the real executable: `postrider demo` with its shop under traffic. Each
// test is named after its complaint, with the issues that say it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { done, type Opened, open, settled } from '../setup';
import { Server } from './server';

let server: Server;
beforeAll(async () => {
  server = await Server.start('demo');
});
afterAll(() => server?.stop());

const ERROR = 'ledger answered 503 Service Unavailable: upstream connect error before headers';
const GAVE_UP = { success: false, willRetry: false, errorCode: '503', errorMessage: ERROR };
const LATER = new Date(Date.now() + 3_600_000).toISOString();
const event = (id: string) => `/events/${encodeURIComponent(id)}`;
const text = ({ page }: Opened, words: string | RegExp) => page.getByText(words).first();

/** Events that their only consumer gave up. */
async function giveUp(consumer: string, ids: string[]): Promise<void> {
  const topic = `${consumer}.asked`;
  await server.subscribe(topic, consumer);
  await server.call('POST', '/events/batch', { events: ids.map((eventId) => ({ eventId, topic, payload: {} })) });
  for (let left = ids.length; left > 0; ) left -= await server.work(consumer, GAVE_UP, ids.length);
}

describe('complaints', () => {
  /** D.13: what waits is in the list at once, and says why. */
  test('waiting events are invisible (CAP #228, #1366, #1679)', async () => {
    await server.subscribe('wait.asked', 'waiter');
    await server.publish({ eventId: 'wait:now', topic: 'wait.asked' });
    await server.publish({ eventId: 'wait:later', topic: 'wait.asked', deliverAt: LATER });
    const opened = await open('/events?consumer=waiter&status=PENDING,SENT', { server });
    const { page } = opened;
    for (const id of ['wait:now', 'wait:later']) await page.locator('tbody tr', { hasText: id }).waitFor();
    await page.goto(`${opened.base}${event('wait:later')}`);
    await page.getByRole('heading', { name: /It is for later: in / }).waitFor();
    await page.goto(`${opened.base}${event('wait:now')}`);
    await page.locator('.why h2').waitFor();
    await done(opened);
  });

  /** D.13: the error of an attempt stands beside it, in the list's panel, and in the group. */
  test('there is no error text (CAP #505)', async () => {
    await giveUp('texts', ['texts:1']);
    const opened = await open(event('texts:1'), { server });
    const { page } = opened;
    await page.locator('.attempt-error', { hasText: ERROR }).waitFor();
    await page.goto(`${opened.base}/events?sel=texts:1`);
    await page.getByRole('complementary').getByText(ERROR).waitFor();
    await page.goto(`${opened.base}/failures?consumer=texts`);
    await page.getByRole('complementary').getByText(ERROR).waitFor();
    // Whether a redrive would help: the consumer's last attempts.
    await page.locator('.panel .wellness .m-bad').first().waitFor();
    await text(opened, 'Redriving now would most likely fail again.').waitFor();
    await done(opened);
  });

  /** D.13: the list waits for no count, shows no 0 in its place, and asks for counts once a view. */
  test('counts melt the database (riverui #106, good_job #1532, CAP #811)', async () => {
    const opened = await open('/audit', { server });
    const { page } = opened;
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    let asked = 0;
    // These counts never come.
    await page.route('**/api/v1/counts*', () => {
      asked += 1;
    });
    await page.getByRole('link', { name: 'Events', exact: true }).first().click();
    await page.locator('.event-table tbody tr').first().waitFor();
    expect(await page.locator('.segments small, .facet small').count(), 'no figure without a count').toBe(0);
    const first = asked;
    // The stream has brought new events twice since then.
    const pill = page.locator('.new-pill');
    await pill.waitFor();
    const shown = (await pill.textContent()) ?? '';
    await page.waitForFunction((old) => document.querySelector('.new-pill')?.textContent !== old, shown);
    expect(asked, 'counts are not polled').toBe(first);
    await done(opened);
  });

  /** D.13 G.11: search finds topics by a part of their name. */
  test('there is no search (Hangfire #717, bull-board #154)', async () => {
    const opened = await open('/consumers', { server });
    const { page } = opened;
    await page.locator('.consumers tbody tr').first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('order.pa');
    await page
      .getByRole('option', { name: /order\.paid/ })
      .first()
      .waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/(events|stories|consumers)/);
    await done(opened);
  });

  /** D.13 G.11: the start of an id, a trace and a key are found as they are pasted, also with spaces around them. */
  test('an id is only found with the exact syntax (temporalio/ui #1483)', async () => {
    const traceId = '5ca1ab1eaa4be2f09d44e18a60b1c991';
    await server.subscribe('syntax.asked', 'syntax');
    await server.publish({ eventId: 'syntax-9f3c:1', topic: 'syntax.asked', key: 'SYN-77', traceId });
    const opened = await open('/', { server });
    const { page } = opened;
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    for (const [typed, found] of [
      ['syntax-9f3c:1', /syntax-9f3c:1/],
      ['syntax-9f', /syntax-9f3c:1/],
      [' SYN-77 ', /SYN-77/],
      [traceId, /5ca1ab1e/],
    ] as const) {
      await page.keyboard.press('Control+k');
      await page.keyboard.type(typed);
      await page.getByRole('option', { name: found }).first().waitFor();
      await page.keyboard.press('Escape');
    }
    await done(opened);
  });

  /** D.13 D.8: a selection of everything that matches is one operation on all of it, beyond the page. */
  test('bulk acts reach only the visible page (Hangfire #1442, Convoy #260)', async () => {
    const ids = Array.from({ length: 70 }, (_, index) => `bulk:${index}`);
    await giveUp('bulk', ids);
    const opened = await open('/events?consumer=bulk&delivery=DEAD', { server });
    const { page } = opened;
    await page.locator('.event-table tbody tr').nth(49).waitFor();
    expect(await page.locator('.event-table tbody tr').count(), 'a page has 50').toBe(50);
    await page.getByLabel('Select the page').click();
    await page.getByRole('button', { name: 'Select all 70 that match' }).click();
    await page
      .getByRole('toolbar')
      .getByRole('button', { name: /Redrive/ })
      .click();
    // A ramp would wait for results of a consumer that does not work here.
    await page.getByRole('button', { name: 'All at once' }).click();
    await page.getByRole('button', { name: 'Check' }).last().click();
    await text(opened, 'of 70 will be redriven').waitFor();
    await page.getByRole('button', { name: 'Reason' }).last().click();
    await page.getByLabel('Reason').fill('all of them');
    await page.getByRole('button', { name: 'Start' }).click();
    await page.waitForURL(/operations\?sel=/);
    await page.locator('.big .pill.m-ok', { hasText: 'Done' }).waitFor();
    const id = new URL(page.url()).searchParams.get('sel');
    expect(await server.call('GET', `/operations/${id}`)).toMatchObject({ total: 70, done: 70, state: 'DONE' });
    for (let left = ids.length; left > 0; ) left -= await server.work('bulk', { success: true }, ids.length);
    await done(opened);
  });

  /** D.13 D.8: a mass redrive has a rate, which is the one of its operation. */
  test('mass retry has no rate and no order (ServicePulse #2764, river #971)', async () => {
    await giveUp('pace', ['pace:1', 'pace:2', 'pace:3']);
    const opened = await open('/failures?consumer=pace', { server });
    const { page } = opened;
    await page.getByRole('button', { name: 'Redrive 3…' }).click();
    await page.getByRole('button', { name: 'Fixed rate' }).click();
    await page.getByLabel('Fixed rate').last().fill('7');
    await page.getByRole('button', { name: 'Check' }).last().click();
    await text(opened, 'of 3 will be redriven').waitFor();
    await page.getByRole('button', { name: 'Reason' }).last().click();
    await page.getByLabel('Reason').fill('slowly');
    const sent = page.waitForRequest((request) => request.postData()?.includes('"dryRun":false') ?? false);
    await page.getByRole('button', { name: 'Start' }).click();
    expect((await sent).postDataJSON()).toMatchObject({ ratePerSecond: 7 });
    await page.waitForURL(/operations\?sel=/);
    const id = new URL(page.url()).searchParams.get('sel');
    expect(await server.call('GET', `/operations/${id}`)).toMatchObject({ ratePerSecond: 7 });
    await page.locator('.big .pill.m-ok', { hasText: 'Done' }).waitFor();
    await page.locator('.big footer code', { hasText: '--rate 7' }).waitFor();
    for (let left = 3; left > 0; ) left -= await server.work('pace', { success: true }, 3);
    await done(opened);
  });

  /** D.13: an operation says how many were redriven, skipped and refused, by whom and why; the event says what came of it. */
  test('the result of a retry is unclear (ServicePulse #391, #1212)', async () => {
    await giveUp('result', ['result:1', 'result:2']);
    const opened = await open('/failures?consumer=result', { server });
    const { page } = opened;
    await page.getByRole('button', { name: 'Redrive 2…' }).click();
    await page.getByRole('button', { name: 'All at once' }).click();
    await page.getByRole('button', { name: 'Check' }).last().click();
    await page.getByRole('button', { name: 'Reason' }).last().click();
    await page.getByLabel('Reason').fill('the ledger is back');
    await page.getByRole('button', { name: 'Start' }).click();
    await page.waitForURL(/operations\?sel=/);
    const big = page.locator('.big');
    await big.locator('.pill.m-ok', { hasText: 'Done' }).waitFor();
    expect(await big.locator('.big-done').textContent()).toBe('2');
    for (const words of ['of 2 · 100 %', 'skipped: done meanwhile', 'refused by a rule', 'the ledger is back'])
      await big.getByText(words).first().waitFor();
    expect(await server.work('result', { success: true })).toBe(1);
    expect(await server.work('result', GAVE_UP)).toBe(1);
    await page.goto(`${opened.base}${event('result:1')}`);
    await page.getByRole('tab', { name: /Consumers/ }).waitFor();
    const pills = await Promise.all(
      ['result:1', 'result:2'].map(async (id) => (await server.call('GET', event(id))).status),
    );
    expect(pills.sort(), 'one is well, one failed again').toEqual(['CONSUMED', 'FAILED']);
    await done(opened);
  });

  /** D.13: production looks like production, and a destructive act needs a question, a reason and another button. */
  test('a stray click deletes, and production is mistaken for local (riverui #582)', async () => {
    const production = await Server.start('serve', undefined, ['--set', 'server.environment=production']);
    await production.subscribe('stray.asked', 'stray');
    await production.publish({ eventId: 'stray:1', topic: 'stray.asked' });
    const opened = await open(event('stray:1'), { server: production });
    const { page } = opened;
    await page.getByRole('button', { name: 'Expire…' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button').first().textContent()).toBe('Cancel');
    await dialog.getByLabel('Reason').press('Enter');
    expect(await dialog.isVisible(), 'Enter confirms nothing without a reason').toBe(true);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(await production.call('GET', '/events/stray:1')).not.toMatchObject({ status: 'EXPIRED' });
    await page.waitForFunction(() => document.title.startsWith('PRODUCTION · '));
    const line = () =>
      page.locator('.shell').evaluate((each) => getComputedStyle(each).getPropertyValue('--env').trim());
    expect(await line()).toBe('#8a2f7c');
    const local = await open('/', { server });
    await local.page.getByRole('heading', { name: 'Overview' }).waitFor();
    // The name of the environment comes with the session.
    await local.page.waitForFunction(() => document.title.startsWith('LOCAL · '));
    await done(local);
    await done(opened);
    await production.stop();
  });

  /** S1 S3: without a token there is the login and nothing else, on any page and any call. */
  test('the console is open by default (Hangfire #1958, asynqmon #78)', async () => {
    const opened = await open('/', { server, token: '' });
    const { page } = opened;
    for (const path of ['/', '/events', '/events/x', '/failures', '/system', '/audit']) {
      await page.goto(`${opened.base}${path}`);
      await page.getByLabel('Token', { exact: true }).waitFor();
      expect(await page.locator('table').count()).toBe(0);
    }
    for (const path of ['events', 'events/x', 'counts', 'stats', 'stream', 'config', 'audit', 'search?q=order'])
      expect((await page.request.get(`${opened.base}/api/v1/${path}`)).status(), path).toBe(401);
    await done(opened);
  });

  /** D.13 S14: a payload of 1 MiB does not freeze the tab; its beginning is shown, and the download has all of it. */
  test('a big payload freezes the tab (asynqmon #186, redpanda console #627)', async () => {
    const items: string[] = [];
    let size = '{"items":[]}'.length;
    for (let index = 0; ; index += 1) {
      const item = `{"sku":"P-${index}","id":${9007199254740993n + BigInt(index)}}`;
      if (size + item.length + 1 > 1024 * 1024) break;
      size += item.length + 1;
      items.push(item);
    }
    const payload = `{"items":[${items.join(',')}]}`;
    expect(payload.length, 'just below the limit').toBeGreaterThan(1024 * 1024 - 64);
    await server.subscribe('big.asked', 'big');
    await server.call('POST', '/events', `{"eventId":"big:1","topic":"big.asked","payload":${payload}}`);
    const opened = await open('/events?topic=big.asked', { server });
    const { page } = opened;
    await page.locator('tbody tr', { hasText: 'big:1' }).waitFor();
    await page.evaluate(() => {
      const store = window as unknown as { longest: number };
      store.longest = 0;
      new PerformanceObserver((all) => {
        for (const each of all.getEntries()) store.longest = Math.max(store.longest, each.duration);
      }).observe({ type: 'longtask' });
    });
    await page.locator('tbody tr .id').first().click();
    await page.getByRole('tab', { name: /Payload/ }).click();
    await text(opened, /Only the first 64.0 KiB are shown/).waitFor();
    expect(await page.locator('.payload').evaluate((each) => each.querySelectorAll('*').length)).toBeLessThan(3_000);
    const longest = await page.evaluate(() => (window as unknown as { longest: number }).longest);
    expect(longest, 'longest task in ms').toBeLessThan(1_000);
    const file = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download' }).click();
    const stream = await (await file).createReadStream();
    let whole = '';
    for await (const chunk of stream) whole += chunk;
    expect(whole === payload, 'the download is what was published').toBe(true);
    await done(opened);
  });

  /** D.13: integers of 64 bits stay whole in the payload, in filters and in addresses. */
  test('ids of 64 bits are rounded (riverui #593, akhq #2402)', async () => {
    const id = '9223372036854775807';
    await server.subscribe('wide.asked', 'wide');
    await server.call(
      'POST',
      '/events',
      `{"eventId":"wide:1","topic":"wide.asked","key":"${id}","payload":{"paymentId":${id},"other":9007199254740993}}`,
    );
    const opened = await open(`${event('wide:1')}?tab=payload`, { server });
    const { page } = opened;
    await text(opened, id).waitFor();
    await text(opened, '9007199254740993').waitFor();
    await page.goto(`${opened.base}/events?key=${id}`);
    await page.locator('tbody tr', { hasText: 'wide:1' }).waitFor();
    expect(page.url()).toContain(id);
    await done(opened);
  });

  /** D.13: times are in the zone of the browser, which is named, or in UTC. */
  test('times are in the wrong zone (temporalio/web #418)', async () => {
    const opened = await open('/', { server });
    const { page } = opened;
    const shown = async () => {
      const head = await page.locator('.page-head .meta').first().textContent();
      const [, hour, minute] = /(\d\d):(\d\d):\d\d/.exec(head ?? '')!;
      return Number(hour) * 60 + Number(minute);
    };
    const minutes = () => new Date().getUTCHours() * 60 + new Date().getUTCMinutes();
    const apart = (a: number, b: number) => Math.min(Math.abs(a - b), 1440 - Math.abs(a - b));
    await page.getByRole('button', { name: /Time zone UTC\+8/ }).click();
    await page.getByRole('button', { name: /Time zone UTC;/ }).waitFor();
    expect(apart(await shown(), minutes())).toBeLessThanOrEqual(1);
    await page.getByRole('button', { name: /Time zone UTC;/ }).click();
    await page.getByRole('button', { name: /Time zone UTC\+8/ }).waitFor();
    expect(apart(await shown(), (minutes() + 480) % 1440)).toBeLessThanOrEqual(1);
    await done(opened);
  });

  /** D.13: a row that changed elsewhere changes where it stands, without a reload. */
  test('list and reality disagree (oban #1114)', async () => {
    await giveUp('truth', ['truth:1']);
    const opened = await open('/events?consumer=truth', { server });
    const { page } = opened;
    const row = page.locator('tbody tr', { hasText: 'truth:1' });
    await row.getByText('Failed').waitFor();
    await server.call('POST', '/events/truth:1/redrive', { reason: 'by another person' });
    expect(await server.work('truth', { success: true })).toBe(1);
    await row.getByText('Consumed').waitFor();
    await row.getByText('1/1').waitFor();
    await done(opened);
  });

  /** D.13: only a reason is typed; which event and which consumer is known. */
  test('a requeue needs queue names to be typed again (rabbitmq-server #10937)', async () => {
    await giveUp('again', ['again:1']);
    const opened = await open(event('again:1'), { server });
    const { page } = opened;
    await page.getByRole('button', { name: 'Redrive only again…' }).click();
    const dialog = page.getByRole('dialog');
    const fields = dialog.getByRole('textbox');
    expect(await fields.count(), 'only the reason is typed').toBe(1);
    await fields.fill('repaired');
    await dialog.getByRole('button', { name: 'Redrive', exact: true }).click();
    expect(await server.work('again', { success: true })).toBe(1);
    await page.locator('.pill.m-ok', { hasText: 'Consumed 1/1' }).waitFor();
    await done(opened);
  });

  /** D.13: each page has its Chinese name and no sentence in English. */
  test('there is no Chinese (kafbat #1000)', async () => {
    const opened = await open('/', { server, language: 'zh' });
    const { page } = opened;
    for (const [path, title] of [
      ['/', '概览'],
      ['/events', '事件'],
      ['/failures', '失败'],
      ['/traces', '链路'],
      ['/consumers', '消费者'],
      ['/subscriptions', '订阅关系'],
      ['/operations', '批量操作'],
      ['/system', '系统'],
      ['/audit', '审计'],
    ] as const) {
      await page.goto(`${opened.base}${path}`);
      await page.getByRole('heading', { name: title, exact: true }).first().waitFor();
      await settled(page);
      expect(await page.evaluate(() => document.documentElement.lang)).toBe('zh-CN');
      const words = await page
        .locator('h1, thead th:not(.slant), .tile-label, .rail nav a, .card > header h2')
        .allTextContents();
      // Names of the product and its parts are the same in both languages.
      const english = words.filter((each) => /[a-z]{4}/.test(each) && !/[\u4e00-\u9fff]/.test(each));
      expect(english.filter((each) => !/postrider/.test(each))).toEqual([]);
    }
    await done(opened);
  });
});
