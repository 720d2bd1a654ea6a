import { expect, test } from 'vitest';
import { assetsOf, openParts, type StoryData } from './balance';

const effect = (asset: string, delta: string, rest = {}) => ({
  consumerId: 'c',
  asset,
  delta,
  state: 'done',
  attempts: 1,
  repeatsStopped: 0,
  ...rest,
});
const story = {
  assets: [
    { asset: 'account', net: '0.00', balanced: true },
    { asset: 'bonus', net: '-200', balanced: false },
    { asset: 'seat', balanced: false },
  ],
  events: [
    { effects: [effect('account', '-40.00 frozen'), effect('bonus', '-200'), effect('seat', 'many')] },
    {
      effects: [
        effect('account', '+40.00', { undoes: ['e1'] }),
        effect('bonus', '+200', { state: 'retrying' }),
        effect('account', '+40.00', { again: true }),
      ],
    },
  ],
} as unknown as StoryData;

test('each asset has its moves beside its net', () => {
  const [account, bonus, seat] = assetsOf(story);
  expect([account?.net, account?.balanced]).toEqual(['0.00', true]);
  expect(account?.moves.map((move) => [move.delta, move.undo])).toEqual([
    ['−40.00 frozen', false],
    ['+40.00', true],
  ]);
  expect([bonus?.net, bonus?.moves[1]?.open]).toEqual(['−200', true]);
  expect(seat?.net).toBe('?');
  expect(openParts(story.events)).toHaveLength(1);
});
