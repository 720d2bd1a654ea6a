// Events of an invented shop. Every figure, name and error is made up.
import { ago, at, start } from './clock.mjs';

const SHOP = ['coupon', 'wallet', 'inventory', 'points'];
export const TOPICS = {
  'order.checkout_locked': SHOP,
  'order.paid': SHOP,
  'order.canceled': SHOP,
  'order.refunded': SHOP,
  'order.purchased': ['member-service', 'message-service'],
  'payment.success': ['payment'],
  'payment.failed': ['payment'],
  'refund.success': ['refund'],
  'refund.failed': ['refund'],
  'points.added': ['activity'],
  'notification.sent': ['activity'],
  'order.reopened': [],
};
const TOOK = {
  coupon: 19,
  wallet: 24,
  inventory: 148,
  points: 1020,
  payment: 50,
  refund: 28,
  'member-service': 210,
  'message-service': 640,
  activity: 70,
};
const ERROR = {
  points: [
    '503',
    'loyalty-core answered 503 Service Unavailable: upstream connect error or disconnect/reset before headers. reset reason: connection failure',
  ],
  wallet: ['1205', 'lock timeout: lock wait timeout exceeded; try restarting transaction'],
  inventory: ['outOfStock', 'out of stock: sku P-31-M-blue'],
  coupon: ['500', 'coupon answered 500'],
};

function consumptionsOf(spec, created, expected) {
  const list = [];
  const deliveries = [];
  for (const [index, consumerId] of expected.entries()) {
    const plan = spec.consumers?.[consumerId] ?? spec.all ?? { fails: 0, end: 'ok' };
    const took = TOOK[consumerId] ?? 30;
    let begin = created + 107 + index * 9 + (consumerId === 'points' ? 90 : 0);
    for (let attemptNo = 1; attemptNo <= (plan.fails ?? 0); attemptNo += 1) {
      const [errorCode, errorMessage] = ERROR[consumerId] ?? ['500', `${consumerId} answered 500`];
      const durationMs = consumerId === 'wallet' ? 55 : took - 40 + ((attemptNo * 37) % 90);
      list.push(
        attempt(consumerId, attemptNo, false, begin, durationMs, {
          errorCode,
          errorMessage,
          willRetry: plan.end !== 'dead' || attemptNo < plan.fails,
        }),
      );
      begin += durationMs + (consumerId === 'wallet' ? 1900 : 2 ** attemptNo * 1000);
    }
    if (plan.end === 'ok') list.push(attempt(consumerId, (plan.fails ?? 0) + 1, true, begin, took, {}));
    else deliveries.push(delivery(spec, consumerId, plan, begin));
  }
  return { list, deliveries };
}

function attempt(consumerId, attemptNo, success, begin, durationMs, rest) {
  const end = at(begin + durationMs);
  return {
    consumerId,
    attemptNo,
    success,
    willRetry: false,
    startedAt: at(begin),
    durationMs,
    consumedAt: end,
    createdAt: end,
    owner: 'relay-b-9-7c1',
    cause: 'relay',
    errorCode: null,
    errorMessage: null,
    ...rest,
    ...(success && consumerId === 'inventory' ? { result: { effect: 'took 1 × P-31' } } : {}),
  };
}

function delivery(spec, consumerId, plan, due) {
  const status = plan.end === 'dead' ? 'DEAD' : plan.end === 'work' ? 'PROCESSING' : plan.fails ? 'FAILED' : 'NEW';
  return {
    deliveryId: `d-${spec.id}-${consumerId}`,
    lane: consumerId,
    consumerId,
    shard: 0,
    status,
    held: plan.end === 'held',
    attempts: plan.fails ?? 0,
    maxAttempts: 10,
    dueAt: plan.dueIn ? at(start + plan.dueIn * 1000) : at(due),
    lockOwner: status === 'PROCESSING' ? 'relay-b-9-7c1' : null,
    lockTime: status === 'PROCESSING' ? ago(4) : null,
    lockUntil: status === 'PROCESSING' ? at(start + 26_000) : null,
    lastError: plan.fails ? (ERROR[consumerId]?.[1] ?? null) : null,
    heldBy: plan.end === 'held' ? { eventId: plan.by, topic: 'order.paid' } : null,
    blockedBy: null,
  };
}

