// What an operator does, in a real browser. The mock is put into states that a real server is seldom in.
import { describe, expect, test } from 'vitest';
import { done, type Opened, open } from './setup';

const text = (opened: Opened, words: string | RegExp) => opened.page.getByText(words).first();

describe('login', () => {
  test('an unknown token is refused in words, with the request id', async () => {
    const opened = await open('/login', { token: '' });
    await opened.page.getByLabel('Token', { exact: true }).fill('wrong');
    await opened.page.getByRole('button', { name: 'Sign in' }).click();
    await opened.page.getByRole('alert').waitFor();
    expect(await opened.page.getByRole('alert').textContent()).toMatch(/unknown or revoked.*req-/s);
    await done(opened);
  });
  test('a refused token of the address is explained, and the address is kept', async () => {
    const opened = await open('/events?status=FAILED', { token: 'wrong' });
    await opened.page.getByRole('alert').getByText('unknown or revoked').waitFor();
    expect(opened.page.url()).toMatch(/\/login\?back=%2Fevents%3Fstatus%3DFAILED$/);
    await done(opened);
  });
  test('the token leaves the address and nothing of it is stored', async () => {
    const opened = await open('/events');
    await opened.page.getByRole('heading', { name: 'Events' }).waitFor();
    expect(opened.page.url()).not.toContain('token');
    const stored = await opened.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
    expect(stored).not.toMatch(/prt_|order:/);
    expect(Object.keys(JSON.parse(stored))).toEqual(['postrider.settings']);
    await done(opened);
  });
  test('a session that ends comes back to the same address', async () => {
    const opened = await open('/events?status=RETRYING');
    await opened.page.getByRole('row', { name: /order 10531/ }).waitFor();
    opened.mock!.state.loggedOut = true;
    await opened.page.getByRole('button', { name: /^Dead/ }).click();
    await opened.page.getByLabel('Token', { exact: true }).fill('prt_again');
    await opened.page.getByRole('button', { name: 'Sign in' }).click();
    await opened.page.waitForURL(/\/events\?/);
    expect(opened.page.url()).toContain('delivery=DEAD');
    await done(opened);
  });
});

describe('finding', () => {
  test('an order number in the palette leads to its story, an id to its event', async () => {
    const opened = await open('/');
    await opened.page.getByRole('heading', { name: 'Overview' }).waitFor();
    await opened.page.keyboard.press('/');
    await opened.page.keyboard.type('10492');
    await opened.page
      .getByRole('option', { name: /Order 10492/ })
      .first()
      .waitFor();
    await opened.page.keyboard.press('Enter');
    await opened.page.waitForURL(/\/stories\/10492/);
    await opened.page.keyboard.press('Control+k');
    await opened.page.keyboard.type('order:10531:paid');
    await opened.page
      .getByRole('option', { name: /order:10531:paid/ })
      .first()
      .waitFor();
    await opened.page.keyboard.press('Enter');
    await opened.page.getByRole('heading', { name: /order.paid/ }).waitFor();
    await done(opened);
  });
  test('filters stand in the address and Back undoes one', async () => {
    const opened = await open('/events');
    await opened.page.getByRole('button', { name: /^points/ }).click();
    await opened.page.waitForURL(/consumer=points/);
    await opened.page
      .getByRole('button', { name: /^Retrying/ })
      .first()
      .click();
    await opened.page.waitForURL(/status=RETRYING/);
    await opened.page.goBack();
    await opened.page.waitForURL((url) => !url.search.includes('status'));
    expect(opened.page.url()).toContain('consumer=points');
    await done(opened);
  });
  test('filters that hide everything say so and name the one to remove', async () => {
    const opened = await open('/events?tenant=9');
    await text(opened, /The filters hide all/).waitFor();
    await opened.page.getByRole('button', { name: 'Remove tenant 9' }).click();
    await opened.page
      .getByRole('row', { name: /order 10531/ })
      .first()
      .waitFor();
    await done(opened);
  });
  test('keys move through the list and open an event', async () => {
    const opened = await open('/');
    await opened.page.getByRole('heading', { name: 'Overview' }).waitFor();
    await opened.page.keyboard.press('g');
    await opened.page.keyboard.press('e');
    await opened.page.getByRole('row', { name: /order 10533/ }).waitFor();
    await opened.page.keyboard.press('j');
    await opened.page.keyboard.press('x');
    await text(opened, '1 selected').waitFor();
    await opened.page.keyboard.press('Enter');
    await opened.page.waitForURL(/\/events\/order/);
    await done(opened);
  });
});

