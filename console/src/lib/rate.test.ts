import { describe, expect, test } from 'vitest';
import type { Stats } from '../api/pending';
import { ratePoints } from './rate';

const minute = (at: string, created: number) => ({ at, created, sent: 0, consumed: created, failed: 0, dead: 0 });
const stats = (at: string, minutes: Stats['minutes'], step = 1) =>
  ({ at, backlog: 0, processing: 0, retrying: 0, dead: 0, held: 0, step, minutes }) as Stats;

describe('points of a range', () => {
  test('minutes that the server leaves out are zeros, and the range is whole', () => {
    const points = ratePoints(
      stats('2026-11-18T10:05:30Z', [minute('2026-11-18T10:01:00Z', 60), minute('2026-11-18T10:04:00Z', 120)]),
      15,
    );
    expect(points.length).toBe(15);
    expect(points.slice(-5).map((each) => each.created)).toEqual([60, 0, 0, 120, 0]);
    expect(points.at(-1)?.at).toBe('2026-11-18T10:05:00.000Z');
  });
  test('the running minute is measured by the time it ran, and left out while it is young', () => {
    const written = [minute('2026-11-18T10:04:00Z', 120), minute('2026-11-18T10:05:00Z', 60)];
    const running = ratePoints(stats('2026-11-18T10:05:30Z', written), 15).at(-1)!;
    expect(running.created / running.seconds).toBe(2);
    expect(ratePoints(stats('2026-11-18T10:05:05Z', written), 15).at(-1)?.at).toBe('2026-11-18T10:04:00Z');
  });
  test('steps of five minutes are points too', () => {
    const points = ratePoints(stats('2026-11-18T10:07:00Z', [minute('2026-11-18T10:00:00Z', 300)], 5), 60);
    expect(points.length).toBe(12);
    expect(points.slice(-2).map((each) => each.created)).toEqual([300, 0]);
  });
});
