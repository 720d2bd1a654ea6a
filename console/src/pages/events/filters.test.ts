import { describe, expect, test } from 'vitest';
import type { EventSummary } from '../../api/pending';
import { chipsOf, filterOf, fits, normal, presetOf } from './filters';

const NOW = Date.parse('2026-11-18T06:32:40Z');

describe('filters of the list', () => {
  test('names of the address become names of the API, and a range starts at a whole minute', () => {
    expect(filterOf({ consumer: 'points', key: '9223372036854775807', range: '1h' }, NOW)).toEqual({
      consumerId: 'points',
      key: '9223372036854775807',
      from: '2026-11-18T05:32:00.000Z',
    });
  });
  test('links with the API names and presets are understood', () => {
    expect(normal({ deliveryStatus: 'DEAD' })).toEqual({ delivery: 'DEAD' });
    expect(normal({ preset: 'slow' })).toMatchObject({ status: 'PENDING,SENT,RETRYING', older: '60' });
  });
  test.each([
    [{}, 'all'],
    [{ status: 'RETRYING', consumer: 'points' }, 'retrying'],
    [{ delivery: 'DEAD' }, 'dead'],
    [{ status: 'PENDING,SENT,RETRYING', older: '60' }, 'slow'],
    [{ status: 'FAILED' }, null],
  ])('%o is the preset %s', (search, preset) => {
    expect(presetOf(search as Record<string, string>)).toBe(preset);
  });
  test('a status of a preset is no chip, another one is', () => {
    expect(chipsOf({ status: 'RETRYING', topic: 'a' })).toEqual([['topic', 'a']]);
    expect(chipsOf({ status: 'FAILED' })).toEqual([['status', 'FAILED']]);
  });
  test('a new event belongs to the list only where its summary fits', () => {
    const event = { topic: 'a', key: '1', status: 'PENDING', initiator: { service: 's' } } as unknown as EventSummary;
    expect(fits(event, { topic: 'a', status: 'PENDING,SENT' })).toBe(true);
    expect(fits(event, { topic: 'b' })).toBe(false);
    expect(fits(event, { delivery: 'DEAD' })).toBe(false);
  });
});
