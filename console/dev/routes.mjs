// The calls of the mock, in the order of the contract.
import { at } from './clock.mjs';
import * as figures from './figures.mjs';
import { emit, stats, summary } from './state.mjs';
import { story } from './story.mjs';
import { traceRoots, traceTree } from './traces.mjs';

const ok = (body) => ({ body });
const OPERATORS = ['operator', 'admin'];
const counted = (value, exact = true) => ({ value, exact });

function allowed(context, roles) {
  if (roles.includes(context.state.role)) return true;
  context.problem(403, 'forbidden', `This needs the role ${roles[0]}; yours is ${context.state.role}.`);
  return false;
}

function audit(state, action, target, detail, reason = null) {
  state.audit.unshift({
    id: String(Date.now()),
    at: at(Date.now()),
    actor: 'wei.lin',
    role: state.role,
    action,
    target,
    detail,
    outcome: '202',
    reason,
    requestId: 'req-1',
    tokenId: null,
  });
}

function matches(query) {
  const one = (name) => query.get(name);
  const from = one('from');
  return (event) =>
    (!one('topic') || event.topic === one('topic')) &&
    (!one('status') || one('status').split(',').includes(event.status)) &&
    (!one('service') || event.initiator.service === one('service')) &&
    (!one('key') || one('key').split(',').includes(event.key)) &&
    (!one('eventIds') || one('eventIds').split(',').includes(event.eventId)) &&
    (!one('deliveryStatus') || event._deliveries.some((each) => each.status === one('deliveryStatus'))) &&
    (!one('tenantId') || event.tenantId === one('tenantId')) &&
    (!one('traceId') || event.traceId === one('traceId')) &&
    (!one('aggregateId') || event.aggregateId === one('aggregateId')) &&
    (!one('consumerId') ||
      [...event._consumptions, ...event._deliveries].some((each) => each.consumerId === one('consumerId'))) &&
    (!one('unheard') || event.expectedConsumers === 0) &&
    (!one('failureGroup') || (event.lastError ?? '').includes('503')) &&
    (!one('olderThanSeconds') || Date.now() - Date.parse(event.createdAt) > Number(one('olderThanSeconds')) * 1000) &&
    (!from || event.createdAt >= from) &&
    (!one('to') || event.createdAt < one('to'));
}

function events({ state, query }) {
  const limit = Number(query.get('limit') ?? 50);
  const offset = Number(query.get('cursor') ?? 0);
  const found = state.events.filter(matches(query));
  const next = offset + limit < found.length ? String(offset + limit) : null;
  return ok({ events: found.slice(offset, offset + limit).map(summary), nextCursor: next, scanned: found.length });
}

const none = { byStatus: {}, byTopic: {}, byConsumer: {}, byService: {}, byTenant: {} };

function counts({ state, query }) {
  const found = state.events.filter(matches(query));
  const points = query.get('consumerId') === 'points' && !query.get('from');
  if (points && query.get('deliveryStatus') === 'DEAD') return ok({ ...none, total: counted(33) });
  if (points && query.get('olderThanSeconds')) return ok({ ...none, total: counted(212) });
  if (points && query.get('status') === 'PENDING,SENT,RETRYING') return ok({ ...none, total: counted(2011) });
  if (points && query.get('status') === 'RETRYING') return ok({ ...none, total: counted(1253) });
  if (points && !query.get('status')) {
    return ok({
      total: counted(12480, false),
      byStatus: {
        PENDING: counted(642),
        SENT: counted(116),
        RETRYING: counted(1253),
        PARTIAL: counted(33),
        FAILED: counted(1),
        CONSUMED: counted(10216, false),
        EXPIRED: counted(219),
      },
      byTopic: {
        'order.checkout_locked': counted(5102),
        'order.paid': counted(4877),
        'order.canceled': counted(1904),
        'order.refunded': counted(597),
      },
      byConsumer: {
        points: counted(12480),
        wallet: counted(12480),
        coupon: counted(12480),
        inventory: counted(12480),
        'message-service': counted(9911),
      },
      byService: { shop: counted(12118), 'order-timeout': counted(340), consistency: counted(19), sql: counted(3) },
      byTenant: { 7: counted(12480) },
    });
  }
  const by = (name) => {
    const map = {};
    for (const event of found)
      for (const value of [name(event)].flat()) if (value) map[value] = counted((map[value]?.value ?? 0) + 1);
    return map;
  };
  const plain = [...query.keys()].length === 0;
  return ok({
    total: plain && found.length ? counted(1_204_118, false) : counted(found.length),
    byStatus: by((event) => event.status),
    byTopic: by((event) => event.topic),
    byService: by((event) => event.initiator.service),
    byTenant: by((event) => event.tenantId),
    byConsumer: by((event) => [
      ...new Set([...event._consumptions, ...event._deliveries].map((each) => each.consumerId)),
    ]),
  });
}

