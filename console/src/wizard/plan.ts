import type { Query } from '../api/client';
import type { FailureGroup, NewOperation } from '../api/pending';
import { redriveCommand } from '../lib/cli';

/** What is redriven: failure groups, chosen events, or a filter. */
export type What = { groups?: FailureGroup[]; eventIds?: string[]; filter?: Query; consumerId?: string };

export type Plan = {
  onlyFailed: boolean;
  speed: 'all' | 'rate' | 'ramp';
  rate: number;
  ramp: number[];
  stopAbove: number;
  gateSeconds: number;
  keepOrder: boolean;
};

/** The consumers that failed, as far as the choice names them. */
export function failedConsumers(what: What): string[] {
  const named = what.consumerId ?? (what.filter?.consumerId as string | undefined);
  return named ? [named] : [...new Set(what.groups?.map((each) => each.consumerId))];
}

function consumerOf(what: What, plan: Plan): string | undefined {
  const names = failedConsumers(what);
  return plan.onlyFailed && names.length === 1 ? names[0] : undefined;
}

/** Groups by their ids. */
function groupsOf(groups: FailureGroup[]): Partial<NewOperation> {
  const ids = groups.map((each) => each.groupId);
  return ids.length === 1 ? { failureGroup: ids[0], filter: {} } : { failureGroups: ids, filter: {} };
}

export function bodyOf(what: What, plan: Plan): NewOperation {
  const filter =
    what.filter &&
    Object.fromEntries(
      Object.entries(what.filter)
        .filter(([, value]) => value)
        .map(([name, value]) => [name, String(value)]),
    );
  return {
    kind: 'redrive',
    ...(what.eventIds ? { eventIds: what.eventIds, filter: {} } : {}),
    ...(what.groups ? groupsOf(what.groups) : {}),
    ...(filter ? { filter } : {}),
    consumerId: consumerOf(what, plan),
    consumers: plan.onlyFailed ? 'failed' : 'open',
    ...(plan.speed === 'rate' ? { ratePerSecond: plan.rate } : {}),
    ...(plan.speed === 'ramp'
      ? { ramp: plan.ramp, stopAbovePercent: plan.stopAbove, gateSeconds: plan.gateSeconds }
      : {}),
    ...(plan.keepOrder ? { oldestFirst: true } : {}),
    dryRun: true,
  };
}

export function cliOf(what: What, plan: Plan, reason: string): string {
  const { speed } = plan;
  const body = bodyOf(what, plan);
  return redriveCommand({
    eventIds: what.eventIds,
    groups: body.failureGroups ?? (body.failureGroup ? [body.failureGroup] : []),
    filter: body.filter,
    consumerId: body.consumerId,
    ramp: speed === 'ramp' ? plan.ramp : null,
    stopAbove: speed === 'ramp' ? plan.stopAbove : null,
    gate: speed === 'ramp' ? plan.gateSeconds : null,
    oldestFirst: body.oldestFirst,
    onlyFailed: body.consumers === 'failed',
    rate: speed === 'rate' ? plan.rate : null,
    reason: reason.trim(),
  });
}
