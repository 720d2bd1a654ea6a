// What users of comparable consoles complain about. Each test is named after its complaint, with the issues that say it.
import { describe, expect, test } from 'vitest';
import { done, type Opened, open } from './setup';

type Stored = Record<string, unknown>;

describe('complaints', () => {
  test('waiting events are invisible (CAP #228, #1366, #1679)', async () => {
    const opened = await open('/events?status=PENDING');
    await opened.page.getByRole('row', { name: /order 10534/ }).waitFor();
    await opened.page.goto(`${opened.base}/events/order:10600:paid`);
    await opened.page.getByRole('heading', { name: /It is for later/ }).waitFor();
    await opened.page.goto(`${opened.base}/events/order:10492:refunded`);
    await opened.page.getByRole('heading', { name: 'Held behind a dead event of the same key' }).waitFor();
    await done(opened);
  });

  test('there is no error text (CAP #505)', async () => {
    const opened = await open('/events/order:10518:paid');
    await opened.page.getByText('reset reason: connection failure').first().waitFor();
    await opened.page.goto(`${opened.base}/events?sel=order:10518:paid`);
    await opened.page.getByRole('complementary').getByText('reset reason: connection failure').waitFor();
    await done(opened);
  });

  test('counts melt the database (riverui #106, good_job #1532, CAP #811)', async () => {
    const opened = await open('/login', { token: '' });
    const { page } = opened;
    let asked = 0;
    await page.route('**/api/v1/counts*', () => {
      // Counts that never come: the list does not wait for them and shows no 0 in their place.
      asked += 1;
    });
    await page.goto(`${opened.base}/events?consumer=points#token=prt_mock`);
    await page.reload();
    await page.getByRole('row', { name: /order 10533/ }).waitFor();
    expect(await page.getByRole('button', { name: 'Dead', exact: true }).count()).toBe(1);
    const first = asked;
    await page.waitForTimeout(6_000);
    expect(asked, 'counts are not polled').toBe(first);
    await page.unroute('**/api/v1/counts*');
    await page.reload();
    await page.getByText('≈ 12,480 match').waitFor();
    await done(opened);
  });

  test('there is no search (Hangfire #717, bull-board #154)', async () => {
    const opened = await open('/consumers');
    await opened.page.getByRole('button', { name: 'wallet', exact: true }).waitFor();
    await opened.page.keyboard.press('/');
    await opened.page.keyboard.type('order.ref');
    await opened.page
      .getByRole('option', { name: /order.refunded/ })
      .first()
      .waitFor();
    await done(opened);
  });

  test('an id is only found with the exact syntax (temporalio/ui #1483)', async () => {
    const opened = await open('/');
    const { page } = opened;
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    for (const [typed, found] of [
      ['order:10531:paid', /order:10531:paid/],
      ['order:10531', /order:10531:paid/],
      [' 10492 ', /Order 10492/],
      ['7f3a4be29d10477a8a01c4d2aa77c21e', /7f3a4be2/],
    ] as const) {
      await page.keyboard.press('Control+k');
      await page.keyboard.type(typed);
      await page.getByRole('option', { name: found }).first().waitFor();
      await page.keyboard.press('Escape');
    }
    await done(opened);
  });

  test('bulk acts reach only the visible page (Hangfire #1442, Convoy #260)', async () => {
    const opened = await open('/events?consumer=points');
    const { page } = opened;
    await page.getByLabel('Select the page').click();
    await page.getByRole('button', { name: /Select all ≈ 12,480 that match/ }).click();
    await page
      .getByRole('toolbar')
      .getByRole('button', { name: /Redrive/ })
      .click();
    const sent = page.waitForRequest((request) => request.postData()?.includes('"dryRun":false') ?? false);
    await page.getByRole('button', { name: 'Check' }).last().click();
    await page.getByText(/of 12,480 will be redriven/).waitFor();
    await page.getByRole('button', { name: 'Reason' }).last().click();
    await page.getByLabel('Reason').fill('all of them');
    await page.getByLabel('Type prod to confirm').fill('prod');
    await page.getByRole('button', { name: 'Start' }).click();
    const body = (await sent).postDataJSON();
    expect(body.filter).toEqual({ consumerId: 'points' });
    expect(body.eventIds).toBeUndefined();
    await done(opened);
  });

  test('mass retry has no rate and no order (ServicePulse #2764, river #971)', async () => {
    const opened = await open('/failures');
    const { page } = opened;
    await page.getByRole('button', { name: 'Redrive 1,284…' }).click();
    await page.getByText('the rest, about 24 s').waitFor();
    const asked = page.waitForRequest((request) => request.postData()?.includes('ratePerSecond') ?? false);
    await page.getByRole('button', { name: 'Fixed rate' }).click();
    const body = (await asked).postDataJSON();
    expect(body).toMatchObject({ ratePerSecond: 50, oldestFirst: true, failureGroup: 'g-points-503' });
    await done(opened);
  });

  test('the result of a retry is unclear (ServicePulse #391, #1212)', async () => {
    const opened = await open('/operations');
    for (const word of ['delivered', 'failed again', 'no result yet', 'skipped: done meanwhile', 'refused by a rule']) {
      await opened.page.getByText(word, { exact: true }).first().waitFor();
    }
    await opened.page.getByText('93 well, 3 failed again').waitFor();
    await opened.page.getByText('Stopped itself').waitFor();
    await done(opened);
  });

  test('a stray click deletes, and production is mistaken for local (riverui #582)', async () => {
    const opened = await open('/events/order:10518:paid');
    const { page } = opened;
    await page.getByRole('button', { name: 'Expire…' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button').first().textContent()).toBe('Cancel');
    await dialog.getByLabel('Reason').press('Enter');
    expect(await dialog.isVisible()).toBe(true);
    await page.keyboard.press('Escape');
    expect(await page.title()).toMatch(/^PROD · /);
    await page.locator('.env', { hasText: 'PROD' }).first().waitFor();
    const line = await page
      .locator('.shell')
      .evaluate((each) => getComputedStyle(each).getPropertyValue('--env').trim());
    expect(line).toBe('#8a2f7c');
    await done(opened);
  });

  test('the console is open by default (Hangfire #1958, asynqmon #78)', async () => {
    const opened = await open('/events', { token: '' });
    await opened.page.getByLabel('Token', { exact: true }).waitFor();
    expect(await opened.page.locator('table').count()).toBe(0);
    const answer = await opened.page.request.get(`${opened.base}/api/v1/events`);
    expect(answer.status()).toBe(401);
    await done(opened);
  });

  test('a big payload freezes the tab (asynqmon #186, redpanda console #627)', async () => {
    const opened = await open('/');
    const { page } = opened;
    const list = opened.mock!.state.events as Stored[];
    const items = Array.from({ length: 20_000 }, (_, index) => `{"sku":"P-${index}","n":${index}}`);
    list.unshift({ ...list[0], eventId: 'big', _payload: `{"items":[${items.join(',')}]}` });
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.evaluate(() => {
      const store = window as unknown as { longest: number };
      store.longest = 0;
      new PerformanceObserver((all) => {
        for (const each of all.getEntries()) store.longest = Math.max(store.longest, each.duration);
      }).observe({ type: 'longtask' });
    });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('big');
    await page.getByRole('option', { name: /big/ }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('tab', { name: /Payload/ }).click();
    await page.getByText('Only the first 64.0 KiB are shown. Download has all of it.').waitFor();
    expect(await page.locator('.payload').evaluate((each) => each.querySelectorAll('*').length)).toBeLessThan(3_000);
    const longest = await page.evaluate(() => (window as unknown as { longest: number }).longest);
    expect(longest, 'longest task in ms').toBeLessThan(500);
    await done(opened);
  });

  test('ids of 64 bits are rounded (riverui #593, akhq #2402)', async () => {
    const opened = await open('/events/order:10531:paid?tab=payload');
    await opened.page.getByText('9223372036854775807').waitFor();
    await opened.page.goto(`${opened.base}/events?key=9223372036854775807`);
    await opened.page.getByText('9223372036854775807').first().waitFor();
    expect(opened.page.url()).toContain('9223372036854775807');
    await done(opened);
  });

  test('times are in the wrong zone (temporalio/web #418)', async () => {
    const opened = await open('/');
    const shown = async () => {
      const text = await opened.page.locator('.page-head .meta').first().textContent();
      const [, hour, minute] = /(\d\d):(\d\d):\d\d/.exec(text ?? '')!;
      return Number(hour) * 60 + Number(minute);
    };
    await opened.page.getByRole('button', { name: /Time zone UTC\+8/ }).click();
    await opened.page.getByRole('button', { name: /Time zone UTC;/ }).waitFor();
    const utc = new Date();
    expect(Math.abs((await shown()) - (utc.getUTCHours() * 60 + utc.getUTCMinutes()))).toBeLessThanOrEqual(1);
    await opened.page.getByRole('button', { name: /Time zone UTC;/ }).click();
    const here = (utc.getUTCHours() * 60 + utc.getUTCMinutes() + 480) % 1440;
    expect(Math.abs((await shown()) - here)).toBeLessThanOrEqual(1);
    await done(opened);
  });

  test('list and reality disagree (oban #1114)', async () => {
    const opened = await open('/events?status=PARTIAL,RETRYING,CONSUMED');
    const { page } = opened;
    const row = page.getByRole('row', { name: /order 10518/ });
    await row.getByText('Partial').waitFor();
    // Another person redrives it: the row changes where it stands, without a reload.
    await page.request.post(`${opened.base}/api/v1/events/order:10518:paid/redrive`, { data: { reason: 'by CLI' } });
    await row.getByText('Consumed').waitFor();
    await row.getByText('4/4').waitFor();
    await done(opened);
  });

  test('a requeue needs queue names to be typed again (rabbitmq-server #10937)', async () => {
    const opened = await open('/events/order:10518:paid');
    const { page } = opened;
    await page.getByRole('button', { name: 'Redrive only points…' }).click();
    const sent = page.waitForRequest(/\/redrive$/);
    const fields = page.getByRole('dialog').getByRole('textbox');
    expect(await fields.count(), 'only the reason is typed').toBe(1);
    await fields.fill('repaired');
    await page.getByRole('dialog').getByRole('button', { name: 'Redrive', exact: true }).click();
    expect((await sent).postDataJSON()).toEqual({ consumerId: 'points', reason: 'repaired' });
    await done(opened);
  });

  test('there is no Chinese (kafbat #1000)', async () => {
    const opened = await open('/', { language: 'zh' });
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
      await opened.page.goto(`${opened.base}${path}`);
      await opened.page.getByRole('heading', { name: title, exact: true }).first().waitFor();
      expect(await opened.page.evaluate(() => document.documentElement.lang)).toBe('zh-CN');
    }
    await done(opened);
  });
});

describe('redriving several groups', () => {
  test('is one operation with all of them, and a repeated start makes no second one', async () => {
    const opened = await open('/failures');
    const { page } = opened;
    for (const row of [0, 1]) await page.locator('tbody tr').nth(row).getByRole('checkbox').click();
    await page.getByRole('button', { name: 'Redrive 1,325…' }).click();
    await page.getByRole('button', { name: 'Check' }).last().click();
    await page.getByText(/of 1,325 will be redriven/).waitFor();
    await page.getByRole('button', { name: 'Reason' }).last().click();
    await page.getByLabel('Reason').fill('both are mended');
    await page.getByLabel('Type prod to confirm').fill('prod');
    const before = (opened.mock!.state.operations as Stored[]).length;
    const keys: (string | undefined)[] = [];
    // The first answer is lost on its way: the server has begun, the page does not know.
    await page.route('**/api/v1/operations', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      keys.push(route.request().headers()['idempotency-key']);
      if (keys.length > 1) return route.fallback();
      await route.fetch();
      return route.abort();
    });
    await page.getByRole('button', { name: 'Start' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByRole('button', { name: 'Start' }).click();
    await page.waitForURL(/operations\?sel=/);
    const list = opened.mock!.state.operations as Stored[];
    expect(list.length).toBe(before + 1);
    expect(list[0]!.failureGroups).toEqual(['g-points-503', 'g-inventory']);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(keys[1]).toBe(keys[0]);
    await done(opened);
  });
});

describe('the list', () => {
  test('hides columns that a person does not want, and remembers it', async () => {
    const opened = await open('/events');
    const { page } = opened;
    await page.getByRole('columnheader', { name: 'Service' }).waitFor();
    await page.getByRole('button', { name: 'Columns' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'Service' }).click();
    expect(await page.getByRole('columnheader', { name: 'Service' }).count()).toBe(0);
    await page.reload();
    await page.getByRole('columnheader', { name: 'Topic' }).waitFor();
    expect(await page.getByRole('columnheader', { name: 'Service' }).count()).toBe(0);
    await done(opened);
  });
  test('shows an event beside it, by address, and the panel follows j and k', async () => {
    const opened = await open('/events');
    const { page } = opened;
    await page.getByRole('row', { name: /order 10531: retrying/i }).click();
    await page.waitForURL(/sel=order%3A10531%3Apaid/);
    await page.getByRole('complementary', { name: 'order:10531:paid' }).getByText('Retrying 3/4').waitFor();
    await page.keyboard.press('j');
    await page.waitForURL((url) => url.search.includes('sel=') && !url.search.includes('10531%3Apaid'));
    await page.keyboard.press('Escape');
    await page.waitForURL((url) => !url.search.includes('sel='));
    await done(opened);
  });
  test('c copies ids in the list and opens Copy as on an event', async () => {
    const opened = await open('/events');
    const { page } = opened;
    await page.getByRole('row', { name: /order 10533/ }).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('c');
    await page.getByRole('status').getByText('Copied').waitFor();
    await page.goto(`${opened.base}/events/order:10531:paid`);
    await page
      .getByRole('heading', { name: /order.paid/ })
      .first()
      .waitFor();
    await page.keyboard.press('c');
    await page.getByText('What is copied').waitFor();
    await done(opened);
  });
});

describe('an export', () => {
  const saved = async (opened: Opened, act: () => Promise<void>) => {
    const file = opened.page.waitForEvent('download');
    await act();
    let text = '';
    for await (const chunk of await (await file).createReadStream()) text += chunk;
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Stored);
  };
  test('is streamed by the server: what matches, and chosen rows', async () => {
    const opened = await open('/events?topic=order.refunded');
    const { page } = opened;
    await page.getByRole('row', { name: /order 10370/ }).waitFor();
    const rows = await saved(opened, () => page.getByRole('button', { name: 'Export' }).first().click());
    expect(rows.length).toBeGreaterThan(2);
    expect(new Set(rows.map((each) => each.topic))).toEqual(new Set(['order.refunded']));
    await page.getByLabel(/Select order:10370/).click();
    const one = await saved(opened, () => page.getByRole('toolbar').getByRole('button', { name: 'Export' }).click());
    expect(one.map((each) => each.eventId)).toEqual(['order:10370:refunded']);
    await done(opened);
  });
  test('that is refused says why, and saves nothing', async () => {
    const opened = await open('/events');
    const { page } = opened;
    await page.getByRole('row', { name: /order 10533/ }).waitFor();
    const problem = { status: 403, code: 'forbidden', title: 'Forbidden', detail: 'This needs the role operator.' };
    await page.route('**/api/v1/export*', (route) =>
      route.fulfill({ status: 403, contentType: 'application/problem+json', body: JSON.stringify(problem) }),
    );
    await page.getByRole('button', { name: 'Export' }).first().click();
    await page.getByText('This needs the role operator.').waitFor();
    await done(opened);
  });
});

describe('consumers', () => {
  test('can be seen over an hour and over a day', async () => {
    const opened = await open('/consumers');
    const row = opened.page.getByRole('row', { name: /points/ });
    await row.getByText('71.4 %').waitFor();
    await opened.page.getByRole('button', { name: '24 h' }).click();
    await row.getByText('83.4 %').waitFor();
    await opened.page.getByText('Attempts, last 24 h').waitFor();
    expect(opened.page.url()).toContain('range=24h');
    await done(opened);
  });
});

describe('a base path', () => {
  test('the console works under the path that the server puts into <base href>', async () => {
    const opened = await open('/events?status=PARTIAL', { base: '/bus/' });
    const { page } = opened;
    await page.getByRole('row', { name: /order 10518/ }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/bus/events');
    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByText('consumer.pause').first().waitFor();
    expect(new URL(page.url()).pathname).toBe('/bus/audit');
    await page.reload();
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    expect(opened.errors).toEqual([]);
    await done(opened);
  });
});
