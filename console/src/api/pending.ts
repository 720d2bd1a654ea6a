// PROVISIONAL. Types of calls and fields that CONTRACT.md names and docs/openapi.json does not have yet.
// Replace each by the generated type once the server has it. Fields that a server may not send are optional,
// and the pages leave out what is missing.
import type { components } from './schema';

type Schemas = components['schemas'];

/** GET /session: additions. What a server does not send is left out of the page. */
export type Session = Omit<Schemas['Session'], 'environment' | 'links' | 'limits' | 'scope'> & {
  expiresAt?: string | null;
  scope?: Schemas['Scope'];
  environment: Schemas['Environment'] & { color?: string | null };
  links?: Record<string, string>;
  limits?: Limits;
};
export type Limits = Partial<Schemas['SessionLimits']> & {
  /** alert.oldest-seconds: an older waiting event needs attention. */
  oldestSeconds?: number;
  /** A consumer that was not seen for this long is silent. */
  silentSeconds?: number;
};

/**
 * GET /events: filters that take lists beside `status`: `key`, `consumerId`; an operation's filter too.
 */
export type EventSummary = Schemas['EventSummary'];
/** `scanned`: how many rows were looked at for this page; given if nothing was found. */
export type EventPage = { events: EventSummary[]; nextCursor?: string | null; scanned?: number };

/** GET /events/{id}: additions to the detail */
export type Allowed = { allowed: boolean; code?: string | null; from?: string | null };
export type Consumption = Schemas['Consumption'] & {
  startedAt?: string | null;
  durationMs?: number | null;
  owner?: string | null;
  cause?: string | null;
  result?: unknown;
};
export type Delivery = Schemas['Delivery'];
export type EventDetail = Omit<Schemas['EventDetail'], 'consumptions' | 'deliveries' | 'payload' | 'metadata'> & {
  consumptions: Consumption[];
  deliveries: Delivery[];
  actions?: { redrive: Allowed; expire: Allowed };
  /** How it came into the store: in the publisher's own transaction, over HTTP, or by an INSERT. */
  written?: 'transaction' | 'http' | 'sql' | null;
  /** Raw JSON text, so that integers are never rounded. */
  payloadText: string | null;
  metadataText: string | null;
};

/**
 * GET /consumers?minutes=&step=, GET /consumers/{id}?minutes=&step=: success, p95 and `minutes` cover the last
 * `minutes` (60 or 1440); a point of `minutes` sums `step` of them (1 or 24).
 */
export type ConsumerMinute = { at: string; delivered: number; failed: number; lag?: number | null };
export type Consumer = Schemas['Consumer'] & {
  successRate?: number | null;
  p95Ms?: number | null;
  lastSuccessAt?: string | null;
  lastSeenAt?: string | null;
  pausedBy?: string | null;
  pausedAt?: string | null;
  pauseReason?: string | null;
  minutes?: ConsumerMinute[];
};
export type ConsumerDetail = Schemas['ConsumerDetail'] &
  Consumer & {
    /** Deliveries that wait for attempt 1, 2, 3, … */
    waitingByAttempt?: number[];
  };

/** GET /topics: additions */
export type Topic = Schemas['Topic'] & { hours?: number[] };

/** GET /traces/{id}?attempts=true: additions to the attempts */
export type TraceNode = Omit<Schemas['TraceNode'], 'children' | 'consumptions' | 'deliveries'> & {
  children: TraceNode[];
  consumptions?: Consumption[];
  deliveries?: Delivery[];
};
export type Trace = Omit<Schemas['Trace'], 'roots'> & { roots: TraceNode[] };

/** GET /promises */
export type PromiseName = 'lost' | 'twice' | 'stuck' | 'order' | 'books';
export type Promise_ = {
  name: PromiseName;
  ok: boolean;
  figures: Record<string, number>;
  since?: string | null;
  sql?: string | null;
  events?: string[];
  keys?: string[];
  /** What is wrong, a sentence each. */
  findings?: { what: string; eventId?: string | null; consumerId?: string | null; foundAt: string }[];
  /** Who checks it, and when it did, where that is not this server on its own schedule. */
  source?: string | null;
  checkedAt?: string | null;
  history: { at: string; ok: boolean; strained?: boolean }[];
};
export type Promises = { checkedAt: string; promises: Promise_[] };

/**
 * GET /readyz with `accept: application/json`, which needs no session. 200 when ready; 503 is a problem with `code`.
 * The login page says where one logs in, and for how long, as far as this answer tells.
 */
export type Ready = {
  ready: boolean;
  environment?: { name: string; color?: string | null };
  version?: string;
  session?: { idleMinutes: number; hours: number };
};

/** GET /stats?minutes=&step=: a point covers `step` minutes; its counts are sums, its levels are those at its end. */
export type Minute = Schemas['Minute'] & {
  levels?: { backlog: number; retrying: number; dead: number; oldestSeconds: number };
  deliveries?: { delivered: number; failed: number };
};
export type Stats = Omit<Schemas['Stats'], 'minutes'> & {
  minutes: Minute[];
  /** When the next retry of any delivery is due. */
  nextRetryAt?: string | null;
};

export type OperationStep = Schemas['OperationStep'];
export type Operation = Schemas['Operation'] & { rates?: number[] };
/**
 * POST /operations takes the header `Idempotency-Key`: the same key with the same body again answers with the
 * operation that the first one made; with another body it is refused (422).
 */
export type NewOperation = Omit<Schemas['NewOperation'], 'filter'> & { filter?: Record<string, string> };
export type DryRun = Schemas['DryRun'];

/** GET /failures: additions */
export type FailureGroup = Schemas['FailureGroup'];
export type MendedGroup = {
  consumerId: string;
  fingerprint: string;
  mendedAt: string;
  operation?: number | null;
  by?: string | null;
  count: number;
  mended: number;
};
export type Failures = { groups: FailureGroup[]; mended?: MendedGroup[] };

/** GET /audit: additions */
export type AuditRecord = Schemas['AuditRecord'] & {
  role?: string | null;
  reason?: string | null;
  before?: unknown;
  after?: unknown;
};
export type AuditPage = { records: AuditRecord[]; nextCursor?: string | null };

/** PUT /subscriptions: additions */
export type NewSubscription = Schemas['NewSubscription'] & { reason?: string };
