import { expect, test } from 'vitest';
import type { EventSummary } from '../api/pending';
import { segments } from './Meter';

const event = (rest: object) =>
  ({ status: 'SENT', expectedConsumers: 4, consumedConsumers: 0, failedConsumers: 0, ...rest }) as EventSummary;

test.each([
  ['all done', { status: 'CONSUMED', consumedConsumers: 4 }, ['ok', 'ok', 'ok', 'ok']],
  ['one retries', { status: 'RETRYING', consumedConsumers: 3, retryingConsumers: 1 }, ['ok', 'ok', 'ok', 'warn']],
  ['one is dead', { status: 'PARTIAL', consumedConsumers: 3, failedConsumers: 1 }, ['ok', 'ok', 'ok', 'bad']],
  ['sent, no answer yet', {}, ['info', 'info', 'info', 'info']],
  ['held', { consumedConsumers: 3, held: true }, ['ok', 'ok', 'ok', null]],
  ['not sent yet', { status: 'PENDING' }, [null, null, null, null]],
])('%s', (_, rest, list) => {
  expect(segments(event(rest))).toEqual(list);
});
