// Who is logged in, and what the role allows. The server decides; this only says why before it is asked.
import { useQuery } from '@tanstack/react-query';
import type { Limits } from '../api/pending';
import { session } from '../api/queries';
import { t } from '../i18n';

export type Role = 'viewer' | 'publisher' | 'consumer' | 'operator' | 'admin';
const RANK: Record<Role, number> = { viewer: 0, publisher: 0, consumer: 0, operator: 1, admin: 2 };

export function useSession() {
  return useQuery(session).data;
}

const UNKNOWN: Limits = {};
/** The rules in force. What a server does not tell is left out of the pages. */
export function useLimits(): Limits {
  return useSession()?.limits ?? UNKNOWN;
}

/** Why the role does not allow it, or null where it does. */
export function useRefusal(needs: 'operator' | 'admin'): string | null {
  const role = useSession()?.role as Role | undefined;
  if (!role || RANK[role] >= RANK[needs]) return null;
  return t('role.needed', { r: t(`role.${needs}`), s: t(`role.${role}`) });
}

const STORES: Record<string, string> = {
  sqlite: 'SQLite',
  postgres: 'PostgreSQL',
  mysql: 'MySQL',
  memory: 'Memory',
};

/** The name of a kind of store, as its makers write it. */
export function storeName(kind: string | undefined): string {
  return STORES[kind ?? ''] ?? kind ?? '';
}

/** Which of the three colours an environment has. */
export function environmentClass(name: string | undefined): string {
  if (!name) return 'env-local';
  if (/prod/i.test(name)) return 'env-prod';
  return /stag|test|uat|pre/i.test(name) ? 'env-staging' : 'env-local';
}

export function isProduction(name: string | undefined): boolean {
  return environmentClass(name) === 'env-prod';
}
