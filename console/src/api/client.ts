// One door to the server: same-origin calls with the session cookie. Answers are typed by the OpenAPI document.
import createClient from 'openapi-fetch';
import type { paths } from './schema';

/** Where the console is served, with a slash at its end. */
export const basePath = new URL(document.baseURI).pathname.replace(/[^/]*$/, '');
export const apiBase = `${location.origin}${basePath.replace(/\/$/, '')}`;

/** The answer of the server when it refused or failed. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly requestId: string | null,
    readonly errors: { field: string; message: string }[] = [],
  ) {
    super(detail || title);
  }
}

async function toError(response: Response): Promise<ApiError> {
  const body = await response.json().catch(() => ({}));
  return new ApiError(
    response.status,
    body.code ?? 'unknown',
    body.title ?? response.statusText,
    body.detail ?? '',
    response.headers.get('x-request-id'),
    body.errors ?? [],
  );
}

let onUnauthorized: () => void = () => {};
/** Sets what happens when the session has ended. */
export function whenUnauthorized(action: () => void): void {
  onUnauthorized = action;
}

async function checkedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(input, init);
  } catch {
    throw new ApiError(0, 'unreachable', 'The server does not answer', '', null);
  }
  if (response.ok) return response;
  const error = await toError(response);
  if (response.status === 401 && !response.url.endsWith('/login')) onUnauthorized();
  throw error;
}

export const api = createClient<paths>({ baseUrl: apiBase, fetch: (request) => checkedFetch(request) });

export type Query = Record<string, string | number | boolean | null | undefined>;

export function url(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return `${apiBase}/api/v1${path}${text ? `?${text}` : ''}`;
}

/** For calls that the OpenAPI document does not have yet (see pending.ts). */
export async function getJson<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await checkedFetch(url(path, query), { signal });
  return (await response.json()) as T;
}

export async function getText(path: string, query?: Query, signal?: AbortSignal): Promise<string> {
  return (await checkedFetch(url(path, query), { signal })).text();
}

export async function send<T>(
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: unknown,
  query?: Query,
  headers: Record<string, string> = {},
): Promise<T> {
  const response = await checkedFetch(url(path, query), {
    method,
    headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}