describe('panels and keys', () => {
  test('on a tablet a panel lies over the list, only where it was asked for, and Escape closes it', async () => {
    const opened = await open('/failures', { width: 768, height: 1024 });
    const { page } = opened;
    const row = page.locator('.failures tbody tr').nth(1);
    await row.waitFor();
    const panel = page.locator('.panel');
    expect(await panel.isVisible(), 'nobody asked').toBe(false);
    await row.click();
    await panel.waitFor();
    const [over, under] = [await panel.boundingBox(), await page.locator('.failures').boundingBox()];
    expect(over!.x, 'over the list').toBeLessThan(under!.x + under!.width);
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await done(opened);
  });
  test('j, Enter and r choose a failure group and redrive it', async () => {
    const opened = await open('/failures');
    const { page } = opened;
    await page.locator('.failures tbody tr').nth(1).waitFor();
    for (const key of ['j', 'j', 'Enter']) await page.keyboard.press(key);
    await page.waitForURL(/sel=g-inventory/);
    await page.keyboard.press('r');
    await page.getByRole('dialog', { name: 'Redrive 41 events' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('x');
    await page.getByText('1 group in one operation').waitFor();
    await done(opened);
  });
  test('a consumer is paused from the palette', async () => {
    const opened = await open('/events');
    const { page } = opened;
    await page.getByRole('row', { name: /order 10533/ }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('inventory');
    await page.getByRole('option', { name: 'Pause inventory…' }).click();
    const dialog = page.getByRole('dialog', { name: /inventory/ });
    await dialog.getByLabel('Reason').fill('stock take');
    await dialog.getByRole('button', { name: 'Pause inventory' }).click();
    await page.getByRole('row', { name: /Paused.*inventory/ }).waitFor();
    expect(page.url(), 'the question is put once').not.toContain('ask=');
    await done(opened);
  });
  test('reads of payloads do not hide the changes in the audit', async () => {
    const opened = await open('/audit');
    const { page } = opened;
    const records = opened.mock!.state.audit as Record<string, unknown>[];
    const read = { ...records[0], action: 'GET /api/v1/events/{eventId}', target: '/events/a', outcome: '200' };
    records.unshift(...[1, 2, 3].map((n) => ({ ...read, id: `read-${n}` })));
    await page.reload();
    await page.getByText('3 reads of payloads on this page are left out.').waitFor();
    expect(await page.getByText('event.read').count()).toBe(0);
    await page.getByRole('button', { name: 'Reads of payloads' }).click();
    await page.getByText('event.read').nth(2).waitFor();
    await done(opened);
  });
});

describe('live', () => {
  test('new events wait behind a pill and no row moves', async () => {
    const opened = await open('/events');
    const first = opened.page.locator('tbody tr').first();
    const before = await first.getAttribute('aria-label');
    const pill = opened.page.getByRole('button', { name: /\d+ new/ });
    await pill.waitFor();
    expect((await first.getAttribute('aria-label'))?.split(':')[0]).toBe(before?.split(':')[0]);
    await pill.click();
    await opened.page
      .getByRole('row', { name: /order 1054\d/ })
      .first()
      .waitFor();
    await done(opened);
  });
  test('one consumer is redriven and the page turns green without a reload', async () => {
    const opened = await open('/events/order:10518:paid');
    await text(opened, 'points gave up after 10 tries').waitFor();
    await opened.page.getByRole('button', { name: 'Redrive only points…' }).click();
    const dialog = opened.page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Redrive', exact: true }).getAttribute('aria-disabled')).toBe(
      'true',
    );
    await dialog.getByLabel('Reason').fill('loyalty-core is back');
    await dialog.getByRole('button', { name: 'Redrive', exact: true }).click();
    await text(opened, /Consumed 4\/4/).waitFor();
    await done(opened);
  });
  test('the store goes away and comes back', async () => {
    const opened = await open('/consumers');
    await opened.page.getByRole('button', { name: 'wallet', exact: true }).waitFor();
    opened.mock!.state.storeDown = true;
    await opened.page.getByRole('link', { name: 'Audit' }).click();
    await opened.page.getByRole('heading', { name: 'The store does not answer' }).waitFor();
    opened.mock!.state.storeDown = false;
    await opened.page.getByRole('heading', { name: 'Audit' }).waitFor();
    await opened.page.getByText('consumer.pause').first().waitFor();
    await done(opened);
  });
});

describe('redrive', () => {
  test('a ramp stops itself while the consumer fails, and goes on after the repair', async () => {
    const opened = await open('/failures');
    await opened.page.getByRole('button', { name: 'Redrive 1,284…' }).click();
    await opened.page.getByRole('button', { name: 'Check' }).last().click();
    await text(opened, /of 1,284 will be redriven/).waitFor();
    await opened.page.getByRole('button', { name: 'Reason' }).last().click();
    await opened.page.getByLabel('Reason').fill('try before it is back');
    await opened.page.getByLabel('Type prod to confirm').fill('prod');
    await opened.page.getByRole('button', { name: 'Start' }).click();
    await opened.page.waitForURL(/operations/);
    await text(opened, /1 of 1 failed again/).waitFor();
    opened.mock!.state.pointsFails = false;
    await opened.page.getByRole('button', { name: 'Resume' }).click();
    await text(opened, /10 of 10 well/).waitFor();
    await done(opened);
  });
  test('everything that matches can be chosen, and stays a filter to the end', async () => {
    const opened = await open('/events?consumer=points');
    await opened.page.getByLabel('Select the page').click();
    await opened.page.getByRole('button', { name: /Select all ≈ 12,480 that match/ }).click();
    await opened.page.getByRole('button', { name: /^Redrive/ }).click();
    await opened.page.getByRole('dialog', { name: 'Redrive 12,480 events' }).waitFor();
    await done(opened);
  });
});

describe('pages', () => {
  test('time travel shows an event as it stood, and the instant is in the address', async () => {
    const opened = await open('/events/order:10531:paid?tab=timeline');
    await text(opened, 'As it is now').waitFor();
    for (let step = 0; step < 8; step += 1) await opened.page.keyboard.press('[');
    await text(opened, /As it was at/).waitFor();
    expect(opened.page.url()).toContain('at=');
    await opened.page.getByRole('button', { name: 'Back to now' }).click();
    await text(opened, 'As it is now').waitFor();
    await done(opened);
  });
  test('an integer of 64 bits is shown whole', async () => {
    const opened = await open('/events/order:10531:paid?tab=payload');
    await text(opened, '9223372036854775807').waitFor();
    await text(opened, '64 bits, unrounded').waitFor();
    await done(opened);
  });
  test('a trace shows the stub of its parent, and only the failed path where asked', async () => {
    const opened = await open('/traces/7d19c0aa4be2f09d44e18a60b1c991fe');
    await text(opened, 'parent not kept any more').waitFor();
    const before = await opened.page.getByRole('treeitem').count();
    await opened.page.getByRole('switch', { name: 'Only failed path' }).click();
    await opened.page.waitForURL(/only=failed/);
    expect(await opened.page.getByRole('treeitem').count()).toBeLessThan(before);
    await done(opened);
  });
  test('the story of an order counts its stopped repeats', async () => {
    const opened = await open('/stories/123');
    await text(opened, 'order.refunded: undone but for points').waitFor();
    expect(await opened.page.locator('.verdict-figure').allTextContents()).toEqual(
      expect.arrayContaining([expect.stringMatching(/7\s*repeats stopped/), expect.stringMatching(/0\s*twice/)]),
    );
    await done(opened);
  });
  test('a broken promise is the first thing on the overview', async () => {
    const opened = await open('/', { scenario: 'broken-promise' });
    await text(opened, 'Nothing lost does not hold').waitFor();
    await opened.page.getByRole('link', { name: 'Show' }).first().click();
    const drawer = opened.page.getByRole('dialog', { name: 'Promises' });
    await drawer.getByText('points has no delivery of order:10364:paid, which it is owed').waitFor();
    expect(await drawer.locator('.history').first().locator('i').count(), 'half hours of a day').toBe(48);
    await drawer.getByRole('link', { name: 'Show' }).click();
    await opened.page.waitForURL(/events\/order%3A10364%3Apaid|events\/order:10364:paid/);
    await done(opened);
  });
  test('a consumer is paused with a reason and resumed', async () => {
    const opened = await open('/consumers?sel=inventory');
    await opened.page.getByRole('button', { name: 'Pause…' }).click();
    await opened.page.getByLabel('Reason').fill('stock take');
    await opened.page.getByRole('button', { name: 'Pause inventory' }).click();
    await text(opened, /stock take/).waitFor();
    await opened.page.getByRole('button', { name: 'Resume' }).click();
    await opened.page.getByRole('button', { name: 'Pause…' }).waitFor();
    await done(opened);
  });
  test('a subscription is added with its preview, disabled and removed', async () => {
    const opened = await open('/subscriptions', { scenario: 'admin' });
    const cell = (state: string) => opened.page.getByRole('button', { name: `order.reopened, wallet: ${state}` });
    await cell('none; click to add').click();
    await text(opened, 'In the last 24 h this would have matched').waitFor();
    await opened.page.getByRole('button', { name: 'Subscribe' }).click();
    await cell('enabled').click();
    await opened.page.getByRole('switch', { name: 'enabled' }).click();
    await cell('disabled').waitFor();
    await opened.page.getByRole('button', { name: 'Remove…' }).click();
    await opened.page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await cell('none; click to add').waitFor();
    await done(opened);
  });
  test('the first-run list ticks itself', async () => {
    const opened = await open('/', { scenario: 'first-run' });
    await text(opened, 'Nothing has been written yet').waitFor();
    expect(await opened.page.locator('.first-step.done').count()).toBe(2);
    (opened.mock!.state.subscriptions as object[]).push({
      topic: 'order.paid',
      consumerId: 'points',
      via: 'pull',
      enabled: true,
      sortOrder: 0,
      createdAt: new Date().toISOString(),
      updatedAt: new Date().toISOString(),
    });
    await opened.page.locator('.first-step.done').nth(2).waitFor();
    await done(opened);
  });
  test('a viewer sees locked buttons with the reason, and no payload', async () => {
    const opened = await open('/events/order:10518:paid', { scenario: 'viewer' });
    const button = opened.page.getByRole('button', { name: 'Redrive…', exact: true }).first();
    await button.hover();
    await opened.page.locator('.tip:visible', { hasText: 'Needs the role operator; yours is viewer.' }).waitFor();
    await button.click({ force: true });
    expect(await opened.page.getByRole('dialog').count()).toBe(0);
    await opened.page.getByRole('tab', { name: /Payload/ }).click();
    await text(opened, 'Viewers see no payload').waitFor();
    await done(opened);
  });
  test('hostile text is shown as text', async () => {
    const opened = await open('/', { scenario: 'shop' });
    const evil = '<img src=x onerror=alert(1)>"\';--';
    const list = opened.mock!.state.events as Record<string, unknown>[];
    list.unshift({
      ...list[0],
      eventId: evil,
      topic: evil,
      key: evil,
      tenantId: evil,
      initiator: { service: evil },
      lastError: evil,
    });
    let asked = false;
    opened.page.on('dialog', () => {
      asked = true;
    });
    await opened.page.getByRole('link', { name: 'Events' }).first().click();
    await opened.page.getByText(evil).first().waitFor();
    await opened.page.locator('tbody tr', { hasText: evil }).first().locator('.id').click();
    await opened.page.getByRole('heading', { name: evil }).waitFor();
    expect(asked).toBe(false);
    expect(opened.errors).toEqual([]);
    await done(opened);
  });
  test('language and theme change at once and stay after a reload', async () => {
    const opened = await open('/');
    await opened.page.getByRole('button', { name: '切换到中文' }).click();
    await opened.page.getByRole('heading', { name: '概览' }).waitFor();
    await opened.page.getByRole('button', { name: '切换主题' }).click();
    await opened.page.reload();
    await opened.page.getByRole('heading', { name: '概览' }).waitFor();
    expect(
      await opened.page.evaluate(() => [document.documentElement.lang, document.documentElement.dataset.theme]),
    ).toEqual(['zh-CN', 'dark']);
    await done(opened);
  });
});
