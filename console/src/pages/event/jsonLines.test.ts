import { expect, test } from 'vitest';
import { parseJson } from '../../api/json';
import { firstClosed, linesOf } from './jsonLines';

const node = parseJson('{"id":9223372036854775807,"items":[{"a":1},{"a":2}],"none":{}}');

test('a tree is written as lines, with commas where JSON has them', () => {
  const text = linesOf(node, new Set()).map(
    (line) => `${'  '.repeat(line.depth)}${line.name ? `"${line.name}": ` : ''}${line.text}${line.comma ? ',' : ''}`,
  );
  expect(JSON.stringify(text.join('\n'))).toContain('9223372036854775807');
  expect(text.at(-1)).toBe('}');
  expect(text.join('\n').replace('9223372036854775807', '1')).toSatisfy(
    (json: string) => JSON.parse(json).items.length === 2,
  );
});
test('objects in lists start closed, on one line', () => {
  const closed = firstClosed(node);
  expect([...closed]).toEqual(['/items/0', '/items/1']);
  expect(linesOf(node, closed).map((line) => line.text)).toContain('{ "a": 1 }');
});
