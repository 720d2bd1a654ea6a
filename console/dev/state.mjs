// What the mock remembers and changes while it runs.
import { at } from './clock.mjs';
import { allEvents, makeEvent } from './events.mjs';
import * as figures from './figures.mjs';
import { makeHostile } from './hostile.mjs';

export function makeState(scenario) {
  const empty = scenario === 'first-run';
  const state = {
    scenario,
    storeDown: scenario === 'store-down',
    role: scenario === 'viewer' ? 'viewer' : scenario === 'admin' || empty ? 'admin' : 'operator',
    broken: scenario === 'broken-promise' ? 'lost' : null,
    events: empty ? [] : allEvents(),
    consumers: empty ? [] : figures.makeConsumers(),
    subscriptions: empty ? [] : figures.makeSubscriptions(),
    operations: empty ? [] : figures.makeOperations(),
    audit: empty ? [] : figures.makeAudit(),
    /** While true, points fails every redrive. */
    pointsFails: true,
    quiet: false,
    streams: new Set(),
    serial: 10540,
    /** Idempotency keys that were seen, with their request. */
    keys: new Map(),
  };
  if (scenario === 'hostile') makeHostile(state);
  state.timer = setInterval(() => tick(state), 1000);
  state.timer.unref();
  return state;
}

export function emit(state, kind, value) {
  for (const stream of state.streams) stream.write(`event: ${kind}\ndata: ${JSON.stringify(value)}\n\n`);
}

export function summary({ _consumptions, _deliveries, _payload, _deliverAt, ...rest }) {
  return rest;
}

export function stats(state, minutes, step = 1) {
  const all = figures.makeStats(minutes, step);
  if (state.events.length > 0) return all;
  return { ...all, backlog: 0, processing: 0, retrying: 0, dead: 0, held: 0, oldestPendingSeconds: null, minutes: [] };
}

function tick(state) {
  if (state.storeDown) return;
  emit(state, 'stats', stats(state, 60));
  const writes = state.quiet || state.scenario === 'first-run' ? 0 : (state.perSecond ?? 1);
  for (let index = 0; index < writes; index += 1) {
    const key = String(state.serial++);
    const event = makeEvent({ id: `order:${key}:paid`, topic: 'order.paid', key, status: 'CONSUMED', age: 0 });
    event.createdAt = at(Date.now());
    state.events.unshift(event);
    emit(state, 'event', summary(event));
    if (writes > 1) emit(state, 'status', summary(event));
  }
  for (const operation of state.operations)
    if (operation.state === 'RUNNING' && operation.live) advance(state, operation);
}

/** One second of an operation that was started here: steps, gates, and the stop. */
function advance(state, operation) {
  const step =
    operation.steps.find((each) => each.state === 'running') ?? operation.steps.find((each) => each.state === 'todo');
  if (!step) {
    operation.state = 'DONE';
    operation.finishedAt = at(Date.now());
  } else {
    const count = Math.min(step.ratePerSecond ?? 1, step.size - step.done);
    const failed = state.pointsFails && operation.consumerId === 'points' ? count : 0;
    step.state = 'running';
    step.done += count;
    step.failedAgain += failed;
    step.delivered += count - failed;
    operation.done += count;
    operation.failedAgain += failed;
    operation.delivered += count - failed;
    if (step.done >= step.size) {
      const share = (step.failedAgain / step.done) * 100;
      step.endedAt = at(Date.now());
      step.state = share > operation.stopAbovePercent ? 'stopped' : 'passed';
      if (step.state === 'stopped') {
        operation.state = 'PAUSED';
        operation.stoppedBecause = `${step.failedAgain} of ${step.done} failed again (${share.toFixed(1)} %)`;
      }
    }
  }
  operation.updatedAt = at(Date.now());
  emit(state, 'operation', operation);
}
