// Ages and countdowns run on the client, by the store's clock.
import { useEffect, useSyncExternalStore } from 'react';

let offsetMs = 0;
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Takes over the store's clock from an answer that carries it. */
export function syncClock(at: string): void {
  offsetMs = Date.parse(at) - Date.now();
}

export function storeNow(): number {
  return Date.now() + offsetMs;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = storeNow();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The store's time in milliseconds; the component renders again each second. */
export function useNow(): number {
  const value = useSyncExternalStore(subscribe, () => now);
  useEffect(() => {
    now = storeNow();
  }, []);
  return value;
}
