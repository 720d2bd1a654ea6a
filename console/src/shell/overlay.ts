// Which layer of the shell is open: the palette or the list of keys.
import { useSyncExternalStore } from 'react';

export type Overlay = 'palette' | 'keys' | null;
let current: Overlay = null;
const listeners = new Set<() => void>();

export function overlay(next: Overlay): void {
  current = next;
  for (const listener of listeners) listener();
}

export function useOverlay(): Overlay {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