/** Longer payloads come as a string of their beginning. */
const PREVIEW = 65_536;

function detail({ state, args, query, problem }) {
  const event = state.events.find((each) => each.eventId === args[0]);
  if (!event) return problem(404, 'notFound', `There is no event ${args[0]}.`);
  const masked = state.role === 'viewer';
  const parents = state.events.filter((each) => each.eventId === event.parentEventId).map(summary);
  const children = state.events.filter((each) => each.parentEventId === event.eventId).map(summary);
  const young = event.status === 'SENT' && !event.held;
  const whole = event._payload ?? `{"orderId":"${event.key}","amountCents":9900}`;
  const cut = query.get('payload') === 'preview' && whole.length > PREVIEW;
  const rest = {
    ...summary(event),
    payloadType: 'application/json',
    payloadEncoding: null,
    deliverAt: event._deliverAt,
    maxAttempts: null,
    exchange: null,
    routingKey: null,
    masked,
    written: 'transaction',
    payloadBytes: whole.length,
    payloadTruncated: cut,
    consumptions: event._consumptions,
    deliveries: event._deliveries,
    parents,
    children,
    actions: {
      redrive:
        event.status === 'CONSUMED'
          ? { allowed: false, code: 'consumed' }
          : young
            ? { allowed: false, code: 'sentRecently', from: at(Date.parse(event.createdAt) + 600_000) }
            : { allowed: true },
      expire: event.status === 'CONSUMED' ? { allowed: false, code: 'consumed' } : { allowed: true },
    },
  };
  const text = JSON.stringify(rest).slice(0, -1);
  return {
    text: masked
      ? `${text}}`
      : `${text},"payload":${cut ? JSON.stringify(whole.slice(0, PREVIEW)) : whole},"metadata":{"source":"shop","build":"2.4.1"}}`,
  };
}

function redrive(context) {
  if (!allowed(context, OPERATORS)) return undefined;
  const { state, args, body } = context;
  const event = state.events.find((each) => each.eventId === args[0]);
  if (!event) return context.problem(404, 'notFound', 'There is no such event.');
  event.status = 'RETRYING';
  event.retryCount += 1;
  audit(state, 'event.redrive', event.eventId, body.consumerId ?? 'every open consumer', body.reason);
  emit(state, 'status', summary(event));
  setTimeout(() => {
    for (const delivery of event._deliveries) {
      const last = event._consumptions.filter((each) => each.consumerId === delivery.consumerId).length;
      const now = at(Date.now());
      event._consumptions.push({
        consumerId: delivery.consumerId,
        attemptNo: last + 1,
        success: true,
        willRetry: false,
        startedAt: now,
        durationMs: 31,
        consumedAt: now,
        createdAt: now,
        owner: 'relay-a-7-e91',
        cause: 'redrive',
        errorCode: null,
        errorMessage: null,
      });
    }
    Object.assign(event, {
      status: 'CONSUMED',
      consumedConsumers: event.expectedConsumers,
      failedConsumers: 0,
      retryingConsumers: 0,
      _deliveries: [],
      attempts: event._consumptions.length,
    });
    emit(state, 'status', summary(event));
  }, 1200);
  return { status: 202, body: summary(event) };
}

/** The steps of a ramp, as the server would take them. */
function stepsOf(ramp, size) {
  const steps = [];
  let left = size;
  for (const step of [...(ramp ?? []), Number.POSITIVE_INFINITY]) {
    const count = Math.min(step, left);
    if (count > 0)
      steps.push({
        size: count,
        ratePerSecond: [1, 5, 20][steps.length] ?? 50,
        state: 'todo',
        done: 0,
        delivered: 0,
        failedAgain: 0,
      });
    left -= count;
  }
  return steps;
}

