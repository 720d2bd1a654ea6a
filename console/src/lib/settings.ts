// What belongs to the person at this browser: theme, language, time zone, density, columns, keys. Nothing else is stored here.
import { useSyncExternalStore } from 'react';

export type Settings = {
  theme: 'auto' | 'light' | 'dark';
  language: 'en' | 'zh';
  zone: 'local' | 'utc';
  compact: boolean;
  hiddenColumns: string[];
  letterKeys: boolean;
};

const KEY = 'postrider.settings';
const listeners = new Set<() => void>();

function initial(): Settings {
  const language = globalThis.navigator?.language.startsWith('zh') ? 'zh' : 'en';
  const defaults: Settings = {
    theme: 'auto',
    language,
    zone: 'local',
    compact: false,
    hiddenColumns: [],
    letterKeys: true,
  };
  try {
    return { ...defaults, ...(JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Settings>) };
  } catch {
    return defaults;
  }
}

let current = initial();

export function settings(): Settings {
  return current;
}

export function changeSettings(change: Partial<Settings>): void {
  current = { ...current, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // A browser that refuses storage keeps the choice until the tab closes.
  }
  applySettings();
  for (const listener of listeners) listener();
}

export function darkNow(): boolean {
  return current.theme === 'dark' || (current.theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
}

export function applySettings(): void {
  const root = document.documentElement;
  root.dataset.theme = darkNow() ? 'dark' : 'light';
  root.dataset.density = current.compact ? 'compact' : 'normal';
  root.lang = current.language === 'zh' ? 'zh-CN' : 'en';
}

export function useSettings(): Settings {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
