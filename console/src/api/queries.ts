// Every read of the console, by name. A key starts with what it reads, so that the live stream can refresh it.
import { keepPreviousData, type QueryClient, queryOptions } from '@tanstack/react-query';
import { isWanted } from '../lib/audit';
import { ApiError, api, getJson, getText, type Query } from './client';
import { parseKeeping } from './json';
import type * as P from './pending';
import type { components } from './schema';
import type * as T from './types';

type Schemas = components['schemas'];
/** Figures that the stream does not carry are asked for at this pace. */
const SLOW_MS = 15_000;

/** openapi-fetch returns `{data}`; errors were thrown by the client already. */
async function data<T>(answer: Promise<{ data?: unknown }>): Promise<T> {
  return (await answer).data as T;
}

/** For a server without this call: the host names the environment, and the server's answers decide what is allowed. */
function unknownSession(): P.Session {
  const local = /^(localhost|127\.|\[::1\])/.test(location.hostname);
  return {
    name: '–',
    role: 'admin',
    environment: { name: local ? 'local' : location.hostname },
    version: '',
    store: '',
  };
}

export const session = queryOptions({
  queryKey: ['session'],
  queryFn: () =>
    getJson<P.Session>('/session').catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) return unknownSession();
      throw error;
    }),
  staleTime: 60_000,
});

export const stats = (minutes: number, step?: number) =>
  queryOptions({
    queryKey: ['stats', minutes, step],
    queryFn: () => getJson<P.Stats>('/stats', { minutes, step }),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  });

/** The points of a consumer's curves are this many, whatever the span. */
const POINTS = 60;

/** Success, p95 and curves cover the last `minutes`. */
export const consumers = (minutes = 60) =>
  queryOptions({
    queryKey: ['consumers', minutes],
    queryFn: () =>
      getJson<{ consumers: P.Consumer[] }>('/consumers', { minutes, step: minutes / POINTS }).then(
        (all) => all.consumers,
      ),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  });

export const consumer = (id: string, minutes = 60) =>
  queryOptions({
    queryKey: ['consumer', id, minutes],
    queryFn: () =>
      getJson<P.ConsumerDetail>(`/consumers/${encodeURIComponent(id)}`, { minutes, step: minutes / POINTS }),
    refetchInterval: SLOW_MS,
  });

/** The newest attempts of a consumer, newest first. */
export const attempts = (id: string) =>
  queryOptions({
    queryKey: ['attempts', id],
    queryFn: () =>
      getJson<{ attempts: P.Consumption[] }>(`/consumers/${encodeURIComponent(id)}/attempts`, { limit: POINTS }).then(
        (page) => page.attempts,
      ),
    refetchInterval: SLOW_MS,
  });

export async function refreshConsumers(client: QueryClient): Promise<void> {
  await Promise.all(['consumers', 'consumer'].map((name) => client.invalidateQueries({ queryKey: [name] })));
}

export const failures = queryOptions({
  queryKey: ['failures'],
  queryFn: () => data<P.Failures>(api.GET('/api/v1/failures')),
  refetchInterval: SLOW_MS,
});

export const promises = queryOptions({
  queryKey: ['promises'],
  queryFn: () => getJson<P.Promises>('/promises'),
  // A server without promises is not asked again.
  refetchInterval: ({ state }) => (state.error ? false : SLOW_MS),
});

export const topics = queryOptions({
  queryKey: ['topics'],
  queryFn: () => getJson<{ topics: P.Topic[] }>('/topics').then((all) => all.topics),
  refetchInterval: 60_000,
});

/** A page may be short or empty and have more behind it. It goes on by itself this often. */
const LOOKS = 3;

export const events = (filter: Query) =>
  queryOptions({
    queryKey: ['events', filter],
    queryFn: async ({ signal }) => {
      let page = await getJson<P.EventPage>('/events', filter, signal);
      let scanned = page.scanned;
      for (let look = 1; look < LOOKS && page.events.length === 0 && page.nextCursor; look += 1) {
        page = await getJson<P.EventPage>('/events', { ...filter, cursor: page.nextCursor }, signal);
        scanned = scanned !== undefined && page.scanned !== undefined ? scanned + page.scanned : undefined;
      }
      return { ...page, scanned };
    },
    placeholderData: keepPreviousData,
  });

