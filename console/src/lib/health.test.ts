import { expect, test } from 'vitest';
import { healthOf } from './health';

const at = (second: number) => `2026-11-18T10:00:0${second}Z`;

test('minutes count where a server has them, without those in which nothing was tried', () => {
  const minutes = [
    { at: at(1), delivered: 5, failed: 1 },
    { at: at(2), delivered: 0, failed: 0 },
    { at: at(3), delivered: 0, failed: 4 },
  ];
  const health = healthOf(minutes, at(1), [{ success: true, createdAt: at(9) }]);
  expect(health?.of).toBe('minutes');
  expect(health?.tries.map((each) => each.good)).toEqual([true, false]);
  expect(health?.lastSuccessAt).toBe(at(1));
});

test('else the last attempts do, oldest first, with the last success among them', () => {
  const list = [
    { success: false, consumedAt: at(3), createdAt: at(3) },
    { success: true, consumedAt: at(2), createdAt: at(2) },
    { success: false, consumedAt: null, createdAt: at(1) },
  ];
  const health = healthOf(undefined, null, list);
  expect(health?.tries).toEqual([
    { at: at(1), good: false },
    { at: at(2), good: true },
    { at: at(3), good: false },
  ]);
  expect(health?.lastSuccessAt).toBe(at(2));
});

test('without an attempt nothing is claimed', () => {
  expect(healthOf(undefined, null, [])).toBeNull();
  expect(healthOf([], null, undefined)).toBeNull();
});
