// Consumers, failures, operations, promises and the rest of the fixture.
import { ago, at, series, start } from './clock.mjs';
import { TOPICS } from './events.mjs';

const minute = (index, length) => at(start - (length - index) * 60_000);
const wave = (seed) => series(60, seed, (x, r) => 20 + 12 * Math.sin(x * 9 + seed) + r * 14);
const rising = (seed) => series(60, seed, (x, r) => 200 + x * 1900 + r * 160);

function consumerMinutes(id, lag) {
  return lag.map((value, index) => ({
    at: minute(index, 60),
    delivered: id === 'points' && index > 27 && index % 5 > (index > 44 ? 0 : 1) ? 0 : 30,
    failed: id === 'points' && index > 27 && (index % 3 || index > 44) ? 40 : 0,
    lag: Math.round(value),
  }));
}

const base = [
  ['points', 'local', 0.714, 1020, 2214, 42, 1253, 33, 11],
  ['inventory', 'local', 0.991, 148, 61, 2, 41, 0, 0],
  ['wallet', 'local', 0.999, 24, 19, 0, 7, 0, 0],
  ['coupon', 'local', 1, 19, 9, 0, 0, 0, 0],
  ['payment', 'local', 1, 31, 0, null, 0, 0, 0],
  ['refund', 'local', 1, 28, 0, null, 0, 0, 0],
  ['member-service', 'rabbitmq', 0.998, 210, null, null, null, null, null],
  ['message-service', 'rabbitmq', 0.987, 640, null, null, null, null, null],
  ['activity', 'pull', 1, null, 0, null, 0, 0, 0],
  ['analytics', 'webhook', null, null, 114, 1860, 8, 4, 0],
];

export function makeConsumers() {
  return base.map(([consumerId, via, successRate, p95Ms, lag, oldestAgeSeconds, retrying, dead, held], index) => ({
    consumerId,
    via,
    successRate,
    p95Ms,
    lag,
    oldestAgeSeconds,
    retrying,
    dead,
    held,
    processing: lag ? 12 : 0,
    topics: Object.keys(TOPICS).filter(
      (topic) =>
        TOPICS[topic].includes(consumerId) ||
        (consumerId === 'analytics' && ['order.paid', 'payment.success', 'notification.sent'].includes(topic)),
    ),
    enabled: true,
    paused: consumerId === 'analytics',
    pausedBy: consumerId === 'analytics' ? 'mei' : null,
    pausedAt: consumerId === 'analytics' ? ago(1860) : null,
    pauseReason: consumerId === 'analytics' ? 'vendor maintenance' : null,
    lastSuccessAt: consumerId === 'points' ? ago(425) : ago(2),
    lastSeenAt: consumerId === 'activity' ? ago(720) : ago(1),
    minutes:
      via === 'rabbitmq'
        ? []
        : consumerMinutes(
            consumerId,
            ['points', 'analytics'].includes(consumerId) ? rising(index + 1) : wave(index + 1),
          ),
  }));
}

const deadKey = (key, waiting) => ({
  key,
  deadHead: 'hold',
  eventId: `order:${key}:paid`,
  topic: 'order.paid',
  dead: 1,
  waiting,
});

export const consumerExtras = {
  points: {
    description: 'commits, releases and earns loyalty points',
    heldKeys: [deadKey('10377', 6), deadKey('10492', 4), deadKey('10518', 1)],
    skippedKeys: [{ ...deadKey('10301', 0), deadHead: 'skip', skippedAt: ago(3600) }],
    waitingByAttempt: [120, 480, 330, 210, 90, 60, 31, 12, 9, 2],
  },
};

export function makeSubscriptions() {
  const list = [];
  const add = (topic, consumerId, rest = {}) => {
    const via = base.find(([id]) => id === consumerId)?.[1] ?? 'pull';
    list.push({
      topic,
      consumerId,
      via,
      enabled: true,
      sortOrder: list.length,
      description: null,
      endpoint: null,
      createdAt: ago(90_000),
      updatedAt: ago(90_000),
      ...rest,
    });
  };
  for (const [topic, consumers] of Object.entries(TOPICS)) for (const consumerId of consumers) add(topic, consumerId);
  const hook = { endpoint: 'https://in.metrics.example/postrider' };
  add('order.paid', 'analytics', hook);
  add('payment.success', 'analytics', hook);
  add('notification.sent', 'analytics', { ...hook, enabled: false });
  return list;
}