function operation(context) {
  if (!allowed(context, OPERATORS)) return undefined;
  const { state, body, request } = context;
  const key = request.headers['idempotency-key'];
  const text = JSON.stringify(body);
  const before = key && state.keys.get(key);
  if (before && before.text !== text)
    return context.problem(422, 'idempotencyKeyReused', 'This key belongs to another request.');
  if (before) return { status: 202, body: { operationId: before.operationId } };
  const ids = body.eventIds?.length;
  const wanted = body.failureGroups ?? [body.failureGroup];
  const groups = figures.failureGroups().filter((each) => wanted.includes(each.groupId));
  const [group] = groups;
  const found = state.events.filter(matches(new URLSearchParams(body.filter ?? {})));
  const total =
    ids ??
    (group ? groups.reduce((sum, each) => sum + each.count, 0) : undefined) ??
    (body.filter?.consumerId === 'points' && !body.filter.status ? 12480 : found.length);
  const skipped = group ? 15 : 0;
  if (body.dryRun) {
    return ok({
      matching: total,
      exact: true,
      lookedAt: total,
      split: [
        { rule: 'redrive', count: total - skipped, samples: [] },
        ...(group
          ? [
              { rule: 'consumed', count: 11, samples: [] },
              { rule: 'redriveLimit', count: 3, samples: [] },
              { rule: 'expired', count: 1, samples: [] },
            ]
          : []),
      ],
      samples: (
        body.eventIds ?? [
          'order:10377:paid',
          'order:10492:paid',
          'order:10515:paid',
          'order:10518:paid',
          'order:10521:paid',
        ]
      ).slice(0, 5),
      steps: body.ramp ? stepsOf(body.ramp, total - skipped) : [],
      alreadySucceeded: group
        ? [
            { consumerId: 'coupon', count: total },
            { consumerId: 'wallet', count: total },
            { consumerId: 'inventory', count: total },
          ]
        : [],
    });
  }
  const number = Math.max(...state.operations.map((each) => each.number), 0) + 1;
  const size = total - skipped;
  const steps = stepsOf(body.ramp, size);
  const now = at(Date.now());
  const one = {
    operationId: `op-${number}`,
    number,
    kind: 'redrive',
    state: 'RUNNING',
    filter: body.filter ?? {},
    eventIds: body.eventIds ?? null,
    failureGroup: body.failureGroup ?? null,
    failureGroups: body.failureGroups ?? null,
    consumerId: body.consumerId ?? null,
    consumers: body.consumers ?? 'open',
    oldestFirst: body.oldestFirst ?? false,
    stoppedBecause: null,
    reason: body.reason,
    requestedBy: 'wei.lin',
    total: size,
    done: 0,
    failed: 4,
    skipped,
    delivered: 0,
    failedAgain: 0,
    open: 0,
    ramp: body.ramp ?? null,
    steps,
    gateSeconds: body.gateSeconds ?? null,
    stopAbovePercent: body.stopAbovePercent ?? null,
    createdAt: now,
    updatedAt: now,
    finishedAt: null,
    live: true,
  };
  state.operations.unshift(one);
  if (key) state.keys.set(key, { text, operationId: one.operationId });
  audit(state, 'operation.create', `#${number}`, `redrive ${size}`, body.reason);
  emit(state, 'operation', one);
  return { status: 202, body: { operationId: one.operationId } };
}

function changeOperation(context) {
  if (!allowed(context, OPERATORS)) return undefined;
  const { state, args } = context;
  const one = state.operations.find((each) => each.operationId === args[0]);
  if (!one) return context.problem(404, 'notFound', 'There is no such operation.');
  one.state = { pause: 'PAUSED', resume: 'RUNNING', cancel: 'CANCELLED' }[args[1]];
  if (args[1] === 'resume') {
    one.stoppedBecause = null;
    const at = one.steps.findLastIndex((step) => step.state === 'stopped');
    const left = one.steps.slice(at + 1).reduce((sum, step) => sum + step.size, 0);
    if (at >= 0 && left > 0) {
      // The next events are as many as those that failed, behind a gate of their own.
      const again = Math.min(one.steps[at].size, left);
      const last = one.steps.at(-1);
      last.size -= again;
      const step = {
        ...one.steps[at],
        size: again,
        state: 'todo',
        done: 0,
        failedAgain: 0,
        delivered: 0,
        endedAt: null,
      };
      one.steps.splice(at + 1, 0, step);
    }
  }
  audit(state, `operation.${args[1]}`, `#${one.number}`, null);
  emit(state, 'operation', one);
  return { status: 204 };
}