/** A whole event from a short line: what became of each consumer decides everything else. */
export function makeEvent(spec) {
  const created = start - spec.age * 1000;
  const expected = TOPICS[spec.topic] ?? [];
  const { list, deliveries } = consumptionsOf(spec, created, expected);
  const ok = new Set(list.filter((each) => each.success).map((each) => each.consumerId));
  const dead = deliveries.filter((each) => each.status === 'DEAD').length;
  const retrying = deliveries.filter((each) => each.status === 'FAILED').length;
  const first = spec.status === 'PENDING' ? null : at(created + 107);
  return {
    eventId: spec.id,
    topic: spec.topic,
    status: spec.status,
    retryCount: spec.redriven ?? 0,
    expectedConsumers: expected.length,
    consumedConsumers: ok.size,
    failedConsumers: dead,
    retryingConsumers: retrying,
    attempts: list.length,
    held: deliveries.some((each) => each.held),
    traceId: spec.trace ?? `4bf92f3577b34da6a3ce929d${spec.key ?? '0'}`.padEnd(32, '0'),
    spanId: '00f067aa0ba902b7',
    parentEventId: spec.parent ?? null,
    key: spec.key ?? null,
    aggregateType: spec.key ? 'ORDER' : null,
    aggregateId: spec.key ?? null,
    tenantId: '7',
    storeId: null,
    initiator: {
      service: spec.service ?? 'shop',
      operation: spec.operation ?? 'POST /shop/payments/callback',
      userId: 'user-88121',
      clientRequestId: 'req-5f02a1',
    },
    occurredAt: at(created),
    sentAt: first,
    lastSentAt: first,
    expireAt: spec.status === 'EXPIRED' ? ago(spec.age - 60) : null,
    createdAt: at(created),
    updatedAt: at(created + 200),
    statusAt: list.at(-1)?.consumedAt ?? at(created + 107),
    lastError: deliveries.find((each) => each.lastError)?.lastError ?? null,
    _consumptions: list,
    _deliveries: deliveries,
    _payload: spec.payload,
    _deliverAt: spec.deliverIn ? at(start + spec.deliverIn * 1000) : null,
  };
}

const RETRY = (fails, dueIn) => ({
  points: { fails, end: 'retry', dueIn },
  wallet: { fails: fails > 4 ? 1 : 0, end: 'ok' },
});
const DEAD = { points: { fails: 10, end: 'dead' } };
const PAID = `{"orderId":"10531","paymentId":9223372036854775807,"userId":"user-88121","amountCents":12900,"currency":"CNY","paidWith":{"walletCents":4000,"points":200,"couponId":"C-8812"},"items":[{"productId":"P-31","skuId":"P-31-M-blue","quantity":1},{"productId":"P-40","skuId":"P-40-L","quantity":2},{"productId":"P-77","skuId":"P-77","quantity":1}],"merchantNote":"发票抬头：上海某某公司","gift":false,"occurredAt":"${ago(48)}","channel":"app"}`;