const EVENTS_24H = {
  'order.checkout_locked': 48212,
  'order.paid': 44870,
  'order.canceled': 16020,
  'order.refunded': 5104,
  'order.purchased': 44870,
  'payment.success': 44871,
  'payment.failed': 2210,
  'refund.success': 5104,
  'refund.failed': 12,
  'points.added': 43990,
  'notification.sent': 43120,
  'order.reopened': 214,
};
export const topics = () =>
  Object.entries(EVENTS_24H).map(([topic, events], index) => ({
    topic,
    events,
    lastSeenAt: ago(3),
    subscribers: TOPICS[topic].length,
    unheard: TOPICS[topic].length ? 0 : events,
    hours: series(
      24,
      index + 3,
      (x, r) => events / 24 + Math.sin(x * 7 + index) * (events / 90) + r * (events / 60),
    ).map(Math.round),
  }));

const hours = (fill) => Array.from({ length: 24 }, (_, index) => fill[index] ?? 0);
export const failureGroups = () => [
  {
    groupId: 'g-points-503',
    consumerId: 'points',
    errorCode: '503',
    fingerprint:
      'loyalty-core answered # Service Unavailable: upstream connect error or disconnect/reset before headers',
    count: 1284,
    dead: 31,
    held: 11,
    first: ago(2040),
    last: ago(7),
    sample: 'loyalty-core answered 503 Service Unavailable: upstream connect error or disconnect/reset before headers',
    sampleEventId: 'order:10531:paid',
    hours: hours({ 21: 260, 22: 440, 23: 584 }),
    topics: [
      { topic: 'order.paid', count: 1211 },
      { topic: 'order.checkout_locked', count: 61 },
      { topic: 'order.refunded', count: 12 },
    ],
  },
  {
    groupId: 'g-inventory',
    consumerId: 'inventory',
    errorCode: 'outOfStock',
    fingerprint: 'out of stock: sku #',
    count: 41,
    dead: 0,
    held: 0,
    first: ago(19_000),
    last: ago(130),
    sample: 'out of stock: sku P-31-M-blue',
    sampleEventId: 'order:10534:checkout_locked',
    hours: hours([3, 1, 1, 2, 4, 3, 2, 1, 3, 0, 3, 1, 2, 3, 1, 2, 1, 3, 2, 0, 4, 0, 1, 1]),
    topics: [{ topic: 'order.checkout_locked', count: 41 }],
  },
  {
    groupId: 'g-message',
    consumerId: 'message-service',
    errorCode: '404',
    fingerprint: 'template # not found',
    count: 18,
    dead: 18,
    held: 0,
    first: ago(90_000),
    last: ago(660),
    sample: 'template refund-zh not found',
    sampleEventId: 'order:10492:purchased',
    hours: hours({ 0: 2, 4: 2, 12: 2, 14: 2, 15: 2, 17: 2, 19: 2, 21: 2 }),
    topics: [{ topic: 'order.purchased', count: 18 }],
  },
  {
    groupId: 'g-analytics',
    consumerId: 'analytics',
    errorCode: '502',
    fingerprint: 'webhook answered #',
    count: 12,
    dead: 4,
    held: 0,
    first: ago(3100),
    last: ago(1860),
    sample: 'webhook answered 502',
    sampleEventId: 'order:10364:paid',
    hours: hours({ 21: 9, 22: 3 }),
    topics: [{ topic: 'order.paid', count: 12 }],
  },
  {
    groupId: 'g-wallet',
    consumerId: 'wallet',
    errorCode: '1205',
    fingerprint: 'lock wait timeout exceeded; try restarting transaction',
    count: 7,
    dead: 0,
    held: 0,
    first: ago(1900),
    last: ago(48),
    sample: 'lock wait timeout exceeded; try restarting transaction',
    sampleEventId: 'order:10531:paid',
    hours: hours({ 22: 5, 23: 2 }),
    topics: [{ topic: 'order.paid', count: 7 }],
  },
  {
    groupId: 'g-closed',
    consumerId: 'points',
    errorCode: 'accountClosed',
    fingerprint: 'account of user # is closed',
    count: 2,
    dead: 2,
    held: 0,
    first: ago(172_800),
    last: ago(72_000),
    sample: 'account of user user-4410 is closed',
    sampleEventId: 'order:10377:paid',
    hours: hours({ 4: 2 }),
    topics: [{ topic: 'order.paid', count: 2 }],
  },
];
export const mended = () => [
  {
    consumerId: 'wallet',
    fingerprint: 'deadlock found when trying to get lock',
    mendedAt: ago(11_500),
    operation: 29,
    by: 'mei',
    count: 412,
    mended: 412,
  },
  {
    consumerId: 'message-service',
    fingerprint: 'connection refused',
    mendedAt: ago(90_000),
    operation: null,
    by: null,
    count: 3918,
    mended: 3918,
  },
  {
    consumerId: 'inventory',
    fingerprint: 'inventory answered #',
    mendedAt: ago(172_800),
    operation: 27,
    by: 'wei.lin',
    count: 96,
    mended: 93,
  },
];

