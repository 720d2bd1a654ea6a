import type { Consumer } from '../api/pending';
import type { ConsumerState } from '../components/Status';

/** A consumer that was seen before and not for this long is silent, unless the server has another limit. */
const SILENT_SECONDS = 300;
/** Below this share of success a consumer stands out. */
export const POOR_SUCCESS = 0.95;
/** An event that waits longer than this needs attention, unless the server has another limit. */
export const OLDEST_SECONDS = 60;

export function consumerState(consumer: Consumer, now: number, silentAfter = SILENT_SECONDS): ConsumerState {
  if (consumer.paused) return 'paused';
  if (!consumer.enabled) return 'disabled';
  if (silentSeconds(consumer, now) > silentAfter) return 'silent';
  return 'active';
}

/** For how long no worker has asked for this consumer. */
export function silentSeconds(consumer: Consumer, now: number): number {
  return consumer.lastSeenAt ? (now - Date.parse(consumer.lastSeenAt)) / 1000 : 0;
}

/** Whether deliveries to it are ours to count. */
export function isCounted(consumer: Consumer): boolean {
  return consumer.lag !== null && consumer.lag !== undefined;
}

/** The most behind first; those of a broker after those we count, paused ones last. */
export function byLag(a: Consumer, b: Consumer): number {
  if (a.paused !== b.paused) return a.paused ? 1 : -1;
  return (b.lag ?? -1) - (a.lag ?? -1);
}
