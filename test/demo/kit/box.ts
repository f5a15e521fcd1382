// A box of its own for a run: boxd in a temporary home on a free port, with nothing of the caller's own box.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The source tree. */
export const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

/** What the API answered. */
export interface Answer {
  status: number;
  body: any;
}

/** Whose request it is; without a token it is the box's own screen. */
export interface As {
  token?: string | undefined;
  headers?: Record<string, string>;
}

export class RunningBox {
  /** Those that were made and not removed yet. */
  static readonly all = new Set<RunningBox>();

  /** BOX_HOME. Its path is short: a task's socket beneath it has at most 107 bytes. */
  readonly home = mkdtempSync('/tmp/box');
  port = 0;
  #program: string;
  #args: string[];
  #process: ChildProcess | undefined;
  #ended: Promise<string> = Promise.resolve('it was not started');
  #said = '';
  /** A value of the vault that must get nowhere else; leaks() searches for it. */
  readonly #planted = `pl${randomBytes(24).toString('hex')}`;

  constructor(program = join(root, 'bin', 'boxd'), ...args: string[]) {
    this.#program = program;
    this.#args = args;
    RunningBox.all.add(this);
    writeFileSync(join(this.home, 'vault.env'), `PLANTED_KEY=${this.#planted}\n`, { mode: 0o600 });
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The environment that boxd and the box command get. */
  env(): Record<string, string | undefined> {
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('BOX_') || name === 'BOX_TASKS_ROOT' || name === 'BOX_TRACKS'));
    return {
      BOX_TASKS_ROOT: join(root, '.cache', 'tasks'),
      ...own,
      BOX_HOME: this.home,
      BOX_PORT: String(this.port),
      BOX_LAN: 'off',
      BOX_APPROVAL_WAIT_MS: '1000', // so that a question is seen to be pending soon
    };
  }

  /** Starts it, or starts it again, and waits until it answers. */
  async start(): Promise<void> {
    this.port ||= await freePort();
    const p = spawn(this.#program, this.#args, { env: this.env(), stdio: ['ignore', 'pipe', 'pipe'] });
    this.#process = p;
    this.#ended = new Promise((done) => {
      p.once('error', (err) => done(err.message));
      p.once('exit', (code, signal) => done(signal ?? `exit code ${code}`));
    });
    p.stderr.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
    const ready = new Promise<void>((done) => {
      let out = '';
      p.stdout.setEncoding('utf8').on('data', (text: string) => {
        this.#said += text;
        out += text;
        if (out.includes(`ready ${this.url}\n`)) done();
      });
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, no) => (timer = setTimeout(() => no(new Error('boxd is not ready after 60 s')), 60_000)));
    try {
      await Promise.race([ready, late, this.#ended.then((how) => Promise.reject(new Error(`boxd ended before it was ready (${how})`)))]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends it in order, after a look whether the vault's value got anywhere. */
  async stop(): Promise<void> {
    if (!this.#running()) return;
    const leaks = await this.leaks();
    if (leaks.length > 0) throw new Error(`a value of the vault stands in ${leaks.join(', ')}`);
    this.#process?.kill('SIGTERM');
    const late = setTimeout(() => this.#process?.kill('SIGKILL'), 60_000);
    const how = await this.#ended;
    clearTimeout(late);
    if (how !== 'exit code 0') throw new Error(`boxd did not end in order: ${how}`);
  }

  /** Ends it as a power cut does, as far as a process can tell. */
  async kill(): Promise<void> {
    this.#process?.kill('SIGKILL');
    await this.#ended;
  }

  #running(): boolean {
    return this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** What it has printed. */
  said(): string {
    return this.#said;
  }

  /** One request. */
  ask(method: string, path: string, body?: unknown, as: As = {}): Promise<Answer> {
    const raw = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
    const bytes = raw ? body : JSON.stringify(body);
    const headers: Record<string, string> = { ...as.headers };
    if (as.token) headers['authorization'] = `Bearer ${as.token}`;
    if (bytes !== undefined) {
      headers['content-type'] ??= raw ? 'application/octet-stream' : 'application/json';
      headers['content-length'] = String(Buffer.byteLength(bytes));
    }
    return new Promise((done, no) => {
      const r = request(this.url + path, { method, headers, timeout: 60_000 }, (a) => {
        const parts: Buffer[] = [];
        a.on('data', (part: Buffer) => parts.push(part));
        a.on('error', no);
        a.on('end', () => {
          const text = Buffer.concat(parts).toString();
          done({ status: a.statusCode ?? 0, body: a.headers['content-type']?.startsWith('application/json') ? JSON.parse(text) : text });
        });
      });
      r.on('timeout', () => r.destroy(new Error(`${method} ${path}: no answer in 60 s`)));
      r.on('error', no);
      r.end(bytes);
    });
  }

  /** The box command, on this box. */
  command(...args: string[]): { code: number; out: string } {
    const p = spawnSync(join(root, 'bin', 'box'), args, { env: this.env(), encoding: 'utf8', maxBuffer: 64 << 20 });
    if (p.error) throw p.error;
    return { code: p.status ?? -1, out: p.stdout + p.stderr };
  }

  /**
   * Where the vault's value stands besides the vault: in a file of the box, in what it printed, and, while it runs, in what it answers. Plain, in hex, and in
   * base64 at each offset.
   */
  async leaks(): Promise<string[]> {
    const value = Buffer.from(this.#planted);
    const spellings = [value.toString(), value.toString('hex'), value.toString('hex').toUpperCase()];
    for (const pad of [0, 1, 2]) {
      const text = Buffer.concat([Buffer.alloc(pad), value]).toString('base64').replace(/=+$/, '');
      spellings.push(text.slice(Math.ceil((pad * 8) / 6), -1));
    }
    const found: string[] = [];
    const search = (where: string, text: string): void => {
      if (spellings.some((s) => text.includes(s))) found.push(where);
    };
    search('what it printed', this.#said);
    if (this.#running()) {
      const paths = ['/', '/api/box', '/api/tasks?limit=1000', '/api/approvals', '/api/log', '/api/vault', '/api/apps?all=1', '/api/permissions', '/api/settings', '/api/spend', '/metrics'];
      for (const path of paths) search(path, JSON.stringify((await this.ask('GET', path)).body));
    }
    for (const file of readdirSync(this.home, { recursive: true, withFileTypes: true })) {
      const path = join(file.parentPath, file.name);
      if (!file.isFile() || path === join(this.home, 'vault.env') || statSync(path).size > 64 << 20) continue;
      search(path, readFileSync(path, 'latin1'));
    }
    return found;
  }

  /** Copies its action log out of the home. */
  keep(dir: string): void {
    const log = join(this.home, 'log.jsonl');
    if (existsSync(log)) copyFileSync(log, join(dir, 'log.jsonl'));
  }

  /** Removes the home of a box that has ended, never through something that is still mounted in it. */
  remove(): void {
    RunningBox.all.delete(this);
    if (readFileSync('/proc/self/mountinfo', 'utf8').split('\n').some((l) => `${l.split(' ')[4]}/`.startsWith(`${this.home}/`))) {
      console.error(`demo: ${this.home} stays, something is mounted in it`);
      return;
    }
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** Builds boxd with the tools of a shop (test/fixtures/shopbox), which the shipped one does not have. */
export function shopbox(): string {
  const to = join(root, '.cache', 'demo', 'shopbox');
  const flags = ['-trimpath', '-buildvcs=false', '-tags', 'netgo,osusergo', '-ldflags', '-s -w -linkmode=external -extldflags=-static'];
  const go = spawnSync('go', ['build', ...flags, '-o', to, './test/fixtures/shopbox'], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, CGO_ENABLED: '1', GOTOOLCHAIN: 'auto', PATH: `${process.env['PATH']}:/usr/local/go/bin:/usr/lib/go/bin` },
  });
  if (go.error || go.status !== 0) throw new Error(`building test/fixtures/shopbox with Go: ${go.error?.message ?? go.stderr}`);
  return to;
}

function freePort(): Promise<number> {
  return new Promise((done, no) => {
    const s = createServer();
    s.once('error', no);
    s.listen(0, '127.0.0.1', () => {
      const a = s.address();
      s.close(() => (a !== null && typeof a === 'object' ? done(a.port) : no(new Error('no free port'))));
    });
  });
}