const op = (number, rest) => ({
  operationId: `019a0000-0000-7000-8000-0000000000${number}`,
  number,
  kind: 'redrive',
  filter: {},
  eventIds: null,
  failureGroup: null,
  failureGroups: null,
  consumerId: null,
  consumers: 'failed',
  oldestFirst: false,
  ramp: null,
  steps: [],
  stoppedBecause: null,
  delivered: 0,
  failed: 0,
  skipped: 0,
  open: 0,
  failedAgain: 0,
  ratePerSecond: null,
  stopAbovePercent: 5,
  gateSeconds: 60,
  createdAt: ago(100),
  updatedAt: ago(1),
  finishedAt: null,
  ...rest,
});
const step = (size, ratePerSecond, state, done, delivered, failedAgain) => ({
  size,
  ratePerSecond,
  state,
  done,
  delivered,
  failedAgain,
  endedAt: state === 'passed' ? ago(30) : null,
});
export const makeOperations = () => [
  op(31, {
    state: 'RUNNING',
    consumerId: 'points',
    failureGroup: 'g-points-503',
    reason: 'loyalty-core 3.2 is out',
    requestedBy: 'wei.lin',
    total: 1269,
    done: 521,
    delivered: 509,
    failedAgain: 5,
    open: 7,
    skipped: 11,
    failed: 4,
    createdAt: ago(76),
    ramp: [1, 10, 100],
    steps: [
      step(1, null, 'passed', 1, 1, 0),
      step(10, 5, 'passed', 10, 10, 0),
      step(100, 20, 'passed', 100, 98, 2),
      step(1158, 50, 'running', 412, 400, 3),
    ],
    rates: [1, 2, 5, 5, 5, 3, 14, 20, 20, 18, 6, 38, 50, 50, 49, 50],
  }),
  op(30, {
    state: 'CANCELLED',
    stoppedBecause: '9 of 10 failed again (90.0 %)',
    consumerId: 'points',
    filter: { consumerId: 'points', deliveryStatus: 'DEAD' },
    reason: 'try before loyalty-core is back',
    requestedBy: 'wei.lin',
    total: 1269,
    done: 11,
    delivered: 2,
    failedAgain: 9,
    createdAt: ago(1200),
    finishedAt: ago(1180),
    ramp: [1, 10, 100],
    steps: [
      step(1, null, 'passed', 1, 1, 0),
      step(10, 5, 'stopped', 10, 1, 9),
      step(100, 20, 'todo', 0, 0, 0),
      step(1158, 50, 'todo', 0, 0, 0),
    ],
  }),
  op(29, {
    state: 'DONE',
    consumerId: 'wallet',
    filter: { consumerId: 'wallet', deliveryStatus: 'DEAD' },
    reason: 'deploy 2.4.1 takes rows in order',
    requestedBy: 'mei',
    total: 412,
    done: 412,
    delivered: 412,
    createdAt: ago(11_500),
    finishedAt: ago(11_400),
  }),
  op(28, {
    state: 'CANCELLED',
    filter: { topic: 'order.reopened' },
    reason: 'wrong filter',
    requestedBy: 'mei',
    total: 214,
    done: 20,
    delivered: 20,
    createdAt: ago(72_000),
    finishedAt: ago(71_900),
  }),
  op(27, {
    state: 'DONE',
    consumerId: 'inventory',
    filter: { consumerId: 'inventory', status: 'PARTIAL' },
    reason: 'shard 2 is back',
    requestedBy: 'wei.lin',
    total: 96,
    done: 96,
    delivered: 93,
    failedAgain: 3,
    createdAt: ago(172_800),
    finishedAt: ago(172_700),
  }),
  op(26, {
    state: 'DONE',
    eventIds: ['order:9981:paid'],
    reason: 'ticket 4471',
    requestedBy: 'cli-night',
    total: 1,
    done: 1,
    delivered: 1,
    createdAt: ago(259_200),
    finishedAt: ago(259_199),
  }),
];

