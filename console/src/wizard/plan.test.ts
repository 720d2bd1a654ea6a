import { describe, expect, test } from 'vitest';
import type { FailureGroup } from '../api/pending';
import { planSteps } from '../components/Ramp';
import { bodyOf, cliOf, type Plan } from './plan';

const plan: Plan = {
  onlyFailed: true,
  speed: 'ramp',
  rate: 50,
  ramp: [1, 10, 100],
  stopAbove: 5,
  gateSeconds: 60,
  keepOrder: true,
};
const group = { groupId: 'g1', consumerId: 'points', fingerprint: 'x', count: 1284, dead: 31 } as FailureGroup;

describe('a redrive plan', () => {
  test('of a group names the group, its consumer and the ramp', () => {
    expect(bodyOf({ groups: [group] }, plan)).toMatchObject({
      failureGroup: 'g1',
      consumerId: 'points',
      consumers: 'failed',
      ramp: [1, 10, 100],
      stopAbovePercent: 5,
      gateSeconds: 60,
      dryRun: true,
    });
  });
  test('of several groups names all of them, and each group keeps its own consumer', () => {
    const other = { ...group, groupId: 'g2', consumerId: 'wallet' };
    const body = bodyOf({ groups: [group, other] }, plan);
    expect(body).toMatchObject({ failureGroups: ['g1', 'g2'], consumers: 'failed', filter: {} });
    expect(body.consumerId).toBeUndefined();
    expect(body.failureGroup).toBeUndefined();
  });
  test('to every consumer that is not done names no consumer', () => {
    const body = bodyOf({ groups: [group] }, { ...plan, onlyFailed: false });
    expect(body).toMatchObject({ failureGroup: 'g1', consumers: 'open' });
    expect(body.consumerId).toBeUndefined();
  });
  test('of chosen events carries their ids and no filter of its own', () => {
    expect(bodyOf({ eventIds: ['a', 'b'] }, { ...plan, speed: 'all' })).toMatchObject({
      eventIds: ['a', 'b'],
      filter: {},
    });
  });
  test('is a command too, with the reason quoted', () => {
    expect(cliOf({ groups: [group] }, plan, "it's back")).toBe(
      "postrider dead redrive --consumer points --group g1 --ramp 1,10,100 --stop-above 5% --gate 60s --oldest-first --reason 'it'\\''s back'",
    );
  });
  test('the steps add up to the whole', () => {
    expect(planSteps([1, 10, 100], 1284).map((step) => step.size)).toEqual([1, 10, 100, 1173]);
    expect(planSteps([1, 10, 100], 5).map((step) => step.size)).toEqual([1, 4]);
  });
});
