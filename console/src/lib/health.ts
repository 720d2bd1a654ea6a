// How a consumer fares: its last minutes with a try or, from a server that has no figures of minutes, its last tries.
import type { ConsumerMinute } from '../api/pending';

export type Try = { at: string; good: boolean };
export type Health = { tries: Try[]; of: 'minutes' | 'attempts'; lastSuccessAt: string | null };

type Told = { success?: boolean | null; consumedAt?: string | null; createdAt: string };

/** Null while nothing is known, or nothing was tried. */
export function healthOf(minutes?: ConsumerMinute[], lastSuccessAt?: string | null, list?: Told[]): Health | null {
  if (minutes) {
    const tries = minutes
      .filter((each) => each.delivered + each.failed > 0)
      .map((each) => ({ at: each.at, good: each.delivered > each.failed }));
    return tries.length > 0 ? { tries, of: 'minutes', lastSuccessAt: lastSuccessAt ?? null } : null;
  }
  if (!list || list.length === 0) return null;
  const tries = list.map((each) => ({ at: each.consumedAt ?? each.createdAt, good: each.success === true })).reverse();
  return { tries, of: 'attempts', lastSuccessAt: tries.findLast((each) => each.good)?.at ?? null };
}
