import { describe, expect, test } from 'vitest';
import type { Consumer, FailureGroup, Promise_, Topic } from '../../api/pending';
import { type Known, needsOf } from './needs';

const group = (id: string, count: number, dead: number, last = 0) =>
  ({ groupId: id, consumerId: id, fingerprint: id, count, dead, hours: [0, 0, last] }) as unknown as FailureGroup;
const nothing: Known = {
  promises: [],
  groups: [],
  consumers: [],
  topics: [],
  limits: {},
  oldestSeconds: 0,
  relays: 1,
  now: 0,
};
const kinds = (known: Partial<Known>) => needsOf({ ...nothing, ...known }).map((each) => each.kind);

describe('what needs attention', () => {
  test('nothing, when nothing is wrong', () => {
    expect(kinds({ groups: [group('healed', 7, 0)] })).toEqual([]);
  });
  test('a rising group comes before one with more dead events, and the rest share a line', () => {
    const groups = [group('old', 18, 18), group('rising', 900, 3, 500), group('b', 4, 4), group('c', 2, 2)];
    const needs = needsOf({ ...nothing, groups });
    expect(needs.map((each) => (each.kind === 'group' ? each.group.groupId : each.kind))).toEqual([
      'rising',
      'old',
      'groups',
    ]);
    expect(needs.at(-1)).toMatchObject({ groups: [{ groupId: 'b' }, { groupId: 'c' }] });
  });
  test('a broken promise and a missing relay come before everything else', () => {
    const promise = { name: 'lost', ok: false } as Promise_;
    expect(kinds({ promises: [promise], relays: 0, groups: [group('a', 1, 1)] })).toEqual([
      'promise',
      'nobody',
      'group',
    ]);
    expect(kinds({ relays: null })).toEqual([]);
  });
  test('held keys are named where one consumer holds', () => {
    const promise = { name: 'order', ok: true, keys: ['1', '2'] } as Promise_;
    const held = (id: string) => ({ consumerId: id, held: 3, enabled: true }) as unknown as Consumer;
    expect(needsOf({ ...nothing, promises: [promise], consumers: [held('a')] })[0]).toMatchObject({ keys: ['1', '2'] });
    expect(needsOf({ ...nothing, promises: [promise], consumers: [held('a'), held('b')] })[0]).toMatchObject({
      keys: [],
    });
  });
  test('the limit of waiting is the one the server has', () => {
    expect(kinds({ oldestSeconds: 100 })).toEqual(['oldest']);
    expect(kinds({ oldestSeconds: 100, limits: { oldestSeconds: 300 } })).toEqual([]);
  });
  test('topics that nobody hears come after people paused something', () => {
    const paused = { consumerId: 'a', paused: true } as Consumer;
    expect(kinds({ consumers: [paused], topics: [{ topic: 't', unheard: 1 } as Topic] })).toEqual([
      'paused',
      'unheard',
    ]);
  });
});
