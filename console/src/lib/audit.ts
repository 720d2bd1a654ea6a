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
];

/** `POST /api/v1/consumers/{id}/pause` → `consumer.pause`; a verb stays as it is. */
export function actionOf(action: string): string {
  for (const [route, verb] of VERBS) if (route.test(action)) return action.replace(route, verb);
  return action;
}
