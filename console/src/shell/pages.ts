import type { IconName } from '../components/Icon';
import type { MessageKey } from '../i18n';

export type PageLink = { to: string; word: MessageKey; icon: IconName; key: string };

/** The rail, in three groups. `key` follows `g`. */
export const PAGES: PageLink[][] = [
  [
    { to: '/', word: 'nav.overview', icon: 'overview', key: 'o' },
    { to: '/events', word: 'nav.events', icon: 'list', key: 'e' },
    { to: '/failures', word: 'nav.failures', icon: 'alert', key: 'f' },
    { to: '/traces', word: 'nav.traces', icon: 'tree', key: 't' },
  ],
  [
    { to: '/consumers', word: 'nav.consumers', icon: 'inbox', key: 'c' },
    { to: '/subscriptions', word: 'nav.subscriptions', icon: 'matrix', key: 's' },
  ],
  [
    { to: '/operations', word: 'nav.operations', icon: 'repeat', key: 'p' },
    { to: '/system', word: 'nav.system', icon: 'server', key: 'y' },
    { to: '/audit', word: 'nav.audit', icon: 'shield', key: 'a' },
  ],
];

export function pageOf(path: string): PageLink {
  const all = PAGES.flat();
  if (path.startsWith('/stories')) return all[3]!;
  return all.slice(1).find((page) => path.startsWith(page.to)) ?? all[0]!;
}
