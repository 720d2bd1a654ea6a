// Every text that a stranger can write, as bad as it may be. The pages have to show it as text and keep their layout.
import { makeEvent } from './events.mjs';

export const TEXTS = {
  html: '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"\'`;--',
  rtl: 'abc\u202Egpj.exe\u202C \u200F\u05E9\u05DC\u05D5\u05DD \u0645\u0631\u062D\u0628\u0627',
  emoji: '\u{1F469}\u200D\u{1F469}\u200D\u{1F467}\u{1F3F3}\uFE0F\u200D\u{1F308}'.repeat(6),
  long: `L${'o'.repeat(9_998)}ng`,
  nul: 'a\u0000b\u0007c\u001B[31md\u0085e',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it has to stay text
  template: '${1+1} {{constructor.constructor("window.hacked=1")()}} %s {n}',
};

function hostileEvent(name, text, index) {
  const event = makeEvent({
    id: `evil-${name}-${text}`.slice(0, name === 'long' ? 10_000 : 200),
    topic: 'order.paid',
    key: text,
    status: 'PARTIAL',
    age: 5 + index,
    trace: `0bad${String(index).padStart(28, '0')}`,
    service: text,
    operation: text,
    consumers: { points: { fails: 3, end: 'dead' }, wallet: { fails: 1, end: 'ok' } },
    payload: JSON.stringify({ [text]: text, list: [text] }),
  });
  Object.assign(event, { topic: text, aggregateType: text, aggregateId: text, tenantId: text, lastError: text });
  Object.assign(event.initiator, { userId: text, clientRequestId: text });
  for (const each of event._consumptions)
    if (!each.success) Object.assign(each, { errorMessage: text, errorCode: text });
  return event;
}

export function makeHostile(state) {
  const all = Object.entries(TEXTS);
  state.events.unshift(...all.map(([name, text], index) => hostileEvent(name, text, index)));
  state.groups = all.map(([name, text], index) => ({
    groupId: `g-${name}`,
    consumerId: text,
    errorCode: text,
    fingerprint: `${text} # ${text}`,
    count: 9000 + index,
    dead: 100,
    held: 2,
    first: state.events[0].createdAt,
    last: state.events[0].createdAt,
    sample: text,
    sampleEventId: state.events[index].eventId,
    hours: Array.from({ length: 24 }, (_, hour) => hour),
    topics: [{ topic: text, count: 10 }],
  }));
  state.topics = all.map(([, text]) => ({
    topic: text,
    events: 3,
    lastSeenAt: null,
    subscribers: 0,
    unheard: 3,
    hours: [],
  }));
  for (const [, text] of all) {
    state.consumers.unshift({
      ...state.consumers.find((each) => each.consumerId === 'analytics'),
      consumerId: text,
      topics: [text],
      pausedBy: text,
      pauseReason: text,
      lag: 99_999,
    });
    state.subscriptions.unshift({
      ...state.subscriptions[0],
      topic: text,
      consumerId: text,
      description: text,
      endpoint: text,
    });
    state.operations.unshift({
      ...state.operations[0],
      operationId: `evil ${text}`,
      reason: text,
      requestedBy: text,
      consumerId: text,
      stoppedBecause: text,
    });
    state.audit.unshift({
      ...state.audit[0],
      id: text,
      actor: text,
      role: text,
      target: text,
      detail: text,
      reason: text,
    });
  }
}
