// JSON that keeps every number as it was written. `JSON.parse` rounds integers beyond 2^53.

export type JsonNode =
  | { kind: 'object'; entries: [string, JsonNode][] }
  | { kind: 'array'; items: JsonNode[] }
  | { kind: 'string'; value: string }
  | { kind: 'number'; text: string }
  | { kind: 'literal'; value: true | false | null };

/** Deeper nesting is refused, as by the server. */
const MAX_DEPTH = 64;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const SPACE = /[ \t\n\r]*/y;

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  take(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (!match) return null;
    this.at = pattern.lastIndex;
    return match[0];
  }

  peek(): string {
    this.take(SPACE);
    return this.text[this.at] ?? '';
  }

  expect(char: string): void {
    if (this.peek() !== char) throw new SyntaxError(`expected ${char} at ${this.at}`);
    this.at += 1;
  }

  value(depth: number): JsonNode {
    if (depth > MAX_DEPTH) throw new SyntaxError('nested too deeply');
    const char = this.peek();
    if (char === '{') return { kind: 'object', entries: this.members(depth) };
    if (char === '[') return { kind: 'array', items: this.items(depth) };
    if (char === '"') return { kind: 'string', value: this.string() };
    for (const [word, value] of [
      ['true', true],
      ['false', false],
      ['null', null],
    ] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return { kind: 'literal', value };
      }
    }
    const text = this.take(NUMBER);
    if (!text) throw new SyntaxError(`unexpected ${char || 'end'} at ${this.at}`);
    return { kind: 'number', text };
  }

  string(): string {
    this.take(SPACE);
    const text = this.take(STRING);
    if (text === null) throw new SyntaxError(`expected a string at ${this.at}`);
    return JSON.parse(text) as string;
  }

  members(depth: number): [string, JsonNode][] {
    const entries: [string, JsonNode][] = [];
    this.expect('{');
    while (this.peek() !== '}') {
      if (entries.length > 0) this.expect(',');
      const key = this.string();
      this.expect(':');
      entries.push([key, this.value(depth + 1)]);
    }
    this.expect('}');
    return entries;
  }

  items(depth: number): JsonNode[] {
    const items: JsonNode[] = [];
    this.expect('[');
    while (this.peek() !== ']') {
      if (items.length > 0) this.expect(',');
      items.push(this.value(depth + 1));
    }
    this.expect(']');
    return items;
  }
}

/** Parses a whole JSON text. Throws a SyntaxError where it is not JSON. */
export function parseJson(text: string): JsonNode {
  const reader = new Reader(text);
  const node = reader.value(0);
  if (reader.peek() !== '') throw new SyntaxError(`unexpected ${reader.peek()} at ${reader.at}`);
  return node;
}

/** Finds the end of the JSON value that starts at `start`. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  let at = start;
  while (at < text.length) {
    const char = text[at];
    if (char === '"') {
      STRING.lastIndex = at;
      if (!STRING.exec(text)) return text.length;
      at = STRING.lastIndex;
      if (depth === 0) return at;
      continue;
    }
    if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (char === ',' && depth === 0) return at;
    at += 1;
  }
  return at;
}

/**
 * Parses an object with `JSON.parse`, but leaves the named members out and returns their text.
 * An event's payload may have a million characters: it is scanned once and not turned into objects.
 */
export function parseKeeping<T>(text: string, names: readonly string[]): { rest: T; kept: Record<string, string> } {
  const kept: Record<string, string> = {};
  const parts: string[] = [];
  const reader = new Reader(text);
  reader.expect('{');
  while (reader.peek() !== '}') {
    if (reader.peek() === ',') reader.at += 1;
    reader.peek();
    const name = reader.string();
    reader.expect(':');
    reader.peek();
    const start = reader.at;
    reader.at = endOfValue(text, start);
    const value = text.slice(start, reader.at).trimEnd();
    if (names.includes(name)) kept[name] = value;
    else parts.push(`${JSON.stringify(name)}:${value}`);
  }
  return { rest: JSON.parse(`{${parts.join(',')}}`) as T, kept };
}

/** Whether a number in the text would lose digits in a JavaScript number. */
export function losesDigits(text: string): boolean {
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text));
}
