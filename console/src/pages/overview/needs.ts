// What needs an action, worst first.
import type { Consumer, FailureGroup, Limits, Promise_, Topic } from '../../api/pending';
import { consumerState, OLDEST_SECONDS } from '../../lib/consumer';
import { isRising } from '../failures/group';

/** Groups that stand one by one. The others share a line, so that they do not hide everything else. */
const GROUPS = 2;

export type Need =
  | { kind: 'promise'; promise: Promise_ }
  | { kind: 'nobody' }
  | { kind: 'group'; group: FailureGroup }
  | { kind: 'groups'; groups: FailureGroup[] }
  | { kind: 'held'; consumer: Consumer; keys: string[] }
  | { kind: 'oldest'; seconds: number; limit: number }
  | { kind: 'paused' | 'silent'; consumer: Consumer }
  | { kind: 'unheard'; topic: Topic };

export type Known = {
  promises: Promise_[];
  groups: FailureGroup[];
  consumers: Consumer[];
  topics: Topic[];
  limits: Limits;
  oldestSeconds: number;
  /** How many processes deliver; null if it is unknown. */
  relays: number | null;
  now: number;
};

function byNeed(a: FailureGroup, b: FailureGroup): number {
  return Number(isRising(b)) - Number(isRising(a)) || b.dead - a.dead || b.count - a.count;
}

export function needsOf(known: Known): Need[] {
  const { promises, groups, consumers, topics, limits, now } = known;
  const open = groups.filter((each) => each.dead > 0 || isRising(each)).sort(byNeed);
  const others = open.slice(GROUPS);
  const limit = limits.oldestSeconds ?? OLDEST_SECONDS;
  const heldKeys = promises.find((each) => each.name === 'order')?.keys ?? [];
  const holding = consumers.filter((each) => (each.held ?? 0) > 0);
  const needs: (Need | false)[] = [
    ...promises.filter((each) => !each.ok).map((promise): Need => ({ kind: 'promise', promise })),
    known.relays === 0 && { kind: 'nobody' },
    ...open.slice(0, GROUPS).map((group): Need => ({ kind: 'group', group })),
    // The promise names keys of all consumers: with two holding, it is unknown whose they are.
    ...holding.map((consumer): Need => ({ kind: 'held', consumer, keys: holding.length === 1 ? heldKeys : [] })),
    known.oldestSeconds > limit && { kind: 'oldest', seconds: known.oldestSeconds, limit },
    ...consumers.filter((each) => each.paused).map((consumer): Need => ({ kind: 'paused', consumer })),
    ...topics.filter((each) => each.unheard > 0).map((topic): Need => ({ kind: 'unheard', topic })),
    ...consumers
      .filter((each) => consumerState(each, now, limits.silentSeconds) === 'silent')
      .map((consumer): Need => ({ kind: 'silent', consumer })),
    others.length > 0 && { kind: 'groups', groups: others },
  ];
  return needs.filter((each): each is Need => each !== false);
}
