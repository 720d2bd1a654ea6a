import { beforeAll, describe, expect, test, vi } from 'vitest';

let format: typeof import('./format');
beforeAll(async () => {
  vi.stubGlobal('navigator', { language: 'en' });
  format = await import('./format');
});

describe('times and counts', () => {
  test.each([
    [7, '7 s', '7 秒'],
    [228, '3 m 48 s', '3 分 48 秒'],
    [7500, '2 h 05 m', '2 小时 05 分'],
    [273_600, '3 d 4 h', '3 天 4 小时'],
  ])('%i seconds are %s and %s', (seconds, en, zh) => {
    expect(format.duration(seconds, 'en')).toBe(en);
    expect(format.duration(seconds, 'zh')).toBe(zh);
  });
  test.each([
    [15_000, '00:15'],
    [-5, '00:00'],
    [5_273_000, '1:27:53'],
  ])('%i ms left are %s', (ms, text) => {
    expect(format.countdown(ms)).toBe(text);
  });
  test.each([
    [107, '+107 ms'],
    [1700, '+1.7 s'],
    [-71_000, '−71 s'],
    [0, '0'],
  ])('a distance of %i ms is %s', (ms, text) => {
    expect(format.offset(ms)).toBe(text);
  });
  test('an estimate says so', () => {
    expect(format.counted({ value: 12480, exact: false })).toBe('≈ 12,480');
    expect(format.counted({ value: 12480, exact: true })).toBe('12,480');
  });
  test('a long id keeps its ends', () => {
    expect(format.middle('7f3a4be29d10477a8a01c4d2aa77c21e')).toBe('7f3a…c21e');
    expect(format.middle('short')).toBe('short');
  });
});
