// Events of a filter as a file, streamed by the server.
import { ApiError, getText, type Query, url } from './client';
import type { EventSummary } from './pending';

const NAME = 'events.jsonl';

function save(href: string): void {
  const link = document.createElement('a');
  link.href = href;
  link.download = NAME;
  link.click();
}

/** Saves what matches, or the chosen rows. A refusal is thrown; the browser would save it as the file. */
export async function exportEvents(filter: Query, rows: EventSummary[] | null): Promise<void> {
  const chosen = rows ? { eventIds: rows.map((each) => each.eventId).join(',') } : filter;
  const query = { format: 'jsonl', ...chosen };
  const answer = await fetch(url('/export', query), { method: 'HEAD' });
  // An answer to HEAD has no body that says why.
  if (!answer.ok) await getText('/export', query);
  save(url('/export', query));
}

/** What a failed export says. */
export function exportProblem(error: unknown): string {
  return error instanceof ApiError ? `${error.detail || error.title} (${error.code})` : String(error);
}