function pause(context) {
  if (!allowed(context, OPERATORS)) return undefined;
  const { state, args, body } = context;
  const one = state.consumers.find((each) => each.consumerId === args[0]);
  if (!one) return context.problem(404, 'notFound', 'There is no such consumer.');
  const paused = args[1] === 'pause';
  Object.assign(one, {
    paused,
    pausedBy: paused ? 'wei.lin' : null,
    pausedAt: paused ? at(Date.now()) : null,
    pauseReason: paused ? body.reason : null,
  });
  audit(state, `consumer.${args[1]}`, one.consumerId, one.consumerId, body.reason);
  emit(state, 'consumer', one);
  return { status: 204 };
}

function putSubscription(context) {
  if (!allowed(context, ['admin'])) return undefined;
  const {
    state,
    args: [topic, consumerId],
    body,
  } = context;
  const now = at(Date.now());
  const old = state.subscriptions.find((each) => each.topic === topic && each.consumerId === consumerId);
  if (old) Object.assign(old, body, { updatedAt: now });
  else
    state.subscriptions.push({
      topic,
      consumerId,
      enabled: true,
      sortOrder: 0,
      via: body.via ?? 'pull',
      description: null,
      endpoint: null,
      createdAt: now,
      updatedAt: now,
      ...body,
    });
  if (!state.consumers.some((each) => each.consumerId === consumerId)) {
    state.consumers.push({
      consumerId,
      via: body.via ?? 'pull',
      topics: [topic],
      enabled: true,
      paused: false,
      lag: 0,
      oldestAgeSeconds: null,
      retrying: 0,
      dead: 0,
      held: 0,
      processing: 0,
    });
  }
  audit(state, 'subscription.put', `${topic}/${consumerId}`, old ? 'changed' : `created, via ${body.via}`);
  return ok({ topic, consumerId });
}

function search({ state, query }) {
  const q = query.get('q') ?? '';
  const hits = [];
  const byKey = state.events.filter((event) => event.key === q);
  if (byKey.length) hits.push({ kind: 'key', id: q, label: `Order ${q}`, status: null });
  if (q === '123') hits.push({ kind: 'key', id: '123', label: 'Order 123' });
  for (const event of state.events)
    if (event.eventId === q || event.key === q || (q.length >= 6 && event.eventId.startsWith(q)))
      hits.push({
        kind: 'event',
        id: event.eventId,
        label: event.topic,
        status: event.status,
        consumed: event.consumedConsumers,
        expected: event.expectedConsumers,
        createdAt: event.createdAt,
      });
  for (const event of state.events)
    if (q.length >= 6 && event.traceId.startsWith(q)) {
      hits.push({ kind: 'trace', id: event.traceId, label: event.topic });
      break;
    }
  for (const each of state.consumers)
    if (each.consumerId.startsWith(q)) hits.push({ kind: 'consumer', id: each.consumerId, label: each.consumerId });
  for (const each of figures.topics())
    if (q.length > 2 && each.topic.includes(q)) hits.push({ kind: 'topic', id: each.topic, label: each.topic });
  return ok({ hits: hits.slice(0, 8) });
}

function stream({ state, request, response }) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  response.write(`event: stats\ndata: ${JSON.stringify(stats(state, 60))}\n\n`);
  state.streams.add(response);
  request.on('close', () => state.streams.delete(response));
}

function login({ state, body, problem }) {
  if (!body.token?.startsWith('prt_')) return problem(401, 'unauthorized', 'This token is unknown or revoked.');
  state.loggedOut = false;
  return {
    body: { name: 'wei.lin', role: state.role },
    headers: { 'set-cookie': 'postrider_session=ok; HttpOnly; SameSite=Strict; Path=/' },
  };
}

