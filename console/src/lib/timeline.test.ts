import { expect, test } from 'vitest';
import type { EventDetail } from '../api/pending';
import { spent, stretch, timelineOf, unstretch } from './timeline';

const at = (ms: number) => new Date(1_800_000_000_000 + ms).toISOString();
const event = {
  status: 'RETRYING',
  createdAt: at(0),
  sentAt: at(100),
  consumptions: [
    {
      consumerId: 'coupon',
      attemptNo: 1,
      success: true,
      willRetry: false,
      startedAt: at(110),
      consumedAt: at(130),
      createdAt: at(130),
      durationMs: 20,
    },
    {
      consumerId: 'points',
      attemptNo: 1,
      success: false,
      willRetry: true,
      startedAt: at(150),
      consumedAt: at(1150),
      createdAt: at(1150),
      durationMs: 1000,
      errorCode: '503',
    },
  ],
  deliveries: [{ consumerId: 'points', status: 'FAILED', held: false, attempts: 1, dueAt: at(3150) }],
} as unknown as EventDetail;
const line = timelineOf(event, 1_800_000_002_000);

test('every change is a step with the status that held then', () => {
  expect(line.steps.map((step) => [step.kind, step.status, step.done])).toEqual([
    ['written', 'PENDING', 0],
    ['sent', 'SENT', 0],
    ['done', 'SENT', 1],
    ['failed', 'RETRYING', 1],
  ]);
});
test('the stretched axis goes there and back', () => {
  for (const ms of [0, 50, 500, 1999])
    expect(unstretch(line, stretch(line, line.start + ms)) - line.start).toBeCloseTo(ms, 3);
  expect(stretch(line, line.end)).toBe(1);
});
test('the time is split into waiting, work and gaps', () => {
  expect(spent(line)).toEqual({ outbox: 100, good: 20, vain: 1000, between: 850 });
});
