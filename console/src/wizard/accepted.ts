// Which fields of a redrive the server takes. One that does not know a field refuses the whole body and names those it knows.
import { ApiError } from '../api/client';

let known: Set<string> | null = null;

export function takes(field: string): boolean {
  return known === null || known.has(field);
}

/** Whether a refusal names the fields that are known. */
export function learn(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.status !== 422) return false;
  const list = /unknown field .*expected one of (.*)/.exec(error.detail)?.[1];
  if (list === undefined) return false;
  known = new Set([...list.matchAll(/`([^`]+)`/g)].map((match) => match[1]!));
  return true;
}
