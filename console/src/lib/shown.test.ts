import { expect, test } from 'vitest';
import { shown } from './shown';

test('controls and marks of direction are written out', () => {
  expect(shown('a\u0000b\u001b[31m')).toBe('a\\u0000b\\u001b[31m');
  expect(shown('abc\u202egpj.exe')).toBe('abc\\u202egpj.exe');
});
test('letters, joined emoji, tabs and line ends stay as they are', () => {
  const text = 'é 订单 שלום 👩‍👧 \t\n<b>';
  expect(shown(text)).toBe(text);
});