const bars = (strained) =>
  Array.from({ length: 48 }, (_, index) => ({
    at: ago((48 - index) * 1800),
    ok: true,
    strained: strained.includes(index),
  }));
export const promises = (broken) => ({
  checkedAt: at(Date.now() - 2000),
  promises: [
    {
      name: 'lost',
      ok: broken !== 'lost',
      figures: {
        owed: 1204118,
        done: broken === 'lost' ? 1201663 : 1201664,
        waiting: 2417,
        dead: 37,
        missing: broken === 'lost' ? 1 : 0,
      },
      since: broken === 'lost' ? ago(20) : null,
      events: broken === 'lost' ? ['order:10364:paid'] : [],
      findings:
        broken === 'lost'
          ? [
              {
                what: 'points has no delivery of order:10364:paid, which it is owed',
                eventId: 'order:10364:paid',
                consumerId: 'points',
                foundAt: ago(20),
              },
            ]
          : [],
      sql: 'SELECT count(*) FROM postrider_delivery',
      history: bars([]),
    },
    {
      name: 'twice',
      ok: true,
      figures: { repeats: 1942, stopped: 1942, twice: 0 },
      since: null,
      sql: 'SELECT …',
      history: bars([]),
    },
    {
      name: 'stuck',
      ok: true,
      figures: { leases: 200, oldestSeconds: 4, overdue: 0, lost: 3 },
      since: null,
      sql: 'SELECT …',
      history: bars([31]),
    },
    {
      name: 'order',
      ok: true,
      figures: { outOfOrder: 0, heldKeys: 3, held: 11 },
      since: ago(468),
      keys: ['10377', '10492', '10518'],
      sql: 'SELECT …',
      history: bars([45, 46, 47]),
    },
    {
      name: 'books',
      ok: true,
      figures: { orders: 8112, accounts: 3480, coupons: 911, discrepancies: 0 },
      since: null,
      source: 'shop audit',
      checkedAt: ago(127),
      sql: null,
      history: bars([]),
    },
  ],
});