function session({ state }) {
  const first = state.scenario === 'first-run';
  const prod = !first;
  return ok({
    name: first ? 'first' : state.role === 'admin' ? 'mei' : 'wei.lin',
    role: state.role,
    scope: null,
    expiresAt: null,
    environment: { name: prod ? 'prod' : 'local', color: null },
    version: '0.1.0',
    store: first ? 'SQLite' : 'PostgreSQL',
    broker: first ? null : 'RabbitMQ',
    links: { trace: 'https://tracing.example/trace/{traceId}' },
    limits: figures.limits,
  });
}

export const routes = [
  ['POST', /^\/login$/, login],
  [
    'POST',
    /^\/logout$/,
    ({ state }) => {
      state.loggedOut = true;
      return { status: 204 };
    },
  ],
  ['GET', /^\/session$/, session],
  ['GET', /^\/search$/, search],
  ['GET', /^\/counts$/, counts],
  ['GET', /^\/events$/, events],
  [
    'GET',
    /^\/events\/([^/]+)\/payload$/,
    ({ state, args }) => ({ text: state.events.find((each) => each.eventId === args[0])?._payload ?? '{}' }),
  ],
  ['GET', /^\/events\/([^/]+)$/, detail],
  ['POST', /^\/events\/([^/]+)\/redrive$/, redrive],
  [
    'POST',
    /^\/events\/([^/]+)\/expire$/,
    (context) => {
      if (!allowed(context, OPERATORS)) return undefined;
      const event = context.state.events.find((each) => each.eventId === context.args[0]);
      event.status = 'EXPIRED';
      emit(context.state, 'status', summary(event));
      return { status: 202, body: {} };
    },
  ],
  [
    'GET',
    /^\/export$/,
    ({ state, query }) => ({
      text: state.events
        .filter(matches(query))
        .map((event) => JSON.stringify(summary(event)))
        .join('\n'),
    }),
  ],
  ['GET', /^\/traces$/, ({ state }) => ok({ traces: traceRoots(state.events), nextCursor: null })],
  [
    'GET',
    /^\/traces\/([^/]+)$/,
    ({ state, args, problem }) =>
      traceTree(state.events, args[0]) ?? problem(404, 'notFound', `There is no trace ${args[0]}.`),
  ],
  [
    'GET',
    /^\/stories$/,
    (context) =>
      allowed(context, OPERATORS)
        ? context.query.get('key') === '123' || context.query.get('aggregateId') === '123'
          ? ok(story())
          : storyOf(context)
        : undefined,
  ],
  ['GET', /^\/subscriptions$/, ({ state }) => ok({ subscriptions: state.subscriptions })],
  ['PUT', /^\/subscriptions\/([^/]+)\/([^/]+)$/, putSubscription],
  [
    'DELETE',
    /^\/subscriptions\/([^/]+)\/([^/]+)$/,
    (context) => {
      if (!allowed(context, ['admin'])) return undefined;
      const { state, args } = context;
      state.subscriptions = state.subscriptions.filter((each) => each.topic !== args[0] || each.consumerId !== args[1]);
      return { status: 204 };
    },
  ],
  ['POST', /^\/operations$/, operation],
  ['GET', /^\/operations$/, ({ state }) => ok({ operations: state.operations })],
  ['POST', /^\/operations\/([^/]+)\/(pause|resume|cancel)$/, changeOperation],
  [
    'GET',
    /^\/consumers$/,
    ({ state, query }) => ok({ consumers: state.consumers.map((each) => figures.over(each, query.get('minutes'))) }),
  ],
  [
    'GET',
    /^\/consumers\/([^/]+)$/,
    ({ state, args, query, problem }) => {
      const one = state.consumers.find((each) => each.consumerId === args[0]);
      return one
        ? ok({
            ...figures.over(one, query.get('minutes')),
            retry: { maxAttempts: 10, capSeconds: 3600, jitter: 0.1 },
            ...figures.consumerExtras[args[0]],
          })
        : problem(404, 'notFound', 'There is no such consumer.');
    },
  ],
  ['POST', /^\/consumers\/([^/]+)\/(pause|resume)$/, pause],
  [
    'POST',
    /^\/consumers\/([^/]+)\/keys\/(skip|hold)$/,
    (context) => {
      if (!allowed(context, OPERATORS)) return undefined;
      audit(context.state, `key.${context.args[1]}`, context.body.key, context.args[0], context.body.reason);
      return ok({
        key: context.body.key,
        deadHead: context.args[1],
        eventId: '1',
        topic: 'order.paid',
        dead: 1,
        waiting: 1,
      });
    },
  ],
  [
    'POST',
    /^\/events\/([^/]+)\/discard$/,
    (context) => {
      if (!allowed(context, OPERATORS)) return undefined;
      audit(context.state, 'event.discard', context.args[0], context.body.consumerId, context.body.reason);
      return { status: 202, body: {} };
    },
  ],
  [
    'GET',
    /^\/failures$/,
    ({ state }) =>
      ok(
        state.events.length
          ? { groups: [...(state.groups ?? []), ...figures.failureGroups()], mended: figures.mended(), cut: false }
          : { groups: [], mended: [], cut: false },
      ),
  ],
  [
    'GET',
    /^\/topics$/,
    ({ state }) => ok({ topics: state.events.length ? [...(state.topics ?? []), ...figures.topics()] : [] }),
  ],
  ['GET', /^\/promises$/, ({ state }) => ok(figures.promises(state.broken))],
  ['GET', /^\/health$/, ({ state }) => ok(state.scenario === 'first-run' ? figures.freshHealth() : figures.health())],
  [
    'GET',
    /^\/instances$/,
    ({ state }) =>
      ok({ instances: state.scenario === 'first-run' ? [{ owner: 'all-3-3fa', holdings: [] }] : figures.instances() }),
  ],
  ['GET', /^\/jobs$/, () => ok({ jobs: figures.jobs() })],
  ['GET', /^\/config$/, (context) => (allowed(context, OPERATORS) ? ok({ settings: figures.config() }) : undefined)],
  [
    'GET',
    /^\/audit$/,
    (context) => (allowed(context, OPERATORS) ? ok({ records: auditOf(context), nextCursor: null }) : undefined),
  ],
  [
    'GET',
    /^\/stats$/,
    ({ state, query }) => ok(stats(state, Number(query.get('minutes') ?? 60), Number(query.get('step') ?? 1))),
  ],
  ['GET', /^\/stream$/, stream],
];

