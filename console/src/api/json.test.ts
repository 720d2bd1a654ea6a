import { describe, expect, test } from 'vitest';
import { losesDigits, parseJson, parseKeeping } from './json';

describe('lossless JSON', () => {
  test('an integer of 64 bits keeps every digit', () => {
    const node = parseJson('{"id": 9223372036854775807}');
    expect(node).toEqual({ kind: 'object', entries: [['id', { kind: 'number', text: '9223372036854775807' }]] });
    expect(losesDigits('9223372036854775807')).toBe(true);
    expect(losesDigits('9007199254740991')).toBe(false);
  });
  test('strings, escapes, literals and nesting are read', () => {
    const node = parseJson(' [ "a\\n\\u4e2d", true, null, -1.50e3, {} ] ');
    expect(node).toEqual({
      kind: 'array',
      items: [
        { kind: 'string', value: 'a\n中' },
        { kind: 'literal', value: true },
        { kind: 'literal', value: null },
        { kind: 'number', text: '-1.50e3' },
        { kind: 'object', entries: [] },
      ],
    });
  });
  test.each(['{', '[1,]x', '{"a" 1}', 'tru', '"\u0001"', '1 2'])('%s is refused', (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError);
  });
  test('nesting beyond the limit is refused', () => {
    expect(() => parseJson('['.repeat(100) + ']'.repeat(100))).toThrow(/deeply/);
  });
  test('the payload is kept as text and the rest is parsed', () => {
    const text = '{"eventId":"a", "payload" : {"n":12345678901234567890,"s":"}\\"]"} ,"attempts":3}';
    const { rest, kept } = parseKeeping<{ eventId: string; attempts: number }>(text, ['payload']);
    expect(rest).toEqual({ eventId: 'a', attempts: 3 });
    expect(kept.payload).toBe('{"n":12345678901234567890,"s":"}\\"]"}');
  });
  test('a payload of one mebibyte is scanned quickly', () => {
    const big = JSON.stringify({ eventId: 'a', payload: { text: 'x'.repeat(1_048_576) } });
    const start = performance.now();
    expect(parseKeeping<{ eventId: string }>(big, ['payload']).rest.eventId).toBe('a');
    expect(performance.now() - start).toBeLessThan(500);
  });
});
