// The same screen as a command. What the command line has no flag for is a call of the API with curl.
import type { Query } from '../api/client';

/** A text as one word of a shell. Names and keys come from strangers, and people paste these lines. */
export function quote(text: string): string {
  return /^[\w.:,/@%+=-]+$/.test(text) && !text.startsWith('-') ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Filters of the API and their flags. */
const FLAGS: Record<string, string> = {
  topic: 'topic',
  status: 'status',
  deliveryStatus: 'delivery-status',
  service: 'service',
  traceId: 'trace',
  aggregateType: 'aggregate-type',
  aggregateId: 'aggregate-id',
  key: 'key',
  consumerId: 'consumer',
  tenantId: 'tenant',
  from: 'from',
  to: 'to',
};

function given(filter: Query): [string, string][] {
  return Object.entries(filter)
    .filter(([name, value]) => value && name !== 'limit' && name !== 'cursor')
    .map(([name, value]) => [name, String(value)]);
}

/** Whether there is a flag for each filter. */
export function hasFlags(filter: Query): boolean {
  return given(filter).every(([name]) => name in FLAGS) && !(filter.aggregateId && !filter.aggregateType);
}

/** Filters as flags, in the order given, with a space before each. A value that begins with a dash is no flag. */
export function flagsOf(filter: Query): string {
  return given(filter)
    .map(([name, value]) => ` --${FLAGS[name] ?? name}${value.startsWith('-') ? '=' : ' '}${quote(value)}`)
    .join('');
}

const CURL = 'curl -H "authorization: Bearer $POSTRIDER_TOKEN"';

/** A list of events. */
export function listCommand(filter: Query, server: string): string {
  if (hasFlags(filter)) return `postrider events list${flagsOf(filter)}`;
  return `${CURL} ${quote(`${server}/api/v1/events?${new URLSearchParams(given(filter))}`)}`;
}

export type Redrive = {
  eventIds?: string[] | null;
  groups?: string[];
  filter?: Query | null;
  consumerId?: string | null;
  ramp?: number[] | null;
  stopAbove?: number | null;
  /** Seconds. */
  gate?: number | null;
  oldestFirst?: boolean | null;
  onlyFailed?: boolean | null;
  rate?: number | null;
  reason?: string | null;
};

/** A redrive of many events. Only dead letters go by ramps and groups. */
export function redriveCommand(redrive: Redrive): string {
  const { eventIds, groups = [], filter, consumerId } = redrive;
  const { deliveryStatus, consumerId: named, ...rest } = filter ?? {};
  const isDead = !eventIds && (groups.length > 0 || deliveryStatus === 'DEAD' || !filter);
  const parts = [isDead ? 'postrider dead redrive' : 'postrider events redrive'];
  const consumer = consumerId ?? named;
  if (eventIds) parts.push(...eventIds.map(quote));
  if (consumer) parts.push(`--consumer ${quote(String(consumer))}`);
  parts.push(flagsOf(isDead ? rest : { deliveryStatus, ...rest }).trim());
  parts.push(...groups.map((id) => `--group ${quote(id)}`));
  if (redrive.ramp) parts.push(`--ramp ${redrive.ramp.join(',')}`);
  if (redrive.stopAbove != null) parts.push(`--stop-above ${redrive.stopAbove}%`);
  if (redrive.gate != null) parts.push(`--gate ${redrive.gate}s`);
  if (redrive.rate) parts.push(`--rate ${redrive.rate}`);
  if (redrive.oldestFirst) parts.push('--oldest-first');
  // A named consumer is the only one anyway.
  if (redrive.onlyFailed && !consumer) parts.push('--only-failed');
  if (redrive.reason) parts.push(`--reason ${quote(redrive.reason)}`);
  return parts.filter(Boolean).join(' ');
}
