// PROVISIONAL. Types of calls and fields that CONTRACT.md names and docs/openapi.json does not have yet.
// Replace each by the generated type once the server has it. Fields that a server may not send are optional,
// and the pages leave out what is missing.
import type { components } from './schema';

type Schemas = components['schemas'];

export type Counted = { value: number; exact: boolean };

/** GET /session */
export type Session = {
  name: string;
  role: Schemas['Role'];
  scope?: string | null;
  expiresAt?: string | null;
  environment: { name: string; color?: string | null };
  version: string;
  store: string;
  broker?: string | null;
  links?: Record<string, string>;
};

/** GET /search?q= */
export type SearchHit = {
  kind: 'event' | 'trace' | 'key' | 'aggregate' | 'topic' | 'consumer';
  id: string;
  label: string;
  status?: Schemas['Status'] | null;
};
export type SearchResult = { hits: SearchHit[] };

/** GET /counts */
export type Counts = {
  total: Counted;
  byStatus: Record<string, Counted>;
  byTopic: Record<string, Counted>;
  byConsumer: Record<string, Counted>;
  byService: Record<string, Counted>;
  byTenant: Record<string, Counted>;
};

/** GET /events: additions to the summary */
export type EventSummary = Schemas['EventSummary'] & { attempts?: number; retryingConsumers?: number; held?: boolean };
export type EventPage = { events: EventSummary[]; nextCursor?: string | null };

/** GET /events/{id}: additions to the detail */
export type Allowed = { allowed: boolean; code?: string | null; from?: string | null };
export type Consumption = Schemas['Consumption'] & {
  startedAt?: string | null;
  durationMs?: number | null;
  owner?: string | null;
  cause?: string | null;
  result?: unknown;
};
export type Delivery = Schemas['Delivery'] & {
  blockedBy?: { eventId: string; topic?: string; ahead: number } | null;
  heldBy?: { eventId: string; topic?: string } | null;
};
export type EventDetail = Omit<Schemas['EventDetail'], 'consumptions' | 'deliveries' | 'payload' | 'metadata'> & {
  attempts?: number;
  retryingConsumers?: number;
  held?: boolean;
  consumptions: Consumption[];
  deliveries: Delivery[];
  actions?: { redrive: Allowed; expire: Allowed };
  payloadBytes?: number;
  payloadTruncated?: boolean;
  /** Raw JSON text, so that integers are never rounded. */
  payloadText: string | null;
  metadataText: string | null;
};

/** GET /consumers, GET /consumers/{id} */
export type ConsumerMinute = { at: string; delivered: number; failed: number; lag?: number | null };
export type RetryPolicy = { maxAttempts: number; capSeconds: number; jitter: number };
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
export type ConsumerDetail = Consumer & {
  description?: string | null;
  retry?: RetryPolicy;
  /** Deliveries that wait for attempt 1, 2, 3, … */
  waitingByAttempt?: number[];
  heldKeys?: string[];
};

/** GET /topics */
export type Topic = {
  topic: string;
  events: number;
  lastSeenAt?: string | null;
  subscribers: number;
  unheard: number;
  hours?: number[];
};

/** GET /traces, GET /traces/{id}?attempts=true */
export type TraceRoot = {
  traceId: string;
  root: EventSummary;
  events: number;
  failed: number;
  retrying: number;
  services: string[];
  durationMs: number;
};
export type TraceNode = EventSummary & {
  children: TraceNode[];
  consumptions?: Consumption[];
  deliveries?: Delivery[];
};
export type Trace = { traceId: string; events: EventSummary[]; roots: TraceNode[]; cut: boolean };

/** GET /stories */
export type StoryEffect = {
  consumerId: string;
  state: 'done' | 'retrying' | 'dead' | 'waiting';
  effect?: string | null;
  asset?: string | null;
  delta?: string | null;
  /** The event whose effect this one undoes. */
  undoes?: string | null;
  /** When this effect was undone; `waiting` while the compensation is open. */
  undoneAt?: string | null;
  idempotencyKey?: string | null;
  keyState?: string | null;
  attempts: number;
  repeatsStopped: number;
  at?: string | null;
  dueAt?: string | null;
};
export type StoryEvent = EventSummary & { effects: StoryEffect[]; compensation?: boolean };
export type Story = {
  key: string;
  aggregateType?: string | null;
  aggregateId?: string | null;
  events: StoryEvent[];
  figures: { events: number; effects: number; attempts: number; repeatsStopped: number; twice: number };
};

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
  source?: string | null;
  history: { at: string; ok: boolean; strained?: boolean }[];
};
export type Promises = { checkedAt: string; promises: Promise_[] };

/** GET /health */
export type Health = {
  store: {
    kind: string;
    version: string;
    latencyMs: number;
    connections?: { used: number; max: number };
    history?: number[];
  };
  broker?: { kind: string; version: string; latencyMs: number; unconfirmed: number; history?: number[] } | null;
  schema: { have: number; want: number };
  clock: { differenceMs: number };
  sizes?: { bytes: number };
  instances: { owner: string; role: string; version: string; since: string; address?: string }[];
};
export type Ready = { ready: boolean; code?: string; title?: string; detail?: string };

/** GET /stats: additions to a minute */
export type Minute = Schemas['Minute'] & {
  levels?: { backlog: number; retrying: number; dead: number; oldestSeconds: number };
  deliveries?: { delivered: number; failed: number };
};
export type Stats = Omit<Schemas['Stats'], 'minutes'> & { minutes: Minute[] };

/** POST /operations: additions */
export type OperationStep = {
  size: number;
  ratePerSecond?: number | null;
  state: 'todo' | 'running' | 'passed' | 'stopped';
  done: number;
  delivered: number;
  failedAgain: number;
  endedAt?: string | null;
};
export type Operation = Schemas['Operation'] & {
  number?: number;
  delivered?: number;
  failedAgain?: number;
  open?: number;
  ramp?: number[] | null;
  steps?: OperationStep[];
  gateSeconds?: number | null;
  stopAbovePercent?: number | null;
  stoppedBecause?: string | null;
  oldestFirst?: boolean;
  eventIds?: string[] | null;
  failureGroup?: string | null;
  rates?: number[];
};
export type NewOperation = {
  kind: 'redrive';
  filter?: Record<string, string>;
  eventIds?: string[];
  failureGroup?: string;
  consumerId?: string;
  ratePerSecond?: number;
  ramp?: number[];
  gateSeconds?: number;
  stopAbovePercent?: number;
  oldestFirst?: boolean;
  dryRun: boolean;
  reason?: string;
};
export type DryRun = {
  matching: number;
  exact: boolean;
  /** How the matching events split; the rule `redrive` is what will be redriven. */
  split?: { rule: string; count: number }[];
  samples?: string[];
  alreadySucceeded?: { consumerId: string; count: number }[];
};

/** GET /failures: additions */
export type FailureGroup = Schemas['FailureGroup'] & {
  groupId?: string;
  hours?: number[];
  topics?: { topic: string; count: number }[];
  held?: number;
};
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
