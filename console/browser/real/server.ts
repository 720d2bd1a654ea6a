// Starts the real executable on a free port with a folder of its own, and ends it by its process id.
import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll } from 'vitest';

const run = promisify(execFile);
const EXECUTABLE =
  process.env.POSTRIDER_EXECUTABLE ?? fileURLToPath(new URL('../../../target/debug/postrider', import.meta.url));
/** A debug build on a busy machine takes seconds, not a minute. */
const START_MS = 60_000;
/** An orderly stop finishes open work first. */
const STOP_MS = 30_000;

export type Kind = 'demo' | 'serve';
type Answer = { status: number; body: Record<string, unknown> };

/** Settings of the shell that runs the tests must not reach the server. */
function environment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('POSTRIDER_'));
  return Object.fromEntries(own);
}

/** Those that a failed test has not stopped end with its file. */
const running = new Set<Server>();
afterAll(async () => {
  await Promise.all([...running].map((each) => each.stop()));
});

export class Server {
  url = '';
  token = '';
  /** What is done after the process has ended, such as removing its database. */
  whenStopped: () => void = () => {};
  private child!: ChildProcess;
  private log = '';
  private constructor(
    private readonly kind: Kind,
    private readonly dir: string,
    private readonly store: string,
    private readonly flags: string[],
  ) {}

  /** `demo` has the shop under traffic, on SQLite. `serve` is empty, on SQLite or the given store. */
  static async start(kind: Kind, store?: string, flags: string[] = []): Promise<Server> {
    if (!existsSync(EXECUTABLE))
      throw new Error(`${EXECUTABLE} is missing: build it with cargo, or name another in POSTRIDER_EXECUTABLE`);
    const dir = mkdtempSync(join(tmpdir(), 'postrider-console-'));
    const server = new Server(kind, dir, store ?? `sqlite://${dir}/bus.db`, flags);
    running.add(server);
    await server.run('127.0.0.1:0');
    server.token = /^admin token: (\S+)$/m.exec(server.log)?.[1] ?? '';
    const page = await fetch(server.url, { headers: { accept: 'text/html' } }).then((answer) => answer.text());
    if (!page.includes('<base href') && !process.env.CONSOLE_DIST)
      throw new Error(`${EXECUTABLE} was built without the console: run \`make console\`, then cargo build`);
    return server;
  }

  private async run(listen: string): Promise<void> {
    const rest = this.kind === 'demo' ? ['--data-dir', join(this.dir, 'demo')] : ['--store', this.store];
    const child = spawn(EXECUTABLE, [this.kind, '--listen', listen, ...rest, ...this.flags], {
      cwd: this.dir,
      env: environment(),
    });
    this.child = child;
    this.log = '';
    this.url = await new Promise<string>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`it does not listen:\n${this.log}`)), START_MS);
      const read = (chunk: Buffer) => {
        this.log = (this.log + chunk.toString()).slice(-20_000);
        const url = /^listening on (http:\S+)$/m.exec(this.log)?.[1];
        if (url) {
          clearTimeout(late);
          resolve(url);
        }
      };
      child.stdout.on('data', read);
      child.stderr.on('data', read);
      child.on('exit', (code) => reject(new Error(`it ended with ${code}:\n${this.log}`)));
      child.on('error', reject);
    });
    const alive = await fetch(`${this.url}/livez`);
    if (!alive.ok) throw new Error(`/livez answers ${alive.status}`);
  }

  private end(signal: NodeJS.Signals): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return Promise.resolve();
    return new Promise((resolve) => {
      const late = setTimeout(() => this.child.kill('SIGKILL'), STOP_MS);
      this.child.once('exit', () => {
        clearTimeout(late);
        resolve();
      });
      this.child.kill(signal);
    });
  }

  /** The process dies at once; `revive` starts it again on the same port, with the same data. */
  kill(): Promise<void> {
    return this.end('SIGKILL');
  }

  revive(): Promise<void> {
    return this.run(new URL(this.url).host);
  }

  async stop(): Promise<void> {
    if (!running.delete(this)) return;
    await this.end('SIGTERM');
    rmSync(this.dir, { recursive: true, force: true });
    this.whenStopped();
  }

  /** Runs a line that the console shows, with the admin's token, as a person who pasted it into a shell. */
  shell(line: string): { code: number; output: string } {
    const bin = join(this.dir, 'bin');
    mkdirSync(bin, { recursive: true });
    if (!existsSync(join(bin, 'postrider'))) symlinkSync(EXECUTABLE, join(bin, 'postrider'));
    const env = {
      ...environment(),
      PATH: `${bin}:${process.env.PATH}`,
      POSTRIDER_SERVER: this.url,
      POSTRIDER_TOKEN: this.token,
    };
    const { status, stdout, stderr } = spawnSync('sh', ['-c', line], { cwd: this.dir, env, encoding: 'utf8' });
    return { code: status ?? -1, output: stdout + stderr };
  }

  /** Changes the rows behind the server's back, as a person at the database could. */
  async sql(statement: string): Promise<void> {
    const path = this.kind === 'demo' ? join(this.dir, 'demo', 'postrider.db') : join(this.dir, 'bus.db');
    if (this.store.startsWith('postgres'))
      await run('psql', ['-q', '-v', 'ON_ERROR_STOP=1', '-d', this.store, '-c', statement]);
    else await run('sqlite3', ['-cmd', '.timeout 10000', path, statement]);
  }

  /** A call with the admin's token. Any refusal is a failure of the test. */
  async call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const answer = await this.try(method, path, body);
    if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  async try(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : {} };
  }

  subscribe(topic: string, consumer: string, rest: object = {}) {
    return this.call('PUT', `/subscriptions/${topic}/${consumer}`, rest);
  }

  publish(event: object) {
    return this.call('POST', '/events', { payload: {}, ...event });
  }

  async makeToken(role: string, rest: object = {}): Promise<{ tokenId: string; secret: string }> {
    return (await this.call('POST', '/tokens', { name: `${role}-${Date.now()}`, role, ...rest })) as never;
  }

  /** Takes the next deliveries of a consumer that pulls, waiting for the first, and reports one result for all. */
  async work(consumer: string, result: object, max = 1): Promise<number> {
    const claimed = await this.call('POST', `/consumers/${consumer}/claim`, { max, waitSeconds: 20 });
    const deliveries = claimed.deliveries as { deliveryId: string; leaseToken: string }[];
    const results = deliveries.map(({ deliveryId, leaseToken }) => ({ deliveryId, leaseToken, ...result }));
    if (results.length > 0) await this.call('POST', `/consumers/${consumer}/settle`, { results });
    return results.length;
  }
}

/** A new database on the PostgreSQL of the tests, and what removes it. */
export function makeDatabase(): { url: string; drop: () => void } {
  const admin = process.env.POSTRIDER_TEST_POSTGRES;
  if (!admin) throw new Error('POSTRIDER_TEST_POSTGRES is not set: eval "$(scripts/services urls)"');
  const name = `console_${process.pid}_${Date.now()}`;
  const run = (sql: string) => execFileSync('psql', ['-q', '-d', admin, '-c', sql]);
  run(`create database ${name}`);
  const url = new URL(admin);
  url.pathname = `/${name}`;
  return { url: url.toString(), drop: () => run(`drop database ${name} with (force)`) };
}