export const specs = [
  { id: 'order:10533:paid', topic: 'order.paid', key: '10533', status: 'RETRYING', age: 7, consumers: RETRY(2, 4) },
  {
    id: 'order:10534:checkout_locked',
    topic: 'order.checkout_locked',
    key: '10534',
    status: 'PENDING',
    age: 9,
    all: { end: 'wait' },
  },
  {
    id: 'order:10532:checkout_locked',
    topic: 'order.checkout_locked',
    key: '10532',
    status: 'SENT',
    age: 11,
    consumers: { points: { end: 'work' } },
  },
  {
    id: 'order:10526:canceled',
    topic: 'order.canceled',
    key: '10526',
    status: 'CONSUMED',
    age: 31,
    service: 'order-timeout',
  },
  {
    id: 'order:10531:paid',
    topic: 'order.paid',
    key: '10531',
    status: 'RETRYING',
    age: 48,
    consumers: RETRY(5, 15),
    trace: '7f3a4be29d10477a8a01c4d2aa77c21e',
    payload: PAID,
    parent: 'payment:9921:success',
  },
  { id: 'order:10528:paid', topic: 'order.paid', key: '10528', status: 'RETRYING', age: 130, consumers: RETRY(6, 40) },
  {
    id: 'order:10488:canceled',
    topic: 'order.canceled',
    key: '10488',
    status: 'CONSUMED',
    age: 255,
    consumers: { wallet: { fails: 1, end: 'ok' } },
  },
  { id: 'order:10521:paid', topic: 'order.paid', key: '10521', status: 'RETRYING', age: 451, consumers: RETRY(7, 70) },
  {
    id: 'order:10492:refunded',
    topic: 'order.refunded',
    key: '10492',
    status: 'SENT',
    age: 570,
    consumers: { points: { end: 'held', by: 'order:10492:paid' } },
  },
  {
    id: 'order:10370:refunded',
    topic: 'order.refunded',
    key: '10370',
    status: 'CONSUMED',
    age: 845,
    consumers: { wallet: { fails: 2, end: 'ok' } },
  },
  { id: 'order:10518:paid', topic: 'order.paid', key: '10518', status: 'PARTIAL', age: 1128, consumers: DEAD },
  { id: 'order:10515:paid', topic: 'order.paid', key: '10515', status: 'PARTIAL', age: 1142, consumers: DEAD },
  {
    id: 'order:10366:checkout_locked',
    topic: 'order.checkout_locked',
    key: '10366',
    status: 'EXPIRED',
    age: 1273,
    consumers: { points: { end: 'wait' }, inventory: { end: 'wait' } },
  },
  {
    id: 'order:10492:paid',
    topic: 'order.paid',
    key: '10492',
    status: 'PARTIAL',
    age: 1491,
    consumers: { ...DEAD, wallet: { fails: 1, end: 'ok' } },
    trace: '7d19c0aa4be2f09d44e18a60b1c991fe',
    parent: 'gateway:771:callback',
  },
  { id: 'order:10364:paid', topic: 'order.paid', key: '10364', status: 'CONSUMED', age: 1970 },
  {
    id: 'manual-2026-11-18-03',
    topic: 'order.refunded',
    key: '10431',
    status: 'FAILED',
    age: 2500,
    service: 'sql',
    all: { fails: 10, end: 'dead' },
  },
  {
    id: 'order:10377:paid',
    topic: 'order.paid',
    key: '10377',
    status: 'PARTIAL',
    age: 3502,
    consumers: DEAD,
    service: 'consistency',
  },
  {
    id: 'order:10531:checkout_locked',
    topic: 'order.checkout_locked',
    key: '10531',
    status: 'CONSUMED',
    age: 119,
    trace: '7f3a4be29d10477a8a01c4d2aa77c21e',
  },
  {
    id: 'order:10531:refunded',
    topic: 'order.refunded',
    key: '10531',
    status: 'PENDING',
    age: 8,
    all: { end: 'wait' },
  },
  {
    id: 'payment:771:success',
    topic: 'payment.success',
    key: '10492',
    status: 'CONSUMED',
    age: 1491,
    trace: '7d19c0aa4be2f09d44e18a60b1c991fe',
    parent: 'gateway:771:callback',
  },
  {
    id: 'order:10492:purchased',
    topic: 'order.purchased',
    key: '10492',
    status: 'CONSUMED',
    age: 1490.9,
    trace: '7d19c0aa4be2f09d44e18a60b1c991fe',
    parent: 'order:10492:paid',
  },
  {
    id: 'points:10492:added',
    topic: 'points.added',
    key: 'user-88121',
    status: 'CONSUMED',
    age: 1490.6,
    service: 'member-service',
    trace: '7d19c0aa4be2f09d44e18a60b1c991fe',
    parent: 'order:10492:purchased',
  },
  {
    id: 'notification:10492:sent',
    topic: 'notification.sent',
    key: 'user-88121',
    status: 'CONSUMED',
    age: 1490.2,
    service: 'message-service',
    trace: '7d19c0aa4be2f09d44e18a60b1c991fe',
    parent: 'order:10492:purchased',
  },
  {
    id: 'order:10531:purchased',
    topic: 'order.purchased',
    key: '10531',
    status: 'CONSUMED',
    age: 47.8,
    trace: '7f3a4be29d10477a8a01c4d2aa77c21e',
    parent: 'order:10531:paid',
  },
  {
    id: 'points:10531:added',
    topic: 'points.added',
    key: 'user-88121',
    status: 'CONSUMED',
    age: 47.6,
    trace: '7f3a4be29d10477a8a01c4d2aa77c21e',
    parent: 'order:10531:purchased',
  },
  {
    id: 'notification:10531:sent',
    topic: 'notification.sent',
    key: 'user-88121',
    status: 'CONSUMED',
    age: 47.1,
    trace: '7f3a4be29d10477a8a01c4d2aa77c21e',
    parent: 'order:10531:purchased',
  },
  { id: 'order:10399:reopened', topic: 'order.reopened', key: '10399', status: 'PENDING', age: 700 },
  {
    id: 'order:10600:paid',
    topic: 'order.paid',
    key: '10600',
    status: 'PENDING',
    age: 4400,
    all: { end: 'wait' },
    deliverIn: 7500,
  },
];

export function allEvents() {
  const list = specs.map(makeEvent);
  for (let index = 0; index < 160; index += 1) {
    const key = String(10360 - index);
    list.push(
      makeEvent({ id: `order:${key}:paid`, topic: 'order.paid', key, status: 'CONSUMED', age: 3700 + index * 23 }),
    );
  }
  return list.sort((a, b) => b.createdAt.localeCompare(a.createdAt));
}
