// Audit records carry a route or a verb. The console shows verbs.
const VERBS: [RegExp, string][] = [
  [/POST .*\/consumers\/[^/]*\/keys\/(skip|hold)$/, 'key.$1'],
  [/POST .*\/consumers\/[^/]*\/(pause|resume|rename)$/, 'consumer.$1'],
  [/POST .*\/events\/[^/]*\/(redrive|expire|discard)$/, 'event.$1'],
  [/POST .*\/operations\/[^/]*\/(pause|resume|cancel)$/, 'operation.$1'],
  [/POST .*\/operations$/, 'operation.create'],
  [/PUT .*\/subscriptions\/.*/, 'subscription.put'],
  [/DELETE .*\/subscriptions\/.*/, 'subscription.delete'],
  [/POST .*\/tokens$/, 'token.create'],
  [/DELETE .*\/tokens\/.*/, 'token.revoke'],
  [/POST .*\/(login|logout)$/, '$1'],
  [/GET .*\/events\/[^/]*(\/payload)?$/, 'event.read'],
  [/POST .*\/jobs\/[^/]*\/run$/, 'job.run'],
];

/** `POST /api/v1/consumers/{id}/pause` → `consumer.pause`; a verb stays as it is. */
export function actionOf(action: string): string {
  for (const [route, verb] of VERBS) if (route.test(action)) return action.replace(route, verb);
  return action;
}

/** A payload that somebody saw. Everything else in the audit is a change, or one that was refused. */
export function isRead(record: { action: string; outcome: string }): boolean {
  return actionOf(record.action) === 'event.read' && !record.outcome.startsWith('4');
}

type Wanted = Record<string, string | number | boolean | null | undefined>;
type Told = { at: string; actor: string; action: string; target?: string | null; outcome: string };

/** Whether a record answers the filters of the audit, for a server that does not know them. A target may be part of a path. */
export function isWanted(record: Told, wanted: Wanted): boolean {
  const { actor, action, target, outcome, from } = wanted;
  const parts = (record.target ?? '').split('/').map(decoded);
  return (
    (!actor || record.actor === actor) &&
    (!action || actionOf(record.action) === action) &&
    (!target || record.target === target || parts.includes(String(target))) &&
    (!outcome || record.outcome.startsWith('4')) &&
    (!from || Date.parse(record.at) >= Date.parse(String(from)))
  );
}

/** What a record is about: a path of the API is reduced to the names in it. */
export function targetOf(target: string | null | undefined): string | null {
  if (!target?.startsWith('/')) return target ?? null;
  const [, kind, ...names] = target.split('/').map(decoded);
  if (kind === 'subscriptions') return names.slice(0, 2).join('/') || null;
  return names[0] ?? null;
}

/** The reason in `consumer=carrier reason=the address is corrected`, and what stands before it. */
export function detailOf(record: { detail?: string | null; reason?: string | null }): { what: string; reason: string } {
  const [, what = '', reason = ''] = /^(.*?)(?:(?:^| )reason=(.*))?$/s.exec(record.detail ?? '') ?? [];
  return { what: what.replaceAll('=', ' '), reason: record.reason ?? reason };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
