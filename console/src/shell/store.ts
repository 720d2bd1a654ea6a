// Whether the store answers, as learned from the answers to all other calls.
import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { ApiError, apiBase } from '../api/client';

const LOOK_MS = 3_000;
export type StoreState = { down: boolean; since: number; looks: number; nextAt: number; error: ApiError | null };
let current: StoreState = { down: false, since: 0, looks: 0, nextAt: 0, error: null };
const listeners = new Set<() => void>();
let client: QueryClient | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

function set(change: Partial<StoreState>): void {
  current = { ...current, ...change };
  for (const listener of listeners) listener();
}

/** Notes an error of any call. A 503 that names the store opens the card. */
export function noteError(error: unknown): void {
  if (!(error instanceof ApiError) || error.status !== 503) return;
  if (!/^(store|schema)/.test(error.code) && error.code !== 'unavailable') return;
  if (current.down) return;
  set({ down: true, since: Date.now(), looks: 1, error });
  schedule();
}

function schedule(): void {
  clearTimeout(timer);
  set({ nextAt: Date.now() + LOOK_MS });
  timer = setTimeout(() => void lookAgain(), LOOK_MS);
}

/** Asks once whether the server can work again. */
export async function lookAgain(): Promise<void> {
  const response = await fetch(`${apiBase}/readyz`).catch(() => null);
  if (response?.ok) {
    set({ down: false, error: null });
    await client?.invalidateQueries();
    return;
  }
  set({ looks: current.looks + 1 });
  schedule();
}

/** Gives the looks a client to refresh with; called once by the shell. */
export function attachStore(queryClient: QueryClient): void {
  client = queryClient;
}

export function useStore(): StoreState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
