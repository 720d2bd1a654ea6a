import { useSyncExternalStore } from 'react';

const PHONE = '(max-width: 767px)';

export function isPhone(): boolean {
  return matchMedia(PHONE).matches;
}

function subscribe(listener: () => void): () => void {
  const media = matchMedia(PHONE);
  media.addEventListener('change', listener);
  return () => media.removeEventListener('change', listener);
}

/** Whether the page is as narrow as a phone; the component renders again when it is turned. */
export function usePhone(): boolean {
  return useSyncExternalStore(subscribe, isPhone);
}
