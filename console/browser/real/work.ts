// What an operator does, on the real executable with an empty store. The tests are the consumers, so that each delivery
// fails or succeeds when its test says so.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { done, type Opened, open, settled } from '../setup';
import type { Server } from './server';

const GAVE_UP = { success: false, willRetry: false, errorCode: 'declined', errorMessage: 'the card was declined' };
const text = (opened: Opened, words: string | RegExp) => opened.page.getByText(words).first();
const button = (opened: Opened, name: string | RegExp) => opened.page.getByRole('button', { name }).first();
const event = (id: string) => `/events/${encodeURIComponent(id)}`;

/** Marks the document, so that a reload is seen. */
async function mark(opened: Opened): Promise<() => Promise<void>> {
  await opened.page.evaluate(() => Object.assign(window, { marked: true }));
  return async () => expect(await opened.page.evaluate(() => 'marked' in window), 'no reload').toBe(true);
}

/** Opens every page: none shows a failure, and no call is refused but those that the server does not have yet. */
async function everyPageIsCalm({ page, base, refused, errors }: Opened): Promise<void> {
  const paths = ['', 'events', 'failures', 'traces', 'consumers', 'subscriptions', 'operations', 'system', 'audit'];
  for (const path of paths) {
    await page.goto(`${base}/${path}`);
    await settled(page);
    expect(await page.locator('main .empty.failed').count(), path).toBe(0);
  }
  expect(refused.filter((each) => !/^404 \/api\/v1\/(promises|stories)$/.test(each))).toEqual([]);
  expect(errors).toEqual([]);
}

