// One stream a tab. It closes 5 s after the tab is hidden, comes back with one refetch, and turns to polling
// where the stream fails twice in a row.
import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { storeNow, syncClock } from '../lib/clock';
import { url } from './client';
import type { Consumer, EventPage, EventSummary, Operation, Stats, Trace } from './pending';

export type Level = Pick<Stats, 'backlog' | 'retrying' | 'dead'>;
export type Live = {
  mode: 'live' | 'paused' | 'reconnecting' | 'polling';
  retryAt: number;
  /** Events a second, from the newest whole minute. */
  rate: number | null;
  stats: Stats | null;
  /** What the stream has brought since the page was opened, oldest first. */
  levels: Level[];
  /** New events since the list was read, newest first; at most 200 are kept. */
  fresh: EventSummary[];
};

const HIDDEN_MS = 5_000;
const POLL_MS = 5_000;
const FRESH_MAX = 200;
/** As many points as a sparkline has room for. */
const LEVELS_MAX = 60;
/** A busy system sends hundreds of events a second. They are drawn together at this pace. */
const FLUSH_MS = 1_000;
let live: Live = { mode: 'reconnecting', retryAt: 0, rate: null, stats: null, levels: [], fresh: [] };
const listeners = new Set<() => void>();
let source: EventSource | null = null;
let failures = 0;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let pollTimer: ReturnType<typeof setTimeout> | undefined;
let stopped = false;
let hideTimer: ReturnType<typeof setTimeout> | undefined;
let client: QueryClient;
let arrived: EventSummary[] = [];
/** The newest state of each event that changed, as it came: most are in no list and need no parsing. */
let changed = new Map<string, string>();
const EVENT_ID = /"eventId":\s*("(?:[^"\\]|\\.)*")/;
let flushTimer: ReturnType<typeof setTimeout> | undefined;

function set(change: Partial<Live>): void {
  live = { ...live, ...change };
  for (const listener of listeners) listener();
}

/** A part of what is live; the component is drawn again only when that part changes. */
export function useLive<T>(select: (live: Live) => T): T {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => select(live),
  );
}

export function clearFresh(): void {
  if (live.fresh.length > 0) set({ fresh: [] });
}

export function togglePause(): void {
  set({ mode: live.mode === 'paused' ? 'reconnecting' : 'paused' });
  if (live.mode === 'paused') {
    close();
    stopPolling();
  } else open();
}

function close(): void {
  source?.close();
  source = null;
  clearTimeout(retryTimer);
}

function stopPolling(): void {
  clearTimeout(pollTimer);
  pollTimer = undefined;
}

function poll(): void {
  client.invalidateQueries({ predicate: (query) => query.queryKey[0] !== 'session' });
  pollTimer = setTimeout(poll, POLL_MS);
}

/** Tries again later, each time after a longer wait. From the second failure on, the pages poll meanwhile. */
function failed(): void {
  close();
  if (live.mode === 'paused' || stopped) return;
  failures += 1;
  const wait = Math.min(30_000, 1000 * 2 ** failures);
  set({ mode: failures >= 2 ? 'polling' : 'reconnecting', retryAt: storeNow() + wait });
  if (failures >= 2 && pollTimer === undefined) poll();
  retryTimer = setTimeout(() => !document.hidden && open(), wait);
}

function onStats(stats: Stats): void {
  syncClock(stats.at);
  const whole = stats.minutes.at(-2) ?? stats.minutes.at(-1);
  const { backlog, retrying, dead } = stats;
  const levels = [...live.levels, { backlog, retrying, dead }].slice(-LEVELS_MAX);
  set({ stats, levels, rate: whole ? Math.round(whole.created / 60) : live.rate });
}

function flushLater(): void {
  if (flushTimer === undefined) flushTimer = setTimeout(flush, FLUSH_MS);
}

function flush(): void {
  flushTimer = undefined;
  if (arrived.length > 0) set({ fresh: [...arrived.reverse(), ...live.fresh].slice(0, FRESH_MAX) });
  if (changed.size > 0) applyChanges(changed);
  arrived = [];
  changed = new Map();
}