const live = (instanceId, role, lanes, seconds) => ({
  instanceId,
  role,
  version: '0.1.0',
  startedAt: ago(seconds),
  seenAt: ago(1),
  lanes,
  loops: ['alerts', 'jobs', 'operations', 'retention', 'rollup', 'router'],
  broker: null,
});
export const health = () => ({
  ok: true,
  store: {
    kind: 'postgres',
    version: '16.4',
    latencyMs: 0.8,
    schema: { found: 6, needed: 6 },
    sizes: [{ name: 'database', bytes: 2_254_857_830 }],
    clockDifferenceMs: 3,
  },
  broker: { state: 'connected', since: ago(274_000), error: null },
  instances: [
    live('relay-a-7-e91', 'all', ['points', 'wallet'], 274_000),
    live('relay-b-9-7c1', 'all', ['points', 'inventory', 'coupon'], 274_000),
  ],
  unservedLanes: [{ lane: 'analytics', waiting: 114 }],
  unservedLoops: [],
  alerts: [{ alert: 'dead', state: 'firing', since: ago(1900), consumer: 'points', sent: true }],
});
/** Of a server that was just started with an empty store. */
export const freshHealth = () => ({
  ...health(),
  store: { ...health().store, kind: 'sqlite', version: '3.45', latencyMs: 0.1 },
  broker: null,
  instances: [live('all-3-3fa', 'all', [], 60)],
  unservedLanes: [],
  alerts: [],
});
const holding = (kind, name, count) => ({ kind, name, count, until: at(start + 20_000) });
export const instances = () => [
  {
    owner: 'relay-a-7-e91',
    holdings: [holding('lane', 'points', 61), holding('lane', 'wallet', 12), holding('lease', 'rollup', 1)],
  },
  {
    owner: 'relay-b-9-7c1',
    holdings: [
      holding('lane', 'points', 118),
      holding('lane', 'inventory', 9),
      holding('operation', '#31', 1),
      holding('job', 'consistency', 1),
    ],
  },
];
const job = (name, schedule, last, next, message, success = true) => ({
  name,
  schedule,
  timeZone: 'UTC',
  lastFire: ago(last),
  nextFire: at(start + next * 1000),
  lastSlot: ago(last),
  finishedAt: ago(last - 1),
  message,
  success,
  owner: 'relay-b-9-7c1',
  lockedUntil: null,
});
export const jobs = () => [
  job('lock-timeout-reaper', '0 */5 * * * ?', 127, 173, 'released 2 locks'),
  job('consistency-check', '0 0 */2 * * ?', 1927, 5273, '4,877 orders, 0 missing'),
  job('order-timeout', '0 * * * * ?', 7, 53, 'canceled 3 orders'),
  job('prune', '0 0 * * * ?', 1927, 1673, 'gave up: lock timeout', false),
];
export const config = () =>
  [
    ['outbox.batch-size', '200', 'file'],
    ['outbox.max-retry-count', '10', 'default'],
    ['outbox.lease-seconds', '30', 'default'],
    ['outbox.backoff-cap-seconds', '3600', 'default'],
    ['outbox.backoff-jitter', '0.1', 'default'],
    ['ordering.dead-head', 'hold', 'default'],
    ['redrive.max-count', '10', 'default'],
    ['redrive.sent-older-than-seconds', '600', 'default'],
    ['redrive.horizon-days', '7', 'default'],
    ['retention.inbox-days', '14', 'default'],
    ['retention.finished-days', '30', 'environment'],
    ['store', 'postgres://postrider:***@db-1/postrider', 'flag'],
    ['alert.webhook-secret', '***', 'environment'],
    ['server.environment', 'prod', 'file'],
  ].map(([key, value, origin]) => ({ key, value, origin }));

