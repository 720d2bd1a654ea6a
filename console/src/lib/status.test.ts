import { describe, expect, test } from 'vitest';
import { consumerAt, type Facts, type History, statusAt, statusOf } from './status';

const base: Facts = { consumers: [], expired: false, redriven: false, brokerDead: false, sent: false };

describe('the status of an event', () => {
  test.each<[Partial<Facts>, string]>([
    [{ consumers: ['ok', 'ok'], expired: true }, 'CONSUMED'],
    [{ consumers: ['ok', 'retrying'], expired: true }, 'EXPIRED'],
    [{ consumers: ['ok', 'failed'], redriven: true }, 'RETRYING'],
    [{ consumers: ['retrying', 'failed'] }, 'RETRYING'],
    [{ consumers: ['failed', 'failed'] }, 'FAILED'],
    [{ consumers: ['waiting'], brokerDead: true }, 'FAILED'],
    [{ consumers: ['ok', 'failed', 'waiting'], sent: true }, 'PARTIAL'],
    [{ consumers: ['ok', 'waiting'], sent: true }, 'SENT'],
    [{ consumers: ['waiting'] }, 'PENDING'],
    [{ consumers: [] }, 'PENDING'],
  ])('%o is %s', (facts, status) => {
    expect(statusOf({ ...base, ...facts })).toBe(status);
  });

  const history: History = {
    expected: ['coupon', 'points'],
    sentAt: 100,
    expireAt: null,
    attempts: [
      { consumerId: 'coupon', success: true, willRetry: false, at: 120 },
      { consumerId: 'points', success: false, willRetry: true, at: 200 },
      { consumerId: 'points', success: false, willRetry: false, at: 300 },
      { consumerId: 'points', success: true, willRetry: false, at: 400 },
    ],
  };
  test.each([
    [50, 'PENDING'],
    [110, 'SENT'],
    [250, 'RETRYING'],
    [350, 'PARTIAL'],
    [400, 'CONSUMED'],
  ])('replayed to %i it is %s', (at, status) => {
    expect(statusAt(history, at)).toBe(status);
  });
  test('success is final for a consumer', () => {
    const later: History = {
      ...history,
      attempts: [...history.attempts, { consumerId: 'coupon', success: false, willRetry: true, at: 500 }],
    };
    expect(consumerAt(later, 'coupon', 600)).toBe('ok');
  });
});
