import { expect, test } from 'vitest';
import { actionOf } from './audit';

test.each([
  ['POST /api/v1/consumers/{consumerId}/pause', 'consumer.pause'],
  ['POST /api/v1/events/{eventId}/redrive', 'event.redrive'],
  ['POST /api/v1/operations', 'operation.create'],
  ['POST /api/v1/operations/{operationId}/cancel', 'operation.cancel'],
  ['PUT /api/v1/subscriptions/{topic}/{consumerId}', 'subscription.put'],
  ['DELETE /api/v1/tokens/{tokenId}', 'token.revoke'],
  ['POST /api/v1/login', 'login'],
  ['consumer.pause', 'consumer.pause'],
])('%s is shown as %s', (route, verb) => {
  expect(actionOf(route)).toBe(verb);
});
