// The keys of every page. Pages add their own with `usePageKeys`.
import { useRouter } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { togglePause } from '../api/live';
import { settings } from '../lib/settings';
import { overlay } from './overlay';
import { PAGES } from './pages';

/** What is held for the palette on this machine. */
export const MOD = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl';
/** After `g`, the letter of a page has to come within this time. */
const CHORD_MS = 1200;
type Handlers = Record<string, (event: KeyboardEvent) => void>;
const pageHandlers = new Set<{ current: Handlers }>();

export function typing(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** Keys of the page that is shown, such as `j`, `r` or `[`. */
export function usePageKeys(handlers: Handlers): void {
  const ref = useRef(handlers);
  ref.current = handlers;
  useEffect(() => {
    pageHandlers.add(ref);
    return () => {
      pageHandlers.delete(ref);
    };
  }, []);
}

/** `j` and `k` move through the rows of the page's table, Enter opens one, `x` selects it. */
export function useRowKeys(): void {
  const rows = () => [...document.querySelectorAll<HTMLElement>('main .table tr.open')];
  const current = () => rows().findIndex((row) => row.contains(document.activeElement));
  const move = (step: number) => {
    const all = rows();
    const next = all[Math.min(all.length - 1, Math.max(0, current() + step))];
    if (!next) return;
    next.tabIndex = -1;
    next.focus();
  };
  usePageKeys({
    j: () => move(1),
    k: () => move(-1),
    x: () => rows()[current()]?.querySelector<HTMLElement>('input[type="checkbox"]')?.click(),
    Enter: ({ target }) => (target as HTMLElement).tagName === 'TR' && (target as HTMLElement).click(),
  });
}

export function useKeys(): void {
  const router = useRouter();
  useEffect(() => {
    let chordAt = 0;
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key === 'k') {
        event.preventDefault();
        overlay('palette');
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || typing(event) || document.querySelector('dialog[open]'))
        return;
      if (event.key === '/') {
        event.preventDefault();
        overlay('palette');
        return;
      }
      const letter = /^[a-zA-Z.?]$/.test(event.key);
      if (letter && !settings().letterKeys) return;
      if (Date.now() - chordAt < CHORD_MS) {
        chordAt = 0;
        const page = PAGES.flat().find((each) => each.key === event.key);
        if (page) void router.navigate({ to: page.to });
        return;
      }
      if (event.key === 'g') chordAt = Date.now();
      else if (event.key === '?') overlay('keys');
      else if (event.key === '.') togglePause();
      else for (const handlers of pageHandlers) handlers.current[event.key]?.(event);
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [router]);
}
