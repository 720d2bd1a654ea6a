import { summary } from './state.mjs';

function node(events, event) {
  const children = events
    .filter((each) => each.parentEventId === event.eventId)
    .sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  return {
    ...summary(event),
    consumptions: event._consumptions,
    deliveries: event._deliveries,
    children: children.map((child) => node(events, child)),
  };
}

export function traceTree(all, traceId) {
  const events = all
    .filter((event) => event.traceId === traceId)
    .sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  if (events.length === 0) return null;
  const roots = events.filter((event) => !events.some((each) => each.eventId === event.parentEventId));
  return { body: { traceId, events: events.map(summary), roots: roots.map((root) => node(events, root)), cut: false } };
}

export function traceRoots(all) {
  const ids = [...new Set(all.map((event) => event.traceId))].slice(0, 50);
  return ids.map((traceId) => {
    const events = all
      .filter((event) => event.traceId === traceId)
      .sort((a, b) => a.createdAt.localeCompare(b.createdAt));
    const end = Math.max(
      ...events.flatMap((event) => event._consumptions.map((each) => Date.parse(each.consumedAt))),
      Date.parse(events[0].createdAt),
    );
    return {
      traceId,
      root: summary(events[0]),
      events: events.length,
      failed: events.reduce((sum, event) => sum + event.failedConsumers, 0),
      retrying: events.reduce((sum, event) => sum + event.retryingConsumers, 0),
      services: [...new Set(events.map((event) => event.initiator.service))],
      durationMs: end - Date.parse(events[0].createdAt),
    };
  });
}