/** The ids of events that a page shows. */
function shownIds(): Set<string> {
  const pages = client.getQueriesData<EventPage>({ queryKey: ['events'], type: 'active' });
  const details = client.getQueriesData({ queryKey: ['event'], type: 'active' });
  const traces = client.getQueriesData<Trace>({ queryKey: ['trace'], type: 'active' });
  return new Set([
    ...[...pages, ...traces].flatMap(([, data]) => data?.events.map((each) => each.eventId) ?? []),
    ...details.map(([key]) => key[1] as string),
  ]);
}

/** Rows in view change in place; an open event or trace is asked for again. */
function applyChanges(texts: Map<string, string>): void {
  const known = shownIds();
  const events = new Map<string, EventSummary>();
  for (const [id, text] of texts) if (known.has(id)) events.set(id, JSON.parse(text) as EventSummary);
  if (events.size === 0) return;
  client.setQueriesData<EventPage>({ queryKey: ['events'] }, (page) =>
    page?.events.some((each) => events.has(each.eventId))
      ? { ...page, events: page.events.map((each) => ({ ...each, ...events.get(each.eventId) })) }
      : page,
  );
  const traces = new Set([...events.values()].map((each) => each.traceId));
  client.invalidateQueries({
    predicate: ({ queryKey: [kind, id] }) =>
      (kind === 'event' && events.has(id as string)) || (kind === 'trace' && traces.has(id as string)),
  });
}

function onConsumer(consumer: Consumer): void {
  client.setQueriesData<Consumer[]>({ queryKey: ['consumers'] }, (all) =>
    all?.map((each) => (each.consumerId === consumer.consumerId ? { ...each, ...consumer } : each)),
  );
}

function onOperation(operation: Operation): void {
  client.setQueryData<Operation[]>(['operations'], (all) => {
    if (!all) return all;
    const known = all.some((each) => each.operationId === operation.operationId);
    return known
      ? all.map((each) => (each.operationId === operation.operationId ? { ...each, ...operation } : each))
      : [operation, ...all];
  });
}

function open(): void {
  close();
  const stream = new EventSource(url('/stream'));
  source = stream;
  const onText = (kind: string, handle: (text: string) => void) =>
    stream.addEventListener(kind, (message) => handle((message as MessageEvent<string>).data));
  const on = <T>(kind: string, handle: (value: T) => void) => onText(kind, (text) => handle(JSON.parse(text) as T));
  stream.onopen = () => {
    // What happened while the stream was away is asked for once.
    if (failures > 0) client.invalidateQueries();
    stopPolling();
    failures = 0;
    set({ mode: 'live' });
  };
  stream.onerror = failed;
  on<Stats>('stats', onStats);
  onText('status', (text) => {
    const id = EVENT_ID.exec(text)?.[1];
    if (id === undefined) return;
    changed.set(JSON.parse(id) as string, text);
    flushLater();
  });
  onText('event', (text) => {
    // A full list says "200+" and needs no more of them.
    if (arrived.length + live.fresh.length >= FRESH_MAX) return;
    arrived.push(JSON.parse(text) as EventSummary);
    flushLater();
  });
  on<Consumer>('consumer', onConsumer);
  on<Operation>('operation', onOperation);
}

/** Starts the stream; called once, after login. */
export function startLive(queryClient: QueryClient): () => void {
  client = queryClient;
  stopped = false;
  const onVisibility = () => {
    clearTimeout(hideTimer);
    if (document.hidden) {
      hideTimer = setTimeout(() => {
        close();
        stopPolling();
      }, HIDDEN_MS);
    } else if (!source && live.mode !== 'paused') {
      client.invalidateQueries();
      open();
    }
  };
  document.addEventListener('visibilitychange', onVisibility);
  if (!document.hidden) open();
  return () => {
    document.removeEventListener('visibilitychange', onVisibility);
    stopped = true;
    clearTimeout(hideTimer);
    close();
    stopPolling();
  };
}
