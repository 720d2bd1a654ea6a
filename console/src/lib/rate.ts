// The figures of a range as points of equal width.
import type { Minute, Stats } from '../api/pending';

export type RatePoint = Minute & {
  /** How much time the point covers. The newest covers less, because it still runs. */
  seconds: number;
  delivered: number;
  missed: number;
};

/** A point that has run for less than this says little about a rate. */
const YOUNG_MS = 15_000;
const EMPTY = { created: 0, sent: 0, consumed: 0, failed: 0, dead: 0 };

/** Oldest first. The server leaves out minutes without events; they are zeros here. */
export function ratePoints(stats: Stats, minutes: number): RatePoint[] {
  const width = 60_000 * (stats.step ?? 1);
  const now = Date.parse(stats.at);
  const newest = Date.parse(stats.minutes.at(-1)?.at ?? stats.at);
  const last = newest + Math.max(0, Math.floor((now - newest) / width)) * width;
  const known = new Map(stats.minutes.map((each) => [Math.round((last - Date.parse(each.at)) / width), each]));
  const points: RatePoint[] = [];
  for (let back = Math.ceil((minutes * 60_000) / width) - 1; back >= 0; back -= 1) {
    const start = last - back * width;
    const ran = Math.min(width, now - start);
    if (back === 0 && ran < YOUNG_MS && points.length > 0) continue;
    const minute: Minute = known.get(back) ?? { at: new Date(start).toISOString(), ...EMPTY };
    points.push({
      ...minute,
      seconds: Math.max(1000, ran) / 1000,
      delivered: minute.deliveries?.delivered ?? minute.consumed,
      missed: minute.deliveries?.failed ?? minute.failed,
    });
  }
  return points;
}
