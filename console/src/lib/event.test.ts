import { describe, expect, test } from 'vitest';
import type { Consumer, EventDetail } from '../api/pending';
import { partsOf, whyWaiting } from './event';

const NOW = Date.parse('2026-11-18T06:32:00Z');
const delivery = (status: string, rest = {}) => ({
  consumerId: 'points',
  status,
  held: false,
  attempts: 0,
  maxAttempts: 10,
  dueAt: '2026-11-18T06:32:15Z',
  ...rest,
});
const failed = {
  consumerId: 'points',
  attemptNo: 1,
  success: false,
  willRetry: true,
  createdAt: '2026-11-18T06:31:00Z',
};
const event = (rest: object) =>
  ({
    status: 'PENDING',
    expectedConsumers: 1,
    consumptions: [],
    deliveries: [],
    maxAttempts: null,
    deliverAt: null,
    ...rest,
  }) as unknown as EventDetail;
const paused = [{ consumerId: 'points', paused: true }] as Consumer[];
const pulling = [{ consumerId: 'points', via: 'pull' }] as Consumer[];

describe('why is it waiting? The first answer that fits', () => {
  test.each<[string, object, Consumer[], number | null, string | null]>([
    ['1 dead', { deliveries: [delivery('DEAD')], deliverAt: '2026-11-19T00:00:00Z' }, paused, 1, 'dead'],
    ['2 held', { deliveries: [delivery('NEW', { held: true })] }, paused, 1, 'held'],
    ['3 worked on', { deliveries: [delivery('PROCESSING')] }, paused, 1, 'working'],
    ['4 paused', { deliveries: [delivery('FAILED')], deliverAt: '2026-11-19T00:00:00Z' }, paused, 1, 'paused'],
    ['5 for later', { deliveries: [delivery('NEW')], deliverAt: '2026-11-19T00:00:00Z' }, [], 1, 'later'],
    ['6 retried', { deliveries: [delivery('FAILED')], consumptions: [failed] }, [], 1, 'retrying'],
    ['7 not its turn', { deliveries: [delivery('NEW', { blockedBy: { eventId: 'a', ahead: 2 } })] }, [], 1, 'turn'],
    [
      '8 sent, no report',
      { status: 'SENT', consumptions: [{ consumerId: 'points', attemptNo: 0, success: null }] },
      [],
      1,
      'sent',
    ],
    ['7 a consumer that fetches', { status: 'SENT', deliveries: [delivery('NEW')] }, pulling, 1, 'pull'],
    ['9 nobody hears it', { expectedConsumers: 0 }, [], 1, 'unheard'],
    ['10 nobody delivers', { deliveries: [delivery('NEW')] }, [], 0, 'nobody'],
    ['a consumed event does not wait', { status: 'CONSUMED' }, [], 1, null],
  ])('%s', (_, rest, consumers, relays, answer) => {
    expect(whyWaiting(event(rest), consumers, NOW, relays)?.answer ?? null).toBe(answer);
  });
});

describe('the parts of an event', () => {
  test('a success is done, whatever a delivery says; attempt 0 is no attempt', () => {
    const parts = partsOf(
      event({
        consumptions: [
          { consumerId: 'coupon', attemptNo: 1, success: true },
          { consumerId: 'points', attemptNo: 0, success: null },
        ],
        deliveries: [{ ...delivery('FAILED'), consumerId: 'coupon' }],
      }),
    );
    expect(parts.map((part) => [part.consumerId, part.state, part.attempts.length])).toEqual([
      ['points', 'waiting', 0],
      ['coupon', 'done', 1],
    ]);
  });
  test('a remote failure without retry is dead', () => {
    const [part] = partsOf(event({ consumptions: [{ ...failed, willRetry: false }] }));
    expect(part?.state).toBe('dead');
  });
});
