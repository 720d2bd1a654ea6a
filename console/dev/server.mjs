// A mock of the API for development and browser tests. It is not part of the build.
// node dev/server.mjs [port] [scenario]; scenarios: shop, first-run, store-down, viewer, admin, broken-promise, hostile
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { routes } from './routes.mjs';
import { makeState } from './state.mjs';

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};
const CSP = "default-src 'self'; base-uri 'self'; frame-ancestors 'none'; form-action 'self'; object-src 'none'";

function problem(response, status, code, detail) {
  response.writeHead(status, {
    'content-type': 'application/problem+json',
    'x-request-id': `req-${Math.random().toString(16).slice(2, 8)}`,
  });
  response.end(JSON.stringify({ title: code, status, detail, code }));
}

/** A file of the build, or the page itself with its base set, as the server does it. */
function serveFile(base, path, response) {
  const file = join(DIST, normalize(path));
  const isFile = path !== '/' && existsSync(file) && statSync(file).isFile();
  response.writeHead(200, {
    'content-type': isFile ? (TYPES[extname(file)] ?? 'application/octet-stream') : TYPES['.html'],
    'content-security-policy': CSP,
  });
  if (isFile) createReadStream(file).pipe(response);
  else
    response.end(
      readFileSync(join(DIST, 'index.html'), 'utf8').replace('<base href="/" />', `<base href="${base}" />`),
    );
}

function ready(state) {
  const first = state.scenario === 'first-run';
  return {
    ready: true,
    environment: { name: first ? 'local' : 'prod' },
    version: '0.1.0',
    session: { idleMinutes: 30, hours: 8 },
  };
}

async function bodyOf(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text ? JSON.parse(text) : {};
}

async function answer(state, base, request, response) {
  const url = new URL(request.url, 'http://mock');
  if (!`${url.pathname}/`.startsWith(base)) return problem(response, 404, 'notFound', `This server is at ${base}.`);
  url.pathname = `/${url.pathname.slice(base.length)}`;
  if (url.pathname === '/readyz') {
    if (state.storeDown)
      return problem(
        response,
        503,
        'storeAway',
        'error communicating with database: Connection refused (os error 111)',
      );
    response.writeHead(200, { 'content-type': 'application/json' });
    return response.end(JSON.stringify(ready(state)));
  }
  if (url.pathname === '/__mock' && request.method === 'POST') {
    Object.assign(state, await bodyOf(request));
    return response.end('{}');
  }
  if (!url.pathname.startsWith('/api/v1/')) return serveFile(base, url.pathname, response);
  const path = url.pathname.slice('/api/v1'.length);
  // Sessions live in the store: while it is away, no caller is known.
  if (state.storeDown)
    return problem(response, 503, 'storeAway', 'error communicating with database: Connection refused (os error 111)');
  const loggedIn = /postrider_session=ok/.test(request.headers.cookie ?? '') && !state.loggedOut;
  if (path !== '/login' && !loggedIn) return problem(response, 401, 'unauthorized', 'Log in first.');
  const wanted = request.method === 'HEAD' ? 'GET' : request.method;
  for (const [method, pattern, handle] of routes) {
    const match = wanted === method && pattern.exec(path);
    if (!match) continue;
    const args = match.slice(1).map(decodeURIComponent);
    const body = method === 'GET' ? {} : await bodyOf(request);
    const context = {
      state,
      query: url.searchParams,
      args,
      body,
      request,
      response,
      problem: (...rest) => problem(response, ...rest),
    };
    const result = handle(context);
    if (result === undefined) return;
    response.writeHead(result.status ?? 200, { 'content-type': 'application/json', ...result.headers });
    return response.end(result.text ?? (result.body === undefined ? '' : JSON.stringify(result.body)));
  }
  return problem(response, 404, 'notFound', `There is no ${request.method} ${path}.`);
}

/** Starts a mock on 127.0.0.1; port 0 takes a free one. `base` is the path it is served under. */
export async function startMock({ port = 0, scenario = 'shop', base = '/' } = {}) {
  const state = makeState(scenario);
  const server = createServer((request, response) => {
    answer(state, base, request, response).catch((error) => {
      console.error(error);
      if (!response.headersSent) problem(response, 500, 'internal', String(error));
    });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
    clearInterval(state.timer);
  };
  return { url: `http://127.0.0.1:${server.address().port}${base.replace(/\/$/, '')}`, state, close };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startMock({ port: Number(process.argv[2] ?? 7071), scenario: process.argv[3] ?? 'shop' });
  console.log(`mock: ${url}/#token=prt_mock`);
}
