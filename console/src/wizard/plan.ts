import type { Query } from '../api/client';
import type { FailureGroup, NewOperation } from '../api/pending';

/** What is redriven: one of a failure group, chosen events, or a filter. */
export type What = { group?: FailureGroup; eventIds?: string[]; filter?: Query; consumerId?: string };

export type Plan = {
  onlyFailed: boolean;
  speed: 'all' | 'rate' | 'ramp';
  rate: number;
  ramp: number[];
  stopAbove: number;
  gateSeconds: number;
  keepOrder: boolean;
};

function consumerOf(what: What, plan: Plan): string | undefined {
  if (!plan.onlyFailed) return undefined;
  return what.consumerId ?? what.group?.consumerId ?? (what.filter?.consumerId as string | undefined);
}

export function bodyOf(what: What, plan: Plan): NewOperation {
  const filter =
    what.filter &&
    Object.fromEntries(
      Object.entries(what.filter)
        .filter(([, value]) => value)
        .map(([name, value]) => [name, String(value)]),
    );
  const group = what.group;
  return {
    kind: 'redrive',
    ...(what.eventIds ? { eventIds: what.eventIds, filter: {} } : {}),
    ...(group?.groupId ? { failureGroup: group.groupId, filter: {} } : {}),
    // Without a stable group id, consumer and dead deliveries are the nearest that can be said.
    ...(group && !group.groupId ? { filter: { consumerId: group.consumerId, deliveryStatus: 'DEAD' } } : {}),
    ...(filter ? { filter } : {}),
    consumerId: consumerOf(what, plan),
    ...(plan.speed === 'rate' ? { ratePerSecond: plan.rate } : {}),
    ...(plan.speed === 'ramp'
      ? { ramp: plan.ramp, stopAbovePercent: plan.stopAbove, gateSeconds: plan.gateSeconds }
      : {}),
    ...(plan.keepOrder ? { oldestFirst: true } : {}),
    dryRun: true,
  };
}

const quote = (text: string) => (/^[\w.:,/@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const FLAGS: Record<string, string> = {
  consumerId: 'consumer',
  deliveryStatus: 'delivery-status',
  traceId: 'trace',
  aggregateType: 'aggregate-type',
  aggregateId: 'aggregate',
  tenantId: 'tenant',
  olderThanSeconds: 'older-than',
};

/** Filters as flags of the command line, in the order given. */
export function flagsOf(filter: Query): string {
  return Object.entries(filter)
    .filter(([name, value]) => value && name !== 'limit' && name !== 'cursor')
    .map(([name, value]) => ` --${FLAGS[name] ?? name} ${quote(String(value))}`)
    .join('');
}

export function cliOf(what: What, plan: Plan, reason: string): string {
  const consumer = consumerOf(what, plan);
  const parts = ['postrider dead redrive'];
  if (consumer) parts.push(`--consumer ${quote(consumer)}`);
  if (what.eventIds)
    parts.push(what.eventIds.slice(0, 3).map(quote).join(' ') + (what.eventIds.length > 3 ? ' …' : ''));
  if (what.filter)
    parts.push(
      flagsOf(Object.fromEntries(Object.entries(what.filter).filter(([name]) => name !== 'consumerId'))).trim(),
    );
  if (plan.speed === 'rate') parts.push(`--rate ${plan.rate}`);
  if (plan.speed === 'ramp') parts.push(`--ramp ${plan.ramp.join(',')} --stop-above ${plan.stopAbove}%`);
  if (reason.trim()) parts.push(`--reason ${quote(reason.trim())}`);
  return parts.filter(Boolean).join(' ');
}
