// Who is logged in, and what the role allows. The server decides; this only says why before it is asked.
import { useQuery } from '@tanstack/react-query';
import { ApiError } from '../api/client';
import type { Limits, Session } from '../api/pending';
import { health, session } from '../api/queries';
import { t } from '../i18n';

export type Role = 'viewer' | 'publisher' | 'consumer' | 'operator' | 'admin';
const RANK: Record<Role, number> = { viewer: 0, publisher: 0, consumer: 0, operator: 1, admin: 2 };

export function useSession() {
  return useQuery(session).data;
}

let refusedLogin: ApiError | null = null;

/** Keeps why the token of the address was refused, for the login page that follows. */
export function noteLogin(error: unknown): void {
  refusedLogin = error instanceof ApiError ? error : null;
}

export function takeRefusedLogin(): ApiError | null {
  const error = refusedLogin;
  refusedLogin = null;
  return error;
}

/** The server ends a session after this time without a call, and after this time in any case. */
export const SESSION_IDLE_MINUTES = 30;
export const SESSION_HOURS = 8;

/** What the token reaches, as a list of names; null if that is everything. */
export function scopeOf({ scope }: Pick<Session, 'scope'>): string | null {
  if (!scope) return null;
  const parts = [
    ...scope.topics,
    ...scope.consumers.map((name) => `${t('filter.consumer')} ${name}`),
    ...scope.tenants.map((name) => `${t('filter.tenant')} ${name}`),
  ];
  return parts.length > 0 ? parts.join(' · ') : null;
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

type Access = {
  /** Whether it may be asked for: not before the caller is known, because each refused call is a record in the audit. */
  may: boolean;
  refused: string | null;
};

/** What is about the whole installation. To a token with a scope it does not exist. */
export function useWhole(): Access {
  const caller = useSession();
  const scope = caller && scopeOf(caller);
  const refused = scope ? t('session.whole', { what: scope }) : null;
  return { may: caller !== undefined && !refused, refused };
}

/** What only operators see. */
export function useOperators(): Access {
  const known = useSession() !== undefined;
  const refused = useRefusal('operator');
  return { may: known && !refused, refused };
}

/** What is about the whole installation and only operators see. */
export function useOperatorsWhole(): Access {
  const operators = useOperators();
  const whole = useWhole();
  return { may: operators.may && whole.may, refused: operators.refused ?? whole.refused };
}

/** The server's health, where the caller may see it. */
export function useHealth() {
  const { may } = useOperatorsWhole();
  return useQuery({ ...health, retry: false, enabled: may });
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
