import { expect, test } from 'vitest';
import type { StoryEvent } from '../../api/pending';
import { assetsOf, isBalanced, openParts } from './balance';

const effect = (asset: string, delta: string, state = 'done') => ({
  consumerId: 'c',
  asset,
  delta,
  state,
  attempts: 1,
  repeatsStopped: 0,
});
const events = [
  { effects: [effect('wallet', '-40.00 frozen'), effect('points', '-200')] },
  {
    effects: [
      effect('wallet', '+40.00'),
      effect('points', '+200', 'retrying'),
      effect('stock', '-9223372036854775807'),
    ],
  },
] as unknown as StoryEvent[];

test('what came back is balanced, what is open is not', () => {
  const [wallet, points] = assetsOf(events);
  expect([wallet?.net, isBalanced(wallet!)]).toEqual(['0.00', true]);
  expect([points?.net, isBalanced(points!)]).toEqual(['−200', false]);
  expect(openParts(events)).toHaveLength(1);
});
test('sums keep every digit', () => {
  expect(assetsOf(events)[2]?.net).toBe('−9223372036854775807');
});
