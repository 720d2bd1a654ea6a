// Events of a filter as a file. A server that has the call streams it; from others the pages are read one after another.
import { ApiError, getJson, type Query, url } from './client';
import type { EventPage, EventSummary } from './pending';

/** As many rows as a file has at most. */
const ROWS_MAX = 100_000;
const PAGE = 500;
const NAME = 'events.jsonl';

function save(href: string): void {
  const link = document.createElement('a');
  link.href = href;
  link.download = NAME;
  link.click();
}

function saveRows(rows: EventSummary[]): void {
  const lines = rows.map((each) => `${JSON.stringify(each)}\n`);
  const href = URL.createObjectURL(new Blob(lines, { type: 'application/jsonl' }));
  save(href);
  URL.revokeObjectURL(href);
}

async function streams(query: Query): Promise<boolean> {
  const answer = await fetch(url('/export', query), { method: 'HEAD' });
  return answer.ok;
}

/** Saves what matches. `rows` are chosen rows, which need no question. Returns how many there are, if it is known. */
export async function exportEvents(filter: Query, rows: EventSummary[] | null, onCount: (n: number) => void) {
  const query = {
    format: 'jsonl',
    ...filter,
    ...(rows ? { eventIds: rows.map((each) => each.eventId).join(',') } : {}),
  };
  if (await streams(query)) {
    save(url('/export', query));
    return rows?.length ?? null;
  }
  if (rows) {
    saveRows(rows);
    return rows.length;
  }
  const all: EventSummary[] = [];
  let cursor: string | null | undefined;
  do {
    const page: EventPage = await getJson<EventPage>('/events', { ...filter, limit: PAGE, cursor });
    all.push(...page.events);
    onCount(all.length);
    cursor = page.nextCursor;
  } while (cursor && all.length < ROWS_MAX);
  saveRows(all);
  return all.length;
}

/** What a failed export says. */
export function exportProblem(error: unknown): string {
  return error instanceof ApiError ? `${error.detail || error.title} (${error.code})` : String(error);
}