/** The tests, on a server that `start` makes; `startEmpty` makes one with an empty store. */
export function work(start: () => Promise<Server>, startEmpty = start): void {
  let server: Server;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server?.stop());

  /** An event that its only consumer gave up. */
  async function giveUp(id: string, consumer: string, rest: object = {}): Promise<void> {
    await server.subscribe(`${consumer}.asked`, consumer);
    await server.publish({ eventId: id, topic: `${consumer}.asked`, ...rest });
    expect(await server.work(consumer, GAVE_UP)).toBe(1);
  }

  describe('first run', () => {
    /** D.13: on an empty server the list of first steps ticks itself, and gives way to the figures. */
    test('the first steps tick themselves', async () => {
      const empty = await startEmpty();
      const opened = await open('/', { server: empty });
      const isSame = await mark(opened);
      await text(opened, 'Nothing has been written yet').waitFor();
      await opened.page.locator('.first-step.done').nth(1).waitFor();
      expect(await opened.page.locator('.first-step.done').count()).toBe(2);
      await empty.subscribe('order.paid', 'points');
      await opened.page.locator('.first-step.done').nth(2).waitFor();
      await empty.publish({ eventId: 'first', topic: 'order.paid' });
      await opened.page.getByRole('heading', { name: 'Throughput' }).waitFor();
      await isSame();
      expect(opened.errors).toEqual([]);
      await done(opened);
      await empty.stop();
    });
  });

  describe('finding', () => {
    /** D.13 G.11: an event is found by its id or the start of it, by its trace, and by the order it is about. */
    test('an event is found by id, by trace and by order', async () => {
      const traceId = '5eed00aa4be2f09d44e18a60b1c991fe';
      const about = { key: '7001', aggregateType: 'ORDER', aggregateId: '7001', traceId };
      await server.subscribe('find.paid', 'finder');
      await server.publish({ eventId: 'find:7001:paid', topic: 'find.paid', ...about });
      const opened = await open('/', { server });
      const { page } = opened;
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      const jump = async (typed: string, name: RegExp) => {
        await page.keyboard.press('/');
        await page.keyboard.type(typed);
        await page.getByRole('option', { name }).first().waitFor();
        await page.keyboard.press('Enter');
      };
      await jump('find:7001:paid', /find:7001:paid/);
      await page.getByRole('heading', { name: /find\.paid/ }).waitFor();
      await jump('find:70', /find:7001:paid/);
      await page.waitForURL(/find.*7001/);
      await jump(traceId, /5eed/);
      await page.waitForURL(/traces/);
      await page.getByRole('treeitem', { name: /find\.paid/ }).waitFor();
      await jump('7001', /7001/);
      await page.waitForURL((url) => !url.pathname.includes('traces'));
      await text(opened, 'find.paid').waitFor();
      expect(opened.errors).toEqual([]);
      await done(opened);
    });
  });

  describe('an event', () => {
    /** D.13 A.20: what failed, when and why is seen; one consumer is redriven, and the open page shows its success. */
    test('attempts and errors are seen, and after a redrive the page turns green without a reload', async () => {
      await giveUp('pay:1', 'billing');
      const opened = await open(event('pay:1'), { server });
      const { page } = opened;
      const isSame = await mark(opened);
      await text(opened, 'billing gave up after 1 try').waitFor();
      await page.locator('.attempt-error', { hasText: 'the card was declined' }).waitFor();
      await page.locator('.pill', { hasText: 'Failed 0/1' }).waitFor();
      await button(opened, 'Redrive only billing…').click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Reason').fill('a new card is known');
      await dialog.getByRole('button', { name: 'Redrive', exact: true }).click();
      expect(await server.work('billing', { success: true })).toBe(1);
      await page.locator('.pill.m-ok', { hasText: 'Consumed 1/1' }).waitFor();
      await page.getByRole('tab', { name: /History/ }).click();
      await page.getByRole('row', { name: /admin.*event\.redrive.*a new card is known/ }).waitFor();
      // Each look at the event was a read of its payload, and none of them hides what was done.
      await text(opened, /Its payload was read \d+ times? by people/).waitFor();
      expect(await page.getByRole('cell', { name: 'event.read' }).count()).toBe(0);
      await isSame();
      expect(opened.errors).toEqual([]);
      await done(opened);
    });

    /** D.13: time travel shows an event as it stood before a failure, and the instant is in the address. */
    test('time travel goes back to before a failure, and its address is shared', async () => {
      await giveUp('travel:1', 'traveller');
      const opened = await open(`${event('travel:1')}?tab=timeline`, { server });
      const { page } = opened;
      await text(opened, 'As it is now').waitFor();
      const status = page.locator('.timeline .pill');
      expect(await status.textContent()).toMatch(/Failed/);
      for (let step = 0; step < 3; step += 1) await page.keyboard.press('[');
      await text(opened, /As it was at/).waitFor();
      expect(await status.textContent()).toMatch(/Pending.*0\/1/);
      await page.locator('tr.later', { hasText: 'traveller failed: declined' }).waitFor();
      const address = page.url();
      expect(address).toContain('at=');
      const other = await page.context().newPage();
      await other.goto(address);
      await other.getByText(/As it was at/).waitFor();
      expect(await other.locator('.timeline .pill').textContent()).toMatch(/Pending/);
      await done(opened);
    });

    /** D.13: an integer of 64 bits is shown as it was written. */
    test('an integer of 64 bits is shown whole', async () => {
      const body = '{"eventId":"big:1","topic":"big.number","payload":{"paymentId":9223372036854775807}}';
      await server.subscribe('big.number', 'counter');
      await server.call('POST', '/events', body);
      const opened = await open(`${event('big:1')}?tab=payload`, { server });
      await text(opened, '9223372036854775807').waitFor();
      await text(opened, '64 bits, unrounded').waitFor();
      await done(opened);
    });

    /** S11: what publishers and consumers write is shown as text, wherever it appears. */
    test('hostile text is shown as text', async () => {
      const evil = '<img src=x onerror="window.hacked=1">';
      await server.subscribe('evil.asked', 'evil');
      await server.publish({
        eventId: evil,
        topic: 'evil.asked',
        key: evil,
        aggregateType: evil,
        aggregateId: evil,
        tenantId: evil,
        initiator: { service: evil, operation: evil, userId: evil },
        payload: { [evil]: evil },
        metadata: { [evil]: evil },
      });
      expect(await server.work('evil', { ...GAVE_UP, errorCode: evil, errorMessage: evil })).toBe(1);
      const opened = await open(`/events?key=${encodeURIComponent(evil)}`, { server });
      const { page } = opened;
      await text(opened, evil).waitFor();
      for (const tab of ['consumers', 'timeline', 'payload', 'envelope', 'trace', 'history']) {
        await page.goto(`${opened.base}${event(evil)}?tab=${tab}`);
        await page.getByRole('tab', { selected: true }).waitFor();
        await text(opened, evil).waitFor();
      }
      await page.goto(`${opened.base}/failures`);
      await text(opened, evil).waitFor();
      expect(await page.evaluate(() => 'hacked' in window)).toBe(false);
      expect(opened.errors).toEqual([]);
      await done(opened);
    });
  });

  describe('many events', () => {
    /** D.13: a failure group is redriven by an operation, and disappears once its events are consumed. */
    test('a failure group is redriven and disappears', async () => {
      await server.subscribe('mail.asked', 'mailer');
      for (let index = 0; index < 12; index += 1)
        await server.publish({ eventId: `mail:${index}`, topic: 'mail.asked' });
      for (let left = 12; left > 0; ) left -= await server.work('mailer', GAVE_UP, 12);
      const opened = await open('/failures?consumer=mailer', { server });
      const { page } = opened;
      await page.getByRole('button', { name: 'Redrive 12…' }).click();
      await page.getByRole('button', { name: 'Check' }).last().click();
      await text(opened, 'of 12 will be redriven').waitFor();
      await page.getByRole('button', { name: 'Reason' }).last().click();
      await page.getByLabel('Reason').fill('the mail server is back');
      await page.getByRole('button', { name: 'Start' }).click();
      await page.waitForURL(/operations\?sel=/);
      await text(opened, 'the mail server is back').waitFor();
      // The ramp goes on as results come.
      for (let left = 12; left > 0; ) left -= await server.work('mailer', { success: true }, 12);
      await page.locator('.big .pill.m-ok', { hasText: 'Done' }).waitFor();
      await page.getByRole('link', { name: 'Failures' }).first().click();
      await page.goto(`${opened.base}/failures?consumer=mailer`);
      await text(opened, 'Nothing needs you').waitFor();
      await done(opened);
    });
  });

  describe('promises', () => {
    /** D.13 A.2: a delivery that is lost is the first thing on the overview, named with its event, until it is mended. */
    test('a broken promise is shown, with the event that it is broken for', async () => {
      const id = 'promise:1';
      await server.subscribe('promise.asked', 'promised');
      await server.publish({ eventId: id, topic: 'promise.asked' });
      const opened = await open('/', { server });
      const { page } = opened;
      const isSame = await mark(opened);
      await page.locator('.promise').nth(3).waitFor();
      expect(await page.locator('.promise').first().locator('.m-ok').count(), 'it holds').toBe(1);
      // Who is expected is known once the event has its status.
      await vi.waitFor(
        async () => expect(await server.call('GET', event(id))).toMatchObject({ expectedConsumers: 1 }),
        10_000,
      );
      await server.sql(
        `DELETE FROM postrider_delivery WHERE event_seq = (SELECT seq FROM postrider_event WHERE event_id = '${id}')`,
      );
      await text(opened, 'Nothing lost does not hold').waitFor();
      expect(await page.locator('.attention-title').first().textContent()).toBe('Nothing lost does not hold');
      await page.getByRole('link', { name: 'Show' }).first().click();
      const drawer = page.getByRole('dialog', { name: 'Promises' });
      const finding = drawer.locator('.findings-list li', { hasText: 'promised' }).first();
      await finding.getByRole('link', { name: 'Show' }).click();
      await page.waitForURL(/events\/promise(%3A|:)1/);
      await isSame();
      await done(opened);
    });
  });

  describe('consumers', () => {
    /** D.13: a consumer is paused with a reason, its events say why they wait, and it is resumed. */
    test('a consumer is paused and resumed', async () => {
      await server.subscribe('stock.asked', 'stock');
      const opened = await open('/consumers?sel=stock', { server });
      const { page } = opened;
      await button(opened, 'Pause…').click();
      const pause = page.getByRole('dialog').getByRole('button', { name: 'Pause stock' });
      expect(await pause.getAttribute('aria-disabled'), 'not without a reason').toBe('true');
      await page.getByLabel('Reason').fill('stock take');
      await pause.click();
      await page.getByRole('row', { name: /Paused.*stock/ }).waitFor();
      expect(await server.call('GET', '/consumers/stock')).toMatchObject({ paused: true });
      await server.publish({ eventId: 'stock:1', topic: 'stock.asked' });
      await page.goto(`${opened.base}${event('stock:1')}`);
      await text(opened, 'stock is paused').waitFor();
      await page.locator('.why', { hasText: /admin paused it .* ago/ }).waitFor();
      await page.goto(`${opened.base}/consumers?sel=stock`);
      await page.getByRole('complementary').getByRole('button', { name: 'Resume' }).click();
      await button(opened, 'Pause…').waitFor();
      expect(await server.call('GET', '/consumers/stock')).toMatchObject({ paused: false });
      expect(await server.work('stock', { success: true })).toBe(1);
      await done(opened);
    });

    /** D.13: a subscription is added after a look at what it would have matched, disabled, and removed. */
    test('a subscription is added with its preview, disabled and removed', async () => {
      await server.subscribe('parcel.sent', 'archive');
      for (const index of [1, 2, 3]) await server.publish({ eventId: `parcel:${index}`, topic: 'parcel.sent' });
      await server.subscribe('parcel.asked', 'tracker');
      const opened = await open('/subscriptions', { server });
      const { page } = opened;
      const cell = (state: string) => page.getByRole('button', { name: `parcel.sent, tracker: ${state}` });
      const exists = async () => (await server.try('GET', '/subscriptions/parcel.sent/tracker')).status === 200;
      await cell('none; click to add').click();
      await text(opened, 'In the last 24 h this would have matched').waitFor();
      await page.locator('.preview b', { hasText: /^3$/ }).waitFor();
      await page.getByRole('button', { name: 'Subscribe' }).click();
      await cell('enabled').waitFor();
      expect(await exists()).toBe(true);
      await cell('enabled').click();
      await page.getByRole('switch', { name: 'enabled' }).click();
      await cell('disabled').waitFor();
      expect(await server.call('GET', '/subscriptions/parcel.sent/tracker')).toMatchObject({ enabled: false });
      await page.getByRole('button', { name: 'Remove…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
      await cell('none; click to add').waitFor();
      expect(await exists()).toBe(false);
      await done(opened);
    });
  });

  describe('a trace', () => {
    /** D.13: causes and effects are a tree, and the same rows have their bars in time; the failed path can stand alone. */
    test('is a tree with a waterfall, and its failed path stands out', async () => {
      const traceId = '7ee0c0aa4be2f09d44e18a60b1c991fe';
      await server.subscribe('ship.asked', 'ship');
      await server.subscribe('label.printed', 'label');
      await server.subscribe('ship.noted', 'notes');
      await server.publish({ eventId: 'ship:1', topic: 'ship.asked', traceId });
      expect(await server.work('ship', { success: true })).toBe(1);
      await server.publish({ eventId: 'ship:1:ok', topic: 'ship.noted', traceId, parentEventId: 'ship:1' });
      await server.publish({ eventId: 'ship:1:label', topic: 'label.printed', traceId, parentEventId: 'ship:1' });
      expect(await server.work('label', GAVE_UP)).toBe(1);
      const opened = await open(`/traces/${traceId}`, { server });
      const { page } = opened;
      const row = (name: RegExp) => page.getByRole('treeitem', { name }).first();
      await row(/ship\.asked/).waitFor();
      expect(await row(/ship\.asked/).getAttribute('aria-level')).toBe('1');
      expect(await row(/label\.printed/).getAttribute('aria-level')).toBe('2');
      await row(/ship\.noted/).waitFor();
      const before = await page.getByRole('treeitem').count();
      expect(await page.locator('.bar:not(footer .bar)').count(), 'a bar for most rows').toBeGreaterThan(before / 2);
      await page.getByRole('switch', { name: 'Only failed path' }).click();
      await page.waitForURL(/only=failed/);
      await row(/label\.printed/).waitFor();
      expect(await row(/ship\.noted/).count()).toBe(0);
      expect(opened.errors).toEqual([]);
      await done(opened);
    });
  });

  describe('people', () => {
    /** D.13: everything to find an event and redrive it works by keys alone, and Enter confirms nothing without a reason. */
    test('a keyboard is enough to redrive an event', async () => {
      await giveUp('keys:1', 'typist', { key: 'keys-only' });
      const opened = await open('/', { server });
      const { page } = opened;
      const { keyboard } = page;
      await page.getByRole('heading', { name: /Overview/ }).waitFor();
      await keyboard.press('g');
      await keyboard.press('f');
      await page.getByRole('heading', { name: 'Failures' }).waitFor();
      await keyboard.press('/');
      await keyboard.type('keys:1');
      await page
        .getByRole('option', { name: /keys:1/ })
        .first()
        .waitFor();
      await keyboard.press('Enter');
      await text(opened, 'typist gave up after 1 try').waitFor();
      await keyboard.press('r');
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      expect(await dialog.evaluate((each) => each.contains(document.activeElement)), 'focus is inside').toBe(true);
      await dialog.getByLabel('Reason').focus();
      await keyboard.press('Enter');
      expect(await dialog.isVisible(), 'not without a reason').toBe(true);
      await keyboard.type('by keys');
      await keyboard.press('Enter');
      await dialog.waitFor({ state: 'detached' });
      expect(await server.call('GET', '/events/keys:1')).toMatchObject({ retryCount: 1 });
      await done(opened);
    });

    /** D.13: the language and the theme change at once and stay after a reload. */
    test('language and theme change at once and stay', async () => {
      const opened = await open('/consumers', { server });
      await button(opened, '切换到中文').click();
      await opened.page.getByRole('heading', { name: '消费者' }).first().waitFor();
      await button(opened, '切换主题').click();
      await opened.page.reload();
      await opened.page.getByRole('heading', { name: '消费者' }).first().waitFor();
      const shown = () => [document.documentElement.lang, document.documentElement.dataset.theme];
      expect(await opened.page.evaluate(shown)).toEqual(['zh-CN', 'dark']);
      await done(opened);
    });

    /** D.13 S4: a viewer sees locked buttons with the reason, and the server sends no payload. */
    test('a viewer sees locked buttons and no payload', async () => {
      await giveUp('secret:1', 'keeper', { payload: { pin: 'not-for-viewers' } });
      const { secret } = await server.makeToken('viewer');
      const opened = await open(event('secret:1'), { server, token: secret });
      const { page } = opened;
      const sent: string[] = [];
      page.on('response', async (response) => {
        if (response.url().includes('/events/')) sent.push(await response.text().catch(() => ''));
      });
      const locked = page.getByRole('button', { name: 'Redrive…', exact: true }).first();
      await locked.hover();
      await page.locator('.tip:visible', { hasText: 'Needs the role operator; yours is viewer.' }).waitFor();
      await locked.click({ force: true });
      await page.keyboard.press('r');
      expect(await page.getByRole('dialog').count()).toBe(0);
      await page.reload();
      await page.getByRole('tab', { name: /Payload/ }).click();
      await text(opened, 'Viewers see no payload').waitFor();
      expect(sent.length).toBeGreaterThan(0);
      expect(sent.join()).not.toContain('not-for-viewers');
      await done(opened);
    });

    /** S5 D.13: what a token with a scope reaches is named, and no page asks for what does not exist for it. */
    test('a token with a scope says what it reaches and when it ends, and no page fails', async () => {
      await server.subscribe('scoped.asked', 'scoped');
      await server.publish({ eventId: 'scoped:1', topic: 'scoped.asked' });
      const expiresAt = new Date(Date.now() + 3 * 3_600_000).toISOString();
      const { secret } = await server.makeToken('operator', { topics: ['scoped.*'], expiresAt });
      const opened = await open('/', { server, token: secret });
      const { page } = opened;
      await page.locator('.top .scope', { hasText: 'scoped.*' }).waitFor();
      await page.locator('.top .tag', { hasText: 'ends in 2 h' }).waitFor();
      await page.locator('.top .menu-box > button').click();
      for (const words of [
        'The token reaches only scoped.*.',
        'The session ends after 30 idle minutes, or 8 hours.',
        /The token works until \d\d:\d\d\./,
      ])
        await text(opened, words).waitFor();
      await everyPageIsCalm(opened);
      await page.goto(`${opened.base}/system`);
      await page.locator('main .empty', { hasText: 'Your token reaches only scoped.*.' }).waitFor();
      await done(opened);
    });

    /** S3 D.13: a viewer's pages make no call that is refused: each would be a record in the audit. */
    test('no page of a viewer makes a call that is refused', async () => {
      const { secret } = await server.makeToken('viewer');
      const opened = await open('/', { server, token: secret });
      await everyPageIsCalm(opened);
      await done(opened);
    });

    /** S6: a session whose token is revoked ends, and the next login comes back to the same address. */
    test('a session that ends comes back to the same address', async () => {
      const { tokenId, secret } = await server.makeToken('operator');
      const opened = await open('/events?status=FAILED&delivery=DEAD', { server, token: secret });
      const { page } = opened;
      await page.getByRole('heading', { name: 'Events' }).waitFor();
      await server.call('DELETE', `/tokens/${tokenId}`);
      // Asks for the list again.
      await page.keyboard.press('n');
      await page.getByLabel('Token', { exact: true }).fill(server.token);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.waitForURL(/\/events\?/);
      expect(page.url()).toContain('delivery=DEAD');
      await page.getByRole('heading', { name: 'Events' }).waitFor();
      await done(opened);
    });

    /** S2 S6: an unknown token is refused in words, and a known one is kept nowhere a script can read. */
    test('a token is exchanged, and stored nowhere', async () => {
      const opened = await open('/login', { server, token: '' });
      const { page } = opened;
      await page.getByLabel('Token', { exact: true }).fill('prt_unknown');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('alert').waitFor();
      expect(await page.getByRole('alert').textContent()).toMatch(/revoked.*[0-9a-f]{8}-/s);
      await page.getByLabel('Token', { exact: true }).fill(server.token);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      const stored = await page.evaluate(
        () => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie,
      );
      expect(stored).not.toMatch(/prt_|session/);
      await done(opened);
    });
  });
}
