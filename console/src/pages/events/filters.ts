// The filters of the list, as the URL has them and as the API takes them.
import type { Query } from '../../api/client';
import type { EventSummary } from '../../api/pending';
import type { Search } from '../../lib/url';

/** Names in the URL and the names the API has for them. */
export const NAMES: Record<string, string> = {
  topic: 'topic',
  status: 'status',
  delivery: 'deliveryStatus',
  service: 'service',
  consumer: 'consumerId',
  tenant: 'tenantId',
  trace: 'traceId',
  key: 'key',
  aggregateType: 'aggregateType',
  aggregateId: 'aggregateId',
  group: 'failureGroup',
  unheard: 'unheard',
  older: 'olderThanSeconds',
  from: 'from',
  to: 'to',
};
export const RANGES: Record<string, number> = { '15m': 900, '1h': 3600, '6h': 21_600, '24h': 86_400, '7d': 604_800 };
export const PAGE = 50;
const MINUTE = 60_000;
/** An event that is not finished after this time is slow. */
const SLOW_SECONDS = '60';
const IN_FLIGHT = 'PENDING,SENT,RETRYING';

export const PRESETS: Record<'all' | 'inflight' | 'retrying' | 'dead' | 'slow', Search> = {
  all: {},
  inflight: { status: IN_FLIGHT },
  retrying: { status: 'RETRYING' },
  dead: { delivery: 'DEAD' },
  slow: { status: IN_FLIGHT, older: SLOW_SECONDS },
};
export type Preset = keyof typeof PRESETS;

/** Links from other pages may use the API's names. */
export function normal(search: Search): Search {
  const back = Object.fromEntries(Object.entries(NAMES).map(([short, long]) => [long, short]));
  const named = Object.fromEntries(Object.entries(search).map(([name, value]) => [back[name] ?? name, value]));
  return named.preset && named.preset in PRESETS ? { ...named, ...PRESETS[named.preset as Preset] } : named;
}

/** The filter for the API. A range starts at a whole minute, so that the same range is the same question. */
export function filterOf(search: Search, now: number): Query {
  const filter: Query = {};
  for (const [short, long] of Object.entries(NAMES)) if (search[short]) filter[long] = search[short];
  const seconds = RANGES[search.range ?? ''];
  if (seconds) filter.from = new Date(Math.floor(now / MINUTE) * MINUTE - seconds * 1000).toISOString();
  return filter;
}

/** The same search without what the presets set. */
export function withoutPreset(search: Search): Search {
  const { status: _status, delivery: _delivery, older: _older, ...rest } = search;
  return rest;
}

export function presetOf(search: Search): Preset | null {
  const mine = (name: string) => search[name] ?? '';
  const found = (Object.keys(PRESETS) as Preset[]).filter((preset) =>
    ['status', 'delivery', 'older'].every((name) => mine(name) === (PRESETS[preset][name] ?? '')),
  );
  return found[0] ?? null;
}

/** The filters that stand as chips; status has its facet and its preset. */
export function chipsOf(search: Search): [string, string][] {
  return Object.keys(NAMES)
    .filter((name) => search[name] && !(name === 'status' && presetOf(search)))
    .map((name) => [name, search[name]!]);
}

/** Whether a new event belongs to the list, as far as its summary tells. */
export function fits(event: EventSummary, search: Search): boolean {
  const is = (name: string, value: string | null | undefined) => !search[name] || search[name] === value;
  return (
    is('topic', event.topic) &&
    is('key', event.key) &&
    is('tenant', event.tenantId) &&
    is('trace', event.traceId) &&
    is('service', event.initiator.service) &&
    (!search.status || search.status.split(',').includes(event.status)) &&
    !search.delivery &&
    !search.older &&
    !search.to
  );
}
