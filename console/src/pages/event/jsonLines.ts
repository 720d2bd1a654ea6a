import type { JsonNode } from '../../api/json';

export type Line = {
  path: string;
  kind: 'one' | 'open' | 'close';
  depth: number;
  name: string | null;
  type: 'string' | 'number' | 'word' | 'mark';
  text: string;
  raw: string;
  comma: boolean;
  foldable: boolean;
  count: number | null;
};

/** A closed value is shown in one line of at most this many characters. */
const INLINE_MAX = 110;

function inline(node: JsonNode): string {
  const full = write(node);
  return full.length > INLINE_MAX ? `${full.slice(0, INLINE_MAX)} …` : full;
}

function write(node: JsonNode): string {
  if (node.kind === 'object')
    return `{ ${node.entries.map(([key, value]) => `${JSON.stringify(key)}: ${write(value)}`).join(', ')} }`;
  if (node.kind === 'array') return `[ ${node.items.map(write).join(', ')} ]`;
  if (node.kind === 'string') return JSON.stringify(node.value);
  return node.kind === 'number' ? node.text : String(node.value);
}

/** Objects in lists start closed: their one line says enough. */
export function firstClosed(root: JsonNode): Set<string> {
  const closed = new Set<string>();
  (function walk(node: JsonNode, path: string, inList: boolean): void {
    if (inList && node.kind === 'object') closed.add(path);
    if (node.kind === 'object') for (const [key, child] of node.entries) walk(child, `${path}/${key}`, false);
    if (node.kind === 'array')
      node.items.forEach((child, index) => {
        walk(child, `${path}/${index}`, true);
      });
  })(root, '', false);
  return closed;
}

/** A tree as numbered lines; what is closed is one line. */
export function linesOf(root: JsonNode, closed: ReadonlySet<string>): Line[] {
  const lines: Line[] = [];
  const add = (line: Partial<Line> & Pick<Line, 'path' | 'depth' | 'text'>) =>
    lines.push({
      kind: 'one',
      name: null,
      type: 'mark',
      raw: line.text,
      comma: false,
      foldable: false,
      count: null,
      ...line,
    });

  function walk(node: JsonNode, path: string, depth: number, name: string | null, comma: boolean): void {
    if (node.kind === 'string')
      return void add({ path, depth, name, comma, type: 'string', text: JSON.stringify(node.value), raw: node.value });
    if (node.kind === 'number') return void add({ path, depth, name, comma, type: 'number', text: node.text });
    if (node.kind === 'literal') return void add({ path, depth, name, comma, type: 'word', text: String(node.value) });
    const children: [string | null, JsonNode][] =
      node.kind === 'object' ? node.entries : node.items.map((item) => [null, item]);
    const [left, right] = node.kind === 'object' ? ['{', '}'] : ['[', ']'];
    if (children.length === 0) return void add({ path, depth, name, comma, text: left + right });
    if (closed.has(path))
      return void add({ path, depth, name, comma, text: inline(node), foldable: true, count: null });
    add({
      path,
      depth,
      name,
      text: left,
      kind: 'open',
      foldable: true,
      count: node.kind === 'array' ? children.length : null,
    });
    for (const [index, [key, child]] of children.entries())
      walk(child, `${path}/${key ?? index}`, depth + 1, key, index < children.length - 1);
    add({ path, depth, comma, text: right, kind: 'close' });
  }

  walk(root, '', 0, null, false);
  return lines;
}
