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
    expect(bodyOf({ group }, plan)).toMatchObject({
      failureGroup: 'g1',
      consumerId: 'points',
      ramp: [1, 10, 100],
      stopAbovePercent: 5,
      gateSeconds: 60,
      dryRun: true,
    });
  });
  test('of chosen events carries their ids and no filter of its own', () => {
    expect(bodyOf({ eventIds: ['a', 'b'] }, { ...plan, speed: 'all' })).toMatchObject({
      eventIds: ['a', 'b'],
      filter: {},
    });
  });
  test('is a command too, with the reason quoted', () => {
    expect(cliOf({ group }, plan, "it's back")).toBe(
      "postrider dead redrive --consumer points --ramp 1,10,100 --stop-above 5% --reason 'it'\\''s back'",
    );
  });
  test('the steps add up to the whole', () => {
    expect(planSteps([1, 10, 100], 1284).map((step) => step.size)).toEqual([1, 10, 100, 1173]);
    expect(planSteps([1, 10, 100], 5).map((step) => step.size)).toEqual([1, 4]);
  });
});
