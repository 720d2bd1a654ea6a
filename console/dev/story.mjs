// The story of one invented order: paid, then refunded, with points still to give back.
import { ago, at, start } from './clock.mjs';
import { makeEvent } from './events.mjs';

const event = (id, topic, age, status, effects, rest = {}) => ({
  ...makeEvent({ id, topic, key: '123', status, age, ...rest }),
  effects,
  consumers: rest.names ?? effects.map((each) => each.consumerId),
  consumptions: [],
  deliveries: [],
  compensation: !!rest.compensation,
});
const effect = (consumerId, text, asset, delta, idempotencyKey, rest = {}) => ({
  consumerId,
  state: 'done',
  effect: text,
  asset,
  delta,
  idempotencyKey,
  keyState: 'SUCCESS',
  attempts: 1,
  repeatsStopped: 0,
  at: ago(rest.age ?? 1000),
  ...rest,
});

export function story() {
  const events = [
    event(
      'order:123:checkout_locked',
      'order.checkout_locked',
      1800,
      'CONSUMED',
      [
        effect('coupon', 'locked C-88', 'Coupon C-88', '-1 locked', 'order:123:checkout', { age: 1800 }),
        effect('wallet', 'froze ¥40.00', 'Wallet of user-88121', '-40.00 frozen', 'wallet:123:freeze', {
          age: 1800,
          attempts: 2,
        }),
        effect('points', 'froze 200', 'Points of user-88121', '-200 frozen', 'points:123:freeze', { age: 1800 }),
        effect('inventory', 'took 1 × P-31', 'Stock of P-31', '-1', '123-DEDUCT', {
          age: 1800,
          keyState: 'RELEASED',
          undoneAt: ago(720),
          repeatsStopped: 1,
        }),
      ],
      { consumers: { wallet: { fails: 1, end: 'ok' } } },
    ),
    event('order:123:paid', 'order.paid', 1710, 'CONSUMED', [
      effect('coupon', 'spent C-88', 'Coupon C-88', '0 spent', 'order:123:commit', { age: 1710, undoneAt: ago(720) }),
      effect('wallet', 'paid ¥40.00', 'Wallet of user-88121', '0 paid', 'wallet:123:commit', {
        age: 1710,
        undoneAt: ago(720),
        repeatsStopped: 2,
      }),
      effect('points', 'spent 200', 'Points of user-88121', '0 spent', 'points:123:commit', {
        age: 1710,
        undoneAt: 'waiting',
        repeatsStopped: 2,
      }),
      effect('points', 'earned 129', 'Points of user-88121', '+129', 'points:123:earn', {
        age: 1710,
        undoneAt: 'waiting',
        repeatsStopped: 2,
      }),
    ]),
    event('payment:9921:success', 'payment.success', 1710, 'CONSUMED', [], { names: ['payment'] }),
    event('order:123:purchased', 'order.purchased', 1710, 'CONSUMED', [], {
      names: ['member-service', 'message-service'],
    }),
    event(
      'order:123:refunded',
      'order.refunded',
      720,
      'RETRYING',
      [
        effect('coupon', 'returned C-88', 'Coupon C-88', '+1 returned', 'order:123:return', {
          age: 720,
          undoes: ['order:123:paid'],
        }),
        effect('wallet', 'gave back ¥40.00', 'Wallet of user-88121', '+40.00', 'wallet:77:revert', {
          age: 720,
          undoes: ['order:123:paid'],
        }),
        effect('points', 'give back 200, take back 129', 'Points of user-88121', '+71', 'points:77:revert', {
          state: 'retrying',
          keyState: null,
          attempts: 5,
          at: null,
          dueAt: at(start + 15_000),
          undoes: ['order:123:paid'],
        }),
        effect('inventory', 'put back 1 × P-31', 'Stock of P-31', '+1', '123-DEDUCT', {
          age: 720,
          keyState: 'RELEASED',
          undoes: ['order:123:checkout_locked'],
        }),
      ],
      { consumers: { points: { fails: 5, end: 'retry', dueIn: 15 } }, compensation: true },
    ),
    event('refund:77:success', 'refund.success', 720, 'CONSUMED', [], { names: ['refund'] }),
  ];
  return {
    key: '123',
    aggregateType: 'ORDER',
    aggregateId: '123',
    events,
    assets: [
      { asset: 'Coupon C-88', net: '0', balanced: true },
      { asset: 'Wallet of user-88121', net: '0.00', balanced: true },
      { asset: 'Points of user-88121', net: '-71', balanced: false },
      { asset: 'Stock of P-31', net: '0', balanced: true },
    ],
    idempotency: [],
    cut: false,
    figures: { events: 6, effects: 15, attempts: 23, repeatsStopped: 7, twice: 0 },
  };
}
