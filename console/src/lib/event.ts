// What an event's detail says about each expected consumer, and why an event waits.
import type { Consumer, Consumption, Delivery, EventDetail } from '../api/pending';
import type { DeliveryState } from '../components/Status';
import type { History } from './status';

export type ConsumerPart = {
  consumerId: string;
  state: DeliveryState;
  attempts: Consumption[];
  delivery?: Delivery;
  /** Attempts in all; null where neither the delivery nor the event tells. */
  max: number | null;
};

const ORDER: DeliveryState[] = ['dead', 'retrying', 'delivering', 'held', 'waiting', 'done'];

function stateOf(attempts: Consumption[], delivery?: Delivery): DeliveryState {
  if (attempts.some((each) => each.success)) return 'done';
  if (delivery?.status === 'DEAD') return 'dead';
  if (delivery?.held) return 'held';
  if (delivery?.status === 'PROCESSING') return 'delivering';
  if (delivery?.status === 'FAILED') return 'retrying';
  const last = attempts.at(-1);
  if (!delivery && last && last.success === false) return last.willRetry ? 'retrying' : 'dead';
  return 'waiting';
}

/** One part for each consumer; what needs a person comes first. Attempt 0 only says that it is expected. */
export function partsOf(event: EventDetail): ConsumerPart[] {
  const ids = new Set<string>();
  for (const each of event.consumptions) ids.add(each.consumerId);
  for (const each of event.deliveries) if (each.consumerId) ids.add(each.consumerId);
  const parts = [...ids].map((consumerId): ConsumerPart => {
    const attempts = event.consumptions.filter((each) => each.consumerId === consumerId && each.attemptNo > 0);
    const delivery = event.deliveries.find((each) => each.consumerId === consumerId);
    return {
      consumerId,
      attempts,
      delivery,
      state: stateOf(attempts, delivery),
      max: delivery?.maxAttempts ?? event.maxAttempts ?? null,
    };
  });
  return parts.sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || b.attempts.length - a.attempts.length);
}

export function historyOf(event: EventDetail): History {
  return {
    expected: partsOf(event).map((part) => part.consumerId),
    sentAt: event.sentAt ? Date.parse(event.sentAt) : null,
    expireAt: event.expireAt ? Date.parse(event.expireAt) : null,
    attempts: event.consumptions
      .filter((each) => each.attemptNo > 0)
      .map((each) => ({
        consumerId: each.consumerId,
        success: each.success ?? null,
        willRetry: each.willRetry,
        at: Date.parse(each.consumedAt ?? each.createdAt),
      }))
      .sort((a, b) => a.at - b.at),
  };
}

export type Why =
  | { answer: 'dead' | 'held' | 'working' | 'retrying' | 'turn'; part: ConsumerPart }
  | { answer: 'paused' | 'pull'; part: ConsumerPart; consumer: Consumer }
  | { answer: 'later'; at: string }
  | { answer: 'sent'; part?: ConsumerPart }
  | { answer: 'unheard' }
  | { answer: 'nobody' };

/** Why an event that is not finished waits: the first answer that fits. */
export function whyWaiting(event: EventDetail, consumers: Consumer[], now: number, relays: number | null): Why | null {
  if (event.status === 'CONSUMED' || event.status === 'EXPIRED') return null;
  const parts = partsOf(event);
  const first = (state: DeliveryState) => parts.find((part) => part.state === state);
  const dead = first('dead');
  if (dead) return { answer: 'dead', part: dead };
  const held = first('held');
  if (held) return { answer: 'held', part: held };
  const working = first('delivering');
  if (working) return { answer: 'working', part: working };
  for (const part of parts.filter((each) => each.state !== 'done')) {
    const consumer = consumers.find((each) => each.consumerId === part.consumerId);
    if (consumer?.paused) return { answer: 'paused', part, consumer };
  }
  if (event.deliverAt && Date.parse(event.deliverAt) > now) return { answer: 'later', at: event.deliverAt };
  const retrying = first('retrying');
  if (retrying) return { answer: 'retrying', part: retrying };
  const blocked = parts.find((part) => part.delivery?.blockedBy);
  if (blocked) return { answer: 'turn', part: blocked };
  const waiting = first('waiting');
  const puller = consumers.find((each) => each.via === 'pull' && each.consumerId === waiting?.consumerId);
  if (waiting && puller) return { answer: 'pull', part: waiting, consumer: puller };
  if (event.status === 'SENT') return { answer: 'sent', part: waiting };
  if (event.expectedConsumers === 0) return { answer: 'unheard' };
  if (relays === 0) return { answer: 'nobody' };
  return waiting ? { answer: 'turn', part: waiting } : null;
}
