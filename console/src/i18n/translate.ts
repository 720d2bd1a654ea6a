// The text of a message with its values put in. `{n}` is a value; `{n?one:many}` picks by whether n is 1.
export type Values = Record<string, string | number>;

const HOLE = /\{(\w+)(?:\?([^:}]*):([^}]*))?\}/g;

export function fill(message: string, values: Values = {}): string {
  return message.replace(HOLE, (whole, name: string, one?: string, many?: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    if (one === undefined) return String(value);
    return String(value) === '1' ? one : (many ?? '');
  });
}

/** The pieces of a message: plain text, and the names of its values. */
export function pieces(message: string): (string | { name: string; one?: string; many?: string })[] {
  const parts: (string | { name: string; one?: string; many?: string })[] = [];
  let end = 0;
  for (const match of message.matchAll(HOLE)) {
    if (match.index > end) parts.push(message.slice(end, match.index));
    parts.push({ name: match[1]!, one: match[2], many: match[3] });
    end = match.index + match[0].length;
  }
  if (end < message.length) parts.push(message.slice(end));
  return parts;
}

/** The names of the values of a message, sorted. */
export function holes(message: string): string[] {
  return [...new Set([...message.matchAll(HOLE)].map((match) => match[1]!))].sort();
}
