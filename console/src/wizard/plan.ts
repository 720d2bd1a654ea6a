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

type Takes = (field: string) => boolean;
/** Fields that are left out for a server without them. */
const OPTIONAL = ['consumers', 'ramp', 'stopAbovePercent', 'gateSeconds', 'oldestFirst'] as const;

/** Whether chosen events are redriven one by one, because the server takes no list of them. */
export function isOneByOne(what: What, takes: Takes): boolean {
  return what.eventIds !== undefined && !takes('eventIds');
}

/** How fast it goes: a server without ramps gets a rate. */
export function speedOf(plan: Plan, takes: Takes): Plan['speed'] {
  return plan.speed === 'ramp' && !takes('ramp') ? 'rate' : plan.speed;
}

/** Groups by their ids. Without stable ids, consumers and dead deliveries are the nearest. */
function groupsOf(groups: FailureGroup[], takes: Takes): Partial<NewOperation> {
  const ids = groups.map((each) => each.groupId).filter((id): id is string => !!id);
  if (ids.length < groups.length || !takes(ids.length === 1 ? 'failureGroup' : 'failureGroups')) {
    const consumerId = [...new Set(groups.map((each) => each.consumerId))].join(',');
    return { filter: { consumerId, deliveryStatus: 'DEAD' } };
  }
  return ids.length === 1 ? { failureGroup: ids[0], filter: {} } : { failureGroups: ids, filter: {} };
}

export function bodyOf(what: What, plan: Plan, takes: Takes = () => true): NewOperation {
  const speed = speedOf(plan, takes);
  const filter =
    what.filter &&
    Object.fromEntries(
      Object.entries(what.filter)
        .filter(([, value]) => value)
        .map(([name, value]) => [name, String(value)]),
    );
  const body: NewOperation = {
    kind: 'redrive',
    ...(what.eventIds ? { eventIds: what.eventIds, filter: {} } : {}),
    ...(what.groups ? groupsOf(what.groups, takes) : {}),
    ...(filter ? { filter } : {}),
    consumerId: consumerOf(what, plan),
    consumers: plan.onlyFailed ? 'failed' : 'open',
    ...(speed === 'rate' ? { ratePerSecond: plan.rate } : {}),
    ...(speed === 'ramp' ? { ramp: plan.ramp, stopAbovePercent: plan.stopAbove, gateSeconds: plan.gateSeconds } : {}),
    ...(plan.keepOrder ? { oldestFirst: true } : {}),
    dryRun: true,
  };
  for (const field of OPTIONAL) if (!takes(field)) delete body[field];
  return body;
}

export function cliOf(what: What, plan: Plan, reason: string, takes: Takes = () => true): string {
  const speed = speedOf(plan, takes);
  const body = bodyOf(what, plan, takes);
  return redriveCommand({
    eventIds: what.eventIds,
    groups: body.failureGroups ?? (body.failureGroup ? [body.failureGroup] : []),
    filter: body.filter,
    consumerId: body.consumerId,
    ramp: speed === 'ramp' ? plan.ramp : null,
    stopAbove: speed === 'ramp' ? plan.stopAbove : null,
    rate: speed === 'rate' ? plan.rate : null,
    reason: reason.trim(),
  });
}
