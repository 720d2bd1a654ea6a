import { describe, expect, test } from 'vitest';
import { listCommand, quote, redriveCommand } from './cli';

const SERVER = 'http://bus.example:7070';

describe('a screen as a command', () => {
  test.each([
    ['order:10531:paid', 'order:10531:paid'],
    ['', "''"],
    ['$(id)', "'$(id)'"],
    ["it's back", "'it'\\''s back'"],
    ['a\nb', "'a\nb'"],
    ['--help', "'--help'"],
    ['订单', "'订单'"],
  ])('the text %j is one word of a shell', (text, word) => {
    expect(quote(text)).toBe(word);
  });
  test('filters are flags of the command line', () => {
    expect(listCommand({ consumerId: 'points', aggregateType: 'ORDER', aggregateId: '7', limit: 50 }, SERVER)).toBe(
      'postrider events list --consumer points --aggregate-type ORDER --aggregate-id 7',
    );
    expect(listCommand({ key: '--token' }, SERVER)).toBe("postrider events list --key='--token'");
  });
  test('what has no flag is a call of the API', () => {
    expect(listCommand({ olderThanSeconds: '60', topic: 'a b' }, SERVER)).toBe(
      'curl -H "authorization: Bearer $POSTRIDER_TOKEN" ' +
        "'http://bus.example:7070/api/v1/events?olderThanSeconds=60&topic=a+b'",
    );
    expect(listCommand({ aggregateId: '7' }, SERVER)).toContain('curl');
  });
  test('dead letters are redriven by their own command, other events by ids or filter', () => {
    expect(redriveCommand({ filter: { consumerId: 'points', deliveryStatus: 'DEAD' }, rate: 50 })).toBe(
      'postrider dead redrive --consumer points --rate 50',
    );
    expect(redriveCommand({ filter: { topic: 'order.paid', deliveryStatus: 'FAILED' }, reason: 'back' })).toBe(
      'postrider events redrive --delivery-status FAILED --topic order.paid --reason back',
    );
    expect(redriveCommand({ eventIds: ['a', 'b c'], filter: {} })).toBe("postrider events redrive a 'b c'");
  });
});