let auditId = 1000;
const record = (age, actor, role, action, target, detail, outcome, reason = null, more = {}) => ({
  id: String(auditId--),
  at: ago(age),
  actor,
  role,
  action,
  target,
  detail,
  outcome: String(outcome),
  reason,
  requestId: `req-${auditId}`,
  tokenId: null,
  ...more,
});
export const makeAudit = () => [
  record(
    76,
    'wei.lin',
    'operator',
    'operation.create',
    '#31',
    'redrive 1,269 of points',
    202,
    'loyalty-core 3.2 is out',
  ),
  record(1180, 'postrider', null, 'operation.stopped', '#30', '9 of 10 failed again, limit 5 %', 200),
  record(
    1200,
    'wei.lin',
    'operator',
    'operation.create',
    '#30',
    'redrive 1,269 of points',
    202,
    'try before loyalty-core is back',
  ),
  record(1860, 'mei', 'admin', 'consumer.pause', 'analytics', 'analytics', 204, 'vendor maintenance'),
  record(2030, 'mei', 'admin', 'consumer.resume', 'points', 'points', 204),
  record(2440, 'mei', 'admin', 'consumer.pause', 'points', 'points', 204, 'loyalty-core deploy'),
  record(3050, 'li.na', 'viewer', 'event.redrive', 'order:10377:paid', 'viewers may not', 403),
  record(
    11_500,
    'mei',
    'admin',
    'operation.create',
    '#29',
    'redrive 412 of wallet',
    202,
    'deploy 2.4.1 takes rows in order',
  ),
  record(16_200, 'mei', 'admin', 'subscription.put', 'notification.sent/analytics', null, 200, 'too many', {
    before: { enabled: true },
    after: { enabled: false },
  }),
  record(19_100, 'mei', 'admin', 'token.create', 'cli-night', 'role operator', 201),
  record(19_200, 'mei', 'admin', 'login', null, null, 200),
  record(72_000, 'mei', 'admin', 'operation.cancel', '#28', '20 of 214 done', 200, 'wrong filter'),
  record(72_050, 'mei', 'admin', 'operation.create', '#28', 'redrive 214 of order.reopened', 202, 'they were unheard'),
  record(
    80_600,
    'cli-night',
    'operator',
    'event.expire',
    'order:9810:checkout_locked',
    'order:9810:checkout_locked',
    202,
    'ticket 4460',
  ),
  record(99_500, 'ci-deploy', 'admin', 'subscription.put', 'points.added/activity', 'created, via pull', 200),
];

/** The last day instead of the last hour: other curves and another success. */
export function over(consumer, minutes) {
  if (minutes !== '1440' || consumer.minutes.length === 0) return consumer;
  const successRate = consumer.successRate === null ? null : Math.min(1, consumer.successRate + 0.12);
  const day = consumer.minutes.map((each, index) => ({
    ...each,
    at: at(start - (60 - index) * 24 * 60_000),
    delivered: each.delivered * 24 || (index < 52 ? 400 : 0),
    failed: index < 52 ? 0 : each.failed * 24,
  }));
  return { ...consumer, successRate, minutes: day };
}

export const limits = {
  maxAttempts: 10,
  backoffCapSeconds: 3600,
  backoffJitter: 0.1,
  leaseSeconds: 30,
  redriveMaxCount: 10,
  redriveHorizonDays: 7,
  inboxDays: 14,
  finishedDays: 30,
  deadHead: 'hold',
  oldestSeconds: 60,
  silentSeconds: 300,
};

export function makeStats(minutes, step = 1) {
  const sums = makeMinutes(minutes, step);
  return {
    at: at(Date.now()),
    step,
    nextRetryAt: at(Date.now() + 3_000),
    backlog: 2417,
    processing: 200,
    retrying: 1309,
    dead: 37,
    held: 11,
    oldestPendingSeconds: 42,
    minutes: sums,
  };
}

function makeMinutes(span, step) {
  const minutes = Math.ceil(span / step);
  const rate = series(minutes, 7, (x, r) => 126 + r * 14 + 18 * Math.sin(x * 11));
  return rate.map((perSecond, index) => {
    const x = index / minutes;
    const value = perSecond * step;
    const paused = x > 0.38 && x < 0.5;
    const failed = (x > 0.78 ? (x - 0.76) * 55 : 1.4) * step;
    return {
      at: at(Date.now() - (minutes - index) * step * 60_000),
      created: Math.round(value * 60),
      sent: Math.round(value * 60),
      consumed: Math.round((paused ? value * 0.63 : x > 0.5 && x < 0.62 ? value * 1.2 : value * 0.985) * 60),
      failed: Math.round(failed * 60),
      dead: x > 0.8 ? 1 : 0,
      levels: {
        backlog: Math.round(900 + x * 1500 + (index % 7) * 20),
        retrying: Math.round(300 + x * x * 1000),
        dead: 25 + Math.round(x * 12),
        oldestSeconds: 42,
      },
      deliveries: { delivered: Math.round(value * 60 * 3.2), failed: Math.round(failed * 60) },
    };
  });
}
