// Filters, tabs, ranges and panels live in the URL, as plain strings: a number in it would be rounded.
import { useLocation, useNavigate } from '@tanstack/react-router';
import { useCallback } from 'react';

export type Search = Record<string, string>;

export function parseSearch(text: string): Search {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return text ? `?${text}` : '';
}

/** The search part of the URL, and a way to change some of it. Back undoes a change unless it replaces. */
export function useUrl(): [Search, (change: Record<string, string | undefined>, replace?: boolean) => void] {
  const search = useLocation().search as Search;
  const navigate = useNavigate();
  const change = useCallback(
    (part: Record<string, string | undefined>, replace = false) => {
      void navigate({
        to: '.',
        search: ((old: Search) => ({ ...old, ...part })) as never,
        replace,
        resetScroll: false,
      });
    },
    [navigate],
  );
  return [search, change];
}
