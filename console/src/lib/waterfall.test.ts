import { expect, test } from 'vitest';
import type { Trace } from '../api/pending';
import { isCollapsed, shareOf, waterfallOf } from './waterfall';

const at = (ms: number) => new Date(1_800_000_000_000 + ms).toISOString();
const attempt = (consumerId: string, attemptNo: number, success: boolean, from: number, to: number) => ({
  consumerId,
  attemptNo,
  success,
  willRetry: !success,
  startedAt: at(from),
  consumedAt: at(to),
  createdAt: at(to),
});
const paid = {
  eventId: 'paid',
  topic: 'order.paid',
  parentEventId: 'gone',
  createdAt: at(0),
  sentAt: at(100),
  failedConsumers: 1,
  initiator: { service: 'shop' },
  consumptions: [
    attempt('mail', 1, true, 110, 200),
    attempt('points', 1, false, 120, 1000),
    attempt('points', 2, false, 60_000, 61_000),
  ],
  deliveries: [{ consumerId: 'points', status: 'DEAD', held: false }],
  children: [
    {
      eventId: 'sent',
      topic: 'mail.sent',
      parentEventId: 'paid',
      createdAt: at(190),
      sentAt: at(195),
      failedConsumers: 0,
      initiator: { service: 'mail' },
      consumptions: [],
      deliveries: [],
      children: [],
    },
  ],
};
const trace = { traceId: 't', events: [paid, paid.children[0]], roots: [paid], cut: false } as unknown as Trace;
const fall = waterfallOf(trace);

test('a missing parent is a stub, and an event stands below the consumer that wrote it', () => {
  expect(fall.rows.map((row) => [row.kind, row.name, row.depth])).toEqual([
    ['stub', 'gone', 0],
    ['event', 'order.paid', 1],
    ['consumer', 'mail', 2],
    ['event', 'mail.sent', 3],
    ['consumer', 'points', 2],
  ]);
  expect(fall.rows.at(-1)?.state).toBe('dead');
});
test('idle time behind the last success is collapsed', () => {
  expect(isCollapsed(fall, true)).toBe(true);
  expect(shareOf(fall, fall.start, true)).toBe(0);
  expect(shareOf(fall, fall.end, true)).toBeCloseTo(0.86);
  expect(shareOf(fall, fall.end, false)).toBeCloseTo(0.9);
});