function auditOf({ state, query }) {
  return state.audit.filter(
    (record) =>
      ['actor', 'action', 'target'].every((name) => !query.get(name) || record[name] === query.get(name)) &&
      (!query.get('outcome') || record.outcome.startsWith('4')) &&
      (!query.get('from') || record.at >= query.get('from')),
  );
}

function storyOf({ state, query, problem }) {
  const key = query.get('key') ?? query.get('aggregateId');
  const found = state.events.filter((event) => event.key === key).reverse();
  if (found.length === 0) return problem(404, 'notFound', `Nothing is known about ${key}.`);
  const stand = (event, id) =>
    event._consumptions.some((each) => each.consumerId === id && each.success)
      ? 'done'
      : event._deliveries.some((each) => each.consumerId === id && each.status === 'DEAD')
        ? 'dead'
        : event._consumptions.some((each) => each.consumerId === id)
          ? 'retrying'
          : 'waiting';
  const events = found.map((event) => ({
    ...summary(event),
    compensation: false,
    consumers: [],
    consumptions: [],
    deliveries: [],
    effects: [...new Set([...event._consumptions, ...event._deliveries].map((each) => each.consumerId))].map((id) => ({
      consumerId: id,
      state: stand(event, id),
      attempts: event._consumptions.filter((each) => each.consumerId === id).length,
      repeatsStopped: 0,
      idempotencyKey: event.eventId,
      keyState: stand(event, id) === 'done' ? 'SUCCESS' : null,
      at: event._consumptions.find((each) => each.consumerId === id && each.success)?.consumedAt ?? null,
    })),
  }));
  return ok({
    key,
    aggregateType: 'ORDER',
    aggregateId: key,
    events,
    assets: [],
    idempotency: [],
    cut: false,
    figures: {
      events: events.length,
      effects: events.flatMap((event) => event.effects).length,
      attempts: found.reduce((sum, event) => sum + event.attempts, 0),
      repeatsStopped: 0,
      twice: 0,
    },
  });
}
