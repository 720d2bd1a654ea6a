import { expect, test } from 'vitest';
import { actionOf, detailOf, isRead, isWanted, targetOf } from './audit';

test.each([
  ['POST /api/v1/consumers/{consumerId}/pause', 'consumer.pause'],
  ['POST /api/v1/events/{eventId}/redrive', 'event.redrive'],
  ['POST /api/v1/operations', 'operation.create'],
  ['POST /api/v1/operations/{operationId}/cancel', 'operation.cancel'],
  ['PUT /api/v1/subscriptions/{topic}/{consumerId}', 'subscription.put'],
  ['DELETE /api/v1/tokens/{tokenId}', 'token.revoke'],
  ['POST /api/v1/login', 'login'],
  ['GET /api/v1/events/{eventId}', 'event.read'],
  ['GET /api/v1/events/{eventId}/payload', 'event.read'],
  ['POST /shop/jobs/{job}/run', 'job.run'],
  ['consumer.pause', 'consumer.pause'],
])('%s is shown as %s', (route, verb) => {
  expect(actionOf(route)).toBe(verb);
});

test('a read that was allowed is no change, and a refused one is worth a look', () => {
  const read = { action: 'GET /api/v1/events/{eventId}', outcome: '200' };
  expect(isRead(read)).toBe(true);
  expect(isRead({ ...read, outcome: '403' })).toBe(false);
  expect(isRead({ action: 'POST /api/v1/events/{eventId}/redrive', outcome: '202' })).toBe(false);
});

test('records are filtered here as a server with filters would', () => {
  const record = {
    at: '2026-11-18T10:00:00Z',
    actor: 'wei',
    action: 'POST /api/v1/events/{eventId}/redrive',
    target: '/events/order%3A1/redrive',
    outcome: '409',
  };
  expect(isWanted(record, {})).toBe(true);
  expect(isWanted(record, { target: 'order:1', limit: 100 })).toBe(true);
  expect(isWanted(record, { target: 'order:2' })).toBe(false);
  expect(isWanted(record, { actor: 'wei', action: 'event.redrive', outcome: 'refused' })).toBe(true);
  expect(isWanted(record, { actor: 'ada' })).toBe(false);
  expect(isWanted(record, { from: '2026-11-18T10:00:01Z' })).toBe(false);
  expect(isWanted({ ...record, target: '/events/%zz' }, { target: 'x' })).toBe(false);
});

test.each([
  ['/events/order%3A1%3Apaid/redrive', 'order:1:paid'],
  ['/consumers/points/pause', 'points'],
  ['/subscriptions/order.paid/points', 'order.paid/points'],
  ['/operations', null],
  ['/login', null],
  ['order:1', 'order:1'],
  [null, null],
])('the target %s is %s', (path, name) => {
  expect(targetOf(path)).toBe(name);
});

test('a reason in the detail stands in its own column', () => {
  expect(detailOf({ detail: 'consumer=carrier reason=the address is corrected' })).toEqual({
    what: 'consumer carrier',
    reason: 'the address is corrected',
  });
  expect(detailOf({ detail: 'reason=again' })).toEqual({ what: '', reason: 'again' });
  expect(detailOf({ detail: 'dryRun matching=7' })).toEqual({ what: 'dryRun matching 7', reason: '' });
  expect(detailOf({ detail: null, reason: 'why' })).toEqual({ what: '', reason: 'why' });
});