export const counts = (filter: Query) =>
  queryOptions({
    queryKey: ['counts', filter],
    queryFn: ({ signal }) => getJson<T.Counts>('/counts', filter, signal),
    placeholderData: keepPreviousData,
    staleTime: 5_000,
  });

export const event = (id: string) =>
  queryOptions({
    queryKey: ['event', id],
    queryFn: async ({ signal }) => {
      const text = await getText(`/events/${encodeURIComponent(id)}`, { payload: 'preview' }, signal);
      const { rest, kept } = parseKeeping<P.EventDetail>(text, ['payload', 'metadata']);
      return { ...rest, payloadText: kept.payload ?? null, metadataText: kept.metadata ?? null };
    },
  });

export const traces = (query: Query) =>
  queryOptions({
    queryKey: ['traces', query],
    queryFn: () => getJson<T.TracePage>('/traces', query),
    placeholderData: keepPreviousData,
  });

export const trace = (id: string) =>
  queryOptions({
    queryKey: ['trace', id],
    queryFn: () => getJson<P.Trace>(`/traces/${encodeURIComponent(id)}`, { attempts: true }),
  });

export const story = (query: { key?: string; aggregateType?: string; aggregateId?: string }) =>
  queryOptions({ queryKey: ['story', query], queryFn: () => getJson<Schemas['Story']>('/stories', query) });

export const subscriptions = queryOptions({
  queryKey: ['subscriptions'],
  queryFn: () =>
    data<{ subscriptions: Schemas['Subscription'][] }>(api.GET('/api/v1/subscriptions')).then(
      (all) => all.subscriptions,
    ),
});

export const operations = queryOptions({
  queryKey: ['operations'],
  queryFn: () => data<{ operations: P.Operation[] }>(api.GET('/api/v1/operations')).then((all) => all.operations),
});

export const health = queryOptions({
  queryKey: ['health'],
  queryFn: () => getJson<T.Health>('/health'),
  refetchInterval: SLOW_MS,
});

export const instances = queryOptions({
  queryKey: ['instances'],
  queryFn: () => data<{ instances: Schemas['Instance'][] }>(api.GET('/api/v1/instances')).then((all) => all.instances),
  refetchInterval: SLOW_MS,
});

export const jobs = queryOptions({
  queryKey: ['jobs'],
  queryFn: () => data<{ jobs: Schemas['Job'][] }>(api.GET('/api/v1/jobs')).then((all) => all.jobs),
  refetchInterval: SLOW_MS,
});

export const config = queryOptions({
  queryKey: ['config'],
  queryFn: () => data<{ settings: Schemas['Setting'][] }>(api.GET('/api/v1/config')).then((all) => all.settings),
});

/** How many of the newest records are read, where they are filtered here. */
const NEWEST_RECORDS = 500;

/** The server compares whole targets and actions. The names and verbs that the console shows are parts of these. */
export const audit = (query: Query) =>
  queryOptions({
    queryKey: ['audit', query],
    queryFn: async () => {
      const { action, target, outcome, ...answered } = query;
      if (!action && !target && !outcome) return getJson<P.AuditPage>('/audit', query);
      const page = await getJson<P.AuditPage>('/audit', { ...answered, limit: NEWEST_RECORDS });
      return { ...page, records: page.records.filter((record) => isWanted(record, query)) };
    },
    placeholderData: keepPreviousData,
  });

/** The newest pauses, of all consumers. */
export const pauses = queryOptions({
  queryKey: ['audit', 'pauses'],
  queryFn: async () => {
    const action = 'POST /api/v1/consumers/{consumerId}/pause';
    const page = await getJson<P.AuditPage>('/audit', { action, limit: 100 });
    return page.records.filter((record) => record.outcome.startsWith('2'));
  },
});

export const search = (q: string) =>
  queryOptions({
    queryKey: ['search', q],
    queryFn: ({ signal }) => getJson<T.SearchHits>('/search', { q }, signal),
    enabled: q.length > 0,
    placeholderData: keepPreviousData,
  });
