// A box for the unit tests of an app: no daemon, no sandbox, no waiting. It checks what the box checks and says what the box says; the clock stands still
// until the test moves it, and the owner answers as the test says. What only a real box has, a test with one shows (DemoKit, `box app dev`): the sandbox,
// the network of an app, a worker, the limits of time and memory.
//
//   const b = await testBox(track, { secrets: { SHOP_KEY: 'sk_test_12345' }, owner: () => true });
//   const answer = await b.call('shop.buy', { cents: 700 });
//   await b.advance('1d');
//   assert.equal(b.tasks.length, 1);

import { randomUUID } from 'node:crypto';
import type { Approval, Awaitable, Box, Cost, Ctx, HookHeaders, Json, LogEvent, Note, Task, TaskSpec, TaskStep, Tool, Track, Watch } from './contract.ts';
import { Zone, span } from './testbox/clock.ts';
import { declared } from './testbox/declare.ts';
import { type Changed, Workspaces, folder } from './testbox/files.ts';
import { Log } from './testbox/log.ts';
import { hider, hideIn } from './testbox/secrets.ts';
import { shown } from './testbox/spec.ts';
import { type Begun, type CallAnswer, Tasks, type TestSettings, refusal, said } from './testbox/tasks.ts';
import { Watches } from './testbox/watches.ts';

export type { CallAnswer, TestSettings } from './testbox/tasks.ts';

/** How the box stands when a test begins. */
export interface TestOptions {
  /** What its clock shows. Default 2026-01-05T00:00:00Z, a Monday. */
  now?: string | Date;
  /** Its time zone. Default UTC. */
  timeZone?: string;
  /** Keys in its vault, each value of at least 8 characters. Default none. */
  secrets?: Record<string, string>;
  /** Its workspaces and their files. There is always `home`. */
  workspaces?: Record<string, Record<string, string>>;
  /** Settings that differ from a new box's. */
  settings?: Partial<TestSettings>;
  /** Answers each question as it comes; undefined leaves it for answer(). Default leaves all. */
  owner?: (question: Approval) => boolean | undefined;
  /** Works on each task that begins to run: when it returns the task is done, with what it returns as summary; a throw fails it. Default leaves all running. */
  worker?: (task: Task, hand: Hand) => Awaitable<string | void>;
  /** Whether it is the box of a build that brings Droid, whose task is every one that names no worker. Default false: this build refuses it. */
  droid?: boolean;
  /** Model jobs of other apps that this one runs, by name. Default none. */
  jobs?: Record<string, (input: any, task?: string) => unknown>;
  /** Names of tools that other apps bring. Default none. */
  otherTools?: string[];
  /** The app's own folder, or import.meta.dirname of its test: what box.workspace() may copy from. */
  folder?: string;
}

/** What a worker can do for its task. */
export interface Hand {
  /** Calls a tool, with a key of its own unless one is given. */
  call(tool: string, input?: unknown, key?: string): Promise<CallAnswer>;
  /** Asks the owner. */
  ask(question: string, key?: string): Promise<boolean>;
  /** Says what it did. */
  step(text: string, data?: Json): void;
  /** Writes a file of the workspace, or deletes it with null; seen once the task is done. */
  write(path: string, text: string | null): void;
}

/** A request to a route. */
export interface TestRequest {
  /** A string or bytes as they are, anything else as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
  /** Who calls. Default `screen`; `none` is somebody without a token. */
  caller?: 'screen' | 'owner' | `device:${string}` | 'service' | 'none';
}

const settings: TestSettings = { defaultBudgetCents: 100, approvalThresholdCents: 500, networkDefault: 'none', defaultHosts: [] };

/** What somebody without a token is told. */
const noToken = 'this needs the token of a paired device. Pair one with the code that `box pair` shows on the box';

/** Makes a box with one app that is on. Throws with the box's sentence when the app could not be turned on. */
export async function testBox(track: Track, options: TestOptions = {}): Promise<TestBox> {
  const b = new TestBox(track, options);
  await b.on();
  return b;
}

interface Reading {
  name: string;
  read: (event: LogEvent, box: Box) => Awaitable<void>;
  done: number;
  retry: number | undefined; // when, by the even clock
  busy: Promise<void> | undefined;
}

export class TestBox {
  /** The app's Box, as its functions get it. */
  readonly box: Box;
  /** What the app did wrong so far that nobody got as an answer: triggers, readers and listeners that threw. */
  readonly faults: string[] = [];
  /** Whether the app is on. */
  isOn = false;
  /** Whether a trigger of the app, which is off, runs on until the box starts anew. */
  restartNeeded = false;

  #track: Track;
  #opt: TestOptions;
  #wall: number;
  #even = 0;
  #log: Log;
  #files = new Workspaces();
  #tasks: Tasks;
  #watches: Watches;
  #secrets: Map<string, string>;
  #off = new Set<string>();
  #limit: number | undefined;
  #stops: (() => void)[] = [];
  #hooks = new Map<string, (body: Json, headers: HookHeaders) => Awaitable<Json | void>>();
  #readers: Reading[] = [];
  #end = new AbortController();
  #working = new Set<Promise<void>>();
  #asked: (() => void)[] = [];
  #usual: string | undefined;
  #keys = 0;

  /** Use testBox(). */
  constructor(track: Track, options: TestOptions) {
    this.#track = declared(track);
    this.#opt = options;
    this.#wall = new Date(options.now ?? '2026-01-05T00:00:00Z').getTime();
    if (Number.isNaN(this.#wall)) throw new Error(`testBox: ${String(options.now)} is no time`);
    const time = { wall: () => this.#wall, even: () => this.#even };
    this.#log = new Log(time);
    this.#secrets = new Map(Object.entries(options.secrets ?? {}));
    for (const [name, value] of this.#secrets) if ([...value].length < 8) throw new Error(`testBox: ${name}: a value of at least 8 characters is needed`);
    for (const [name, files] of Object.entries({ home: {}, ...options.workspaces })) this.#files.make(name, files);
    const hide = hider(this.#secrets);
    this.#tasks = new Tasks(
      {
        app: track.name,
        title: () => this.title,
        tool: (name) => this.#tool(name),
        settings: { ...settings, ...options.settings },
        droid: options.droid ?? false,
        allowed: (item) => !this.#off.has(item),
        dailyLimit: () => this.#limit,
        today: () => new Date(this.#wall).toISOString().slice(0, 10),
        hide,
        ctx: (call) => this.#ctx(call),
        begun: (task) => this.#work(task),
        asked: (question) => this.#question(question),
        touched: (workspace) => this.#watches.touch(workspace),
      },
      this.#log,
      this.#files,
    );
    this.#watches = new Watches(track.name, time, new Zone(options.timeZone ?? 'UTC'), this.#log, this.#files);
    this.box = this.#makeBox(hide);
    this.#log.listeners.add(() => this.#pump());
  }

  // What became of it.

  /** The app's name for people. */
  get title(): string {
    return this.#track.title ?? this.#track.apps?.[0]?.title ?? this.#track.name;
  }

  /** What the clock shows. */
  get now(): Date {
    return new Date(this.#wall);
  }

  /** The whole action log. */
  get log(): LogEvent[] {
    return structuredClone(this.#log.events);
  }

  /** All tasks, the oldest first. */
  get tasks(): Task[] {
    return structuredClone([...this.#tasks.tasks.values()]);
  }

  /** All questions, the oldest first. */
  get approvals(): Approval[] {
    return structuredClone([...this.#tasks.approvals.values()]);
  }

  /** What the app noted, the oldest first. */
  get notes(): Json[] {
    return this.#kind<Note>('note').filter((n) => n.track === this.#track.name).map((n) => n.data);
  }

  /** What was spent besides the calls' own costs. */
  get costs(): Pick<Cost, 'cents' | 'what' | 'task'>[] {
    return this.#kind<Cost>('cost').map(({ cents, what, task }) => ({ cents, what, ...(task === undefined ? {} : { task }) }));
  }

  /** The steps of a task, or of all. */
  steps(task?: string): Pick<TaskStep, 'text' | 'data'>[] {
    return this.#kind<TaskStep>('task.step').filter((s) => task === undefined || s.task === task).map(({ text, data }) => ({ text, ...(data === undefined ? {} : { data }) }));
  }

  /** A file of a workspace as it is now. */
  view(workspace: string, path: string): string | undefined {
    return this.#files.view(workspace).get(path);
  }

  #kind<E extends LogEvent>(type: E['type']): E[] {
    return this.log.filter((e): e is E => e.type === type);
  }

  // What happens to it.

  /** Turns the app on, as it is after testBox(). */
  async on(): Promise<void> {
    if (this.isOn) return;
    if (this.restartNeeded) throw new Error(`${this.title} has a trigger that runs on until the box starts anew`);
    this.isOn = true;
    this.#end = new AbortController();
    this.#readers = (this.#track.logReaders ?? []).map((r) => this.#readers.find((old) => old.name === r.name) ?? { name: r.name, read: (event, box) => r.read(event, box), done: 0, retry: undefined, busy: undefined });
    for (const t of this.#track.triggers ?? []) {
      try {
        const stop = await t.start(this.box);
        if (typeof stop === 'function') this.#stops.push(stop);
        else this.#stops.push(() => (this.restartNeeded = true));
      } catch (err) {
        await this.off();
        throw new Error(`${this.#track.name}: trigger ${t.name}: ${said(err)}`, { cause: err });
      }
    }
    await this.settle();
  }

  /** Turns the app off: its triggers stop, its tools, routes and webhooks are gone. */
  async off(): Promise<void> {
    this.isOn = false;
    this.#end.abort(new Error('the app is off'));
    for (const stop of this.#stops.splice(0)) {
      try {
        stop();
      } catch (err) {
        this.faults.push(`stop: ${said(err)}`);
      }
    }
    await this.settle();
  }

  /** Lets time pass, a number of ms or a span such as `90s`, `15m`, `8h`, `2d`: everything that is due in it happens, in order. */
  async advance(by: string | number): Promise<void> {
    const until = this.#even + span(by);
    await this.settle();
    for (;;) {
      const next = Math.min(this.#watches.next() ?? Infinity, ...this.#readers.map((r) => r.retry ?? Infinity));
      if (next > until) break;
      this.#pass(Math.max(next - this.#even, 0));
      this.#wake();
      const lines = this.#log.events.length;
      await this.#watches.look();
      // A beat that did nothing costs nothing: a year of them takes seconds.
      if (this.#log.events.length > lines || this.#readers.some((r) => r.busy)) await this.settle();
    }
    this.#pass(until - this.#even);
    this.#wake();
    await this.settle();
  }

  /** The box is off for so long and starts again: what was missed is made up for where the box makes up for it. */
  async sleep(by: string | number): Promise<void> {
    this.#pass(span(by));
    this.#wake();
    await this.#watches.look();
    await this.advance(0);
  }

  /** Sets the clock on the wall, while no time passes. */
  async setClock(to: string | Date): Promise<void> {
    this.#wall = new Date(to).getTime();
    this.#watches.stepped();
    await this.#watches.look();
    await this.advance(0);
  }

  #pass(ms: number): void {
    this.#even += ms;
    this.#wall += ms;
  }

  #wake(): void {
    for (const r of this.#readers) if (r.retry !== undefined && r.retry <= this.#even) r.retry = undefined;
    this.#pump();
  }

  /** Changes files of a workspace as a person does, with null for one that is deleted; it is at rest half a second later. */
  async change(files: Changed, workspace = 'home'): Promise<void> {
    const t = this.#tasks.create({ title: 'Files put in', prompt: '', worker: 'fake', workspace }, undefined, 'api');
    this.#tasks.end(t.id, 'done', { files });
    await this.advance(500);
  }

  /** Lets the owner turn something off or on for the app: `money`, `shell`, `strangers`, `folders`, `key:<NAME>`, `host:<host>`. */
  allow(item: string, allowed: boolean): void {
    if (!/^(money|shell|strangers|folders|key:[A-Z][A-Z0-9_]*|host:.+)$/.test(item)) throw new Error(`testBox: the box knows no permission ${item}`);
    if (allowed) this.#off.delete(item);
    else this.#off.add(item);
  }

  /** Sets the app's limit for a day, in whole US cents; undefined for none. */
  dailyLimit(cents: number | undefined): void {
    this.#limit = cents;
  }

  /** Puts a key into the vault, or takes it out with undefined; the log has that as on the box. */
  async setSecret(name: string, value: string | undefined): Promise<void> {
    if (value === undefined) this.#secrets.delete(name);
    else this.#secrets.set(name, value);
    this.#log.note(value === undefined ? 'vault key removed' : 'vault key set', { name, by: 'box screen' });
    await this.settle();
  }

  /** Pauses all agents, or lets them go on. */
  async pause(paused: boolean): Promise<void> {
    if (this.#tasks.paused === paused) return;
    this.#tasks.paused = paused;
    this.#log.note('pause', { paused, by: 'box screen' });
    if (!paused) for (const t of this.#tasks.tasks.values()) this.#tasks.begin(t);
    await this.settle();
  }

  // What the world does with it.

  /**
   * Calls a tool as a task's worker does. Without `task`, a running task is there that has all of the app's tools and a new box's budget; without `key`, the
   * call is one of its own.
   */
  async call(tool: string, input: unknown = {}, as: { task?: string; key?: string } = {}): Promise<CallAnswer> {
    const answer = await this.#tasks.call(as.task ?? this.task(), tool, input, as.key ?? `call.${++this.#keys}`);
    await this.settle();
    return answer;
  }

  /** The id of the task that call() calls for when it is given none. */
  task(): string {
    const open = this.#usual === undefined ? undefined : this.#tasks.tasks.get(this.#usual);
    if (open && (open.state === 'running' || open.state === 'waiting')) return open.id;
    const tools = (this.#track.tools ?? []).map((t) => t.name);
    return (this.#usual = this.#tasks.create({ title: 'A test', prompt: 'step a test', worker: 'fake', tools }, undefined, 'api').id);
  }

  /** Starts a task as the owner does, and gives its id. */
  async newTask(spec: TaskSpec): Promise<string> {
    const { id } = this.#tasks.create(spec, undefined, 'api');
    await this.settle();
    return id;
  }

  /** Ends a task well, with what it changed. */
  async finish(task: string, end: { summary?: string; files?: Changed } = {}): Promise<void> {
    this.#tasks.end(task, 'done', end);
    await this.settle();
  }

  /** Ends a task badly. */
  async fail(task: string, error: string): Promise<void> {
    this.#tasks.end(task, 'failed', { error });
    await this.settle();
  }

  /** The first question that waits for an answer, once there is one. */
  async question(): Promise<Approval> {
    for (;;) {
      const open = this.approvals.find((a) => a.state === 'pending');
      if (open) return open;
      await new Promise<void>((done) => this.#asked.push(done));
    }
  }

  /** Answers a question as the owner does: that of an id, or the first that waits. */
  async answer(approved: boolean, as: { id?: string; by?: string; reason?: string } = {}): Promise<Approval> {
    const id = as.id ?? (await this.question()).id;
    const answer = this.#tasks.answer(id, approved, as.by ?? 'box screen', as.reason);
    await this.settle();
    return answer;
  }

  /** Sends a request to a route, such as `GET /spend?month=3`. */
  async fetch(request: string, as: TestRequest = {}): Promise<Response> {
    const [, method = '', path = ''] = /^([A-Z]+) (\/.*)$/.exec(request) ?? [];
    if (method === '') throw new Error(`testBox: "${request}" is no request such as GET /spend?month=3`);
    const url = new URL(`http://box.local/t/${this.#track.name}${path}`);
    const name = this.#track.name;
    const at = url.pathname.slice(`/t/${name}`.length);
    const caller = as.caller ?? 'screen';
    const routes = this.isOn ? (this.#track.routes ?? {}) : {};
    const key = [`${method} ${at}`, ...(method === 'HEAD' ? [`GET ${at}`] : [])].find((k) => Object.hasOwn(routes, k)) ?? '';
    const route = key === '' ? undefined : routes[key];
    const json = (status: number, error: string) => Response.json({ error }, { status });
    if (caller === 'none') {
      if (!route || !this.#track.openRoutes?.includes(key)) return json(401, noToken);
      if (this.#off.has('strangers')) return json(401, refusal(this.title, 'strangers'));
    }
    if (!this.isOn) return json(404, `the app ${name} is off: turn it on in App Center`);
    if (!route) {
      const allow = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((m) => Object.hasOwn(routes, `${m} ${at}`));
      if (allow.length === 0) return json(404, `the app ${name} has nothing at ${shown(at)}`);
      return json(405, `the app ${name} takes ${[...allow, ...(allow.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')} at ${shown(at)}`);
    }
    const raw = as.body === undefined || typeof as.body === 'string' || as.body instanceof Uint8Array;
    const body = raw ? (as.body as string | Uint8Array | undefined) : JSON.stringify(as.body);
    const most = caller === 'none' ? 1 << 20 : 10 << 20;
    if (body !== undefined && Buffer.byteLength(body) > most) return json(413, `the body is larger than ${most >> 20} MB`);
    const headers = new Headers(as.headers);
    headers.set('x-box-caller', caller);
    headers.delete('authorization');
    if (!raw && !headers.has('content-type')) headers.set('content-type', 'application/json');
    try {
      const answer = await route(new Request(url, { method, headers, ...(body === undefined ? {} : { body: body as string }) }), this.box);
      if (!(answer instanceof Response)) throw new Error(`the route returned ${answer === null ? 'null' : typeof answer}, and a Response is needed`);
      answer.headers.delete('set-cookie');
      return method === 'HEAD' ? new Response(null, answer) : answer;
    } catch (err) {
      return json(500, said(err));
    } finally {
      await this.settle();
    }
  }

  /** Calls a webhook; gives what is sent back. */
  async hook(name: string, body: Json = {}, headers: HookHeaders = {}): Promise<any> {
    const handler = this.#hooks.get(name);
    if (!this.isOn || !handler) throw new Error(this.isOn ? `${this.#track.name} has no webhook ${name}` : `there is no app ${this.#track.name} that is on`);
    const lower = Object.fromEntries(Object.entries(headers).map(([n, v]) => [n.toLowerCase(), v]));
    const answer = (await handler(structuredClone(body), lower)) ?? {};
    await this.settle();
    return JSON.parse(JSON.stringify(answer));
  }

  /** Runs a model job as any app does. */
  async job(name: string, input: unknown = null, task?: string): Promise<any> {
    const out = await this.#job(name, input, task);
    await this.settle();
    return out;
  }

  /** What the app has to say to a new task. */
  async context(spec: TaskSpec): Promise<string | undefined> {
    return (await this.#track.taskContext?.(structuredClone(spec), this.box)) ?? undefined;
  }

  /** Waits until readers, workers and listeners have done what there is to do. advance() and all others that return a promise do it by themselves. */
  async settle(): Promise<void> {
    for (let idle = 0; idle < 2; ) {
      await new Promise((next) => setImmediate(next));
      const busy = this.#readers.flatMap((r) => r.busy ?? []);
      idle = busy.length === 0 ? idle + 1 : 0;
      await Promise.all(busy);
    }
  }

  // How it works.

  #tool(name: string): Tool | undefined {
    const mine = this.isOn ? this.#track.tools?.find((t) => t.name === name) : undefined;
    if (mine || !this.#opt.otherTools?.includes(name)) return mine;
    return { name, description: '', run: async () => Promise.reject(new Error(`testBox: ${name} belongs to another app`)) };
  }

  #work(task: Task): void {
    const worker = this.#opt.worker;
    if (!worker || task.title === 'A test' || task.prompt === '') return;
    const files: Changed = {};
    let calls = 0;
    const hand: Hand = {
      call: (tool, input = {}, key = `w${++calls}`) => this.#tasks.call(task.id, tool, input, key),
      ask: async (question, key = `w${++calls}`) => (await this.#tasks.ask({ id: `${task.id}.task.${key}`, task: task.id, question, costCents: 0 })).state === 'approved',
      step: (text, data) => this.#tasks.step(task.id, text, data),
      write: (path, text) => void (files[path] = text),
    };
    const run = (async () => {
      await Promise.resolve();
      try {
        const summary = await worker(task, hand);
        this.#tasks.end(task.id, 'done', { files, summary: summary ?? undefined });
      } catch (err) {
        const now = this.#tasks.tasks.get(task.id);
        if (now?.state === 'running' || now?.state === 'waiting') this.#tasks.end(task.id, 'failed', { error: said(err) });
      }
    })();
    this.#working.add(run);
    void run.finally(() => this.#working.delete(run));
  }

  #question(question: Approval): void {
    for (const heard of this.#asked.splice(0)) heard();
    const says = this.#opt.owner?.(question);
    if (says !== undefined) queueMicrotask(() => this.#tasks.answer(question.id, says, 'box screen'));
  }

  /** Feeds each reader the lines that it has not had. */
  #pump(): void {
    if (!this.isOn) return;
    for (const r of this.#readers) if (!r.busy && r.retry === undefined && r.done < this.#log.events.length) r.busy = this.#feed(r);
  }

  async #feed(r: Reading): Promise<void> {
    await Promise.resolve();
    try {
      for (let lines = 0; this.isOn && r.done < this.#log.events.length; lines++) {
        if (lines > 10_000) throw new Error(`reader ${r.name} writes a line for each line that it reads, without end`);
        await r.read(structuredClone(this.#log.events[r.done]!), this.box);
        r.done++;
      }
    } catch (err) {
      this.faults.push(`reader ${r.name}: ${said(err)}`);
      r.retry = this.#even + 5000;
    } finally {
      r.busy = undefined;
    }
  }

  async #job(name: string, input: unknown, task?: string): Promise<unknown> {
    const given = input === undefined ? null : (JSON.parse(JSON.stringify(input)) as unknown);
    if (task !== undefined) this.#tasks.get(task);
    const job = this.#track.modelJobs?.find((j) => j.name === name);
    let out: unknown;
    if (job) {
      const key = `job.${randomUUID().replaceAll('-', '').slice(0, 16)}`;
      const ctx = this.#ctx({
        key, who: `the model job ${name}`, secrets: job.secrets ?? [],
        ...(task === undefined ? {} : { task: structuredClone(this.#tasks.get(task)) }),
        cost: (cents, what) => this.#tasks.cost(cents, what, task, task !== undefined),
        log: (text, data) => task !== undefined && this.#tasks.step(task, text, data),
        ask: async (question, opts) => task !== undefined && (await this.#tasks.asks(task, `${task}.tool.${key}.ask.`, 16, question, opts?.purpose)),
      });
      out = await job.run(given, ctx);
    } else if (this.#opt.jobs && Object.hasOwn(this.#opt.jobs, name)) out = await this.#opt.jobs[name]!(given, task);
    else throw new Error(`no app that is on has a model job named ${name}`);
    return out === undefined ? null : hideIn(JSON.parse(JSON.stringify(out)), hider(this.#secrets));
  }

  #ctx(call: Begun): Ctx {
    const { secrets, who, cost, log, ask, ...rest } = call;
    return Object.freeze<Ctx>({
      ...rest,
      box: this.box,
      signal: this.#end.signal,
      secret: (name) => this.#secret(name, secrets, who),
      cost: (cents, what) => {
        if (typeof cents !== 'number' || !Number.isFinite(cents) || cents < 0) throw new Error('cents: a cost of 0 or more');
        if (typeof what !== 'string' || what.trim() === '' || [...what].length > 4000) throw new Error('what: what the cost is for is needed, in at most 4000 characters');
        cost(cents, what);
      },
      log: (text, data) => {
        if (text.trim() === '' || [...text].length > 4000 || Buffer.byteLength(JSON.stringify(data ?? null)) > 64 << 10) throw new Error('a step has a text of at most 4000 characters and data of at most 64 KB');
        log(text, data);
      },
      ask: async (question, opts) => {
        if (question.trim() === '' || [...question, ...(opts?.purpose ?? '')].length > 4000) throw new Error('a question is needed, with its purpose of at most 4000 characters');
        return await ask(question, opts);
      },
    });
  }

  #secret(name: string, listed: readonly string[], who = this.#track.name): string {
    if (!listed.includes(name)) throw new Error(`${who} may not read ${name}: it is not among the keys that it lists in secrets`);
    if (this.#off.has(`key:${name}`)) {
      this.#log.note('permission refused', { app: this.#track.name, item: `key:${name}` });
      throw new Error(refusal(this.title, `key:${name}`));
    }
    const value = this.#secrets.get(name);
    if (value === undefined) throw new Error(`${name} is not set. The owner can set it in Settings, Accounts & Keys`);
    return value;
  }

  #makeBox(hide: (text: string) => string): Box {
    const name = this.#track.name;
    const later = (edition: string, what: string) => new Error(`${what} belongs to GurtOS ${edition}, which is not this box`);
    return Object.freeze<Box>({
      createTask: async (spec) => {
        const t = this.#tasks.create(spec, name);
        await Promise.resolve();
        return t;
      },
      workspace: async (workspace, fromDir) => {
        if (this.#files.has(workspace)) return;
        this.#files.make(workspace, fromDir === undefined ? {} : this.#own(fromDir));
      },
      linkWorkspace: async () => {
        throw later('Personal', 'box.linkWorkspace()');
      },
      task: (id) => structuredClone(this.#tasks.tasks.get(id)),
      tasks: () => this.tasks.reverse(),
      undo: async (id) => this.#tasks.end(id, 'undone'),
      approvals: () => this.approvals,
      answer: async (id, approved, by) => {
        if (typeof approved !== 'boolean') throw new Error('approved: true or false is needed');
        if (by !== name && !by.startsWith(`${name}:`)) throw new Error(`by: an app answers as itself: ${name}, or that with a colon and more behind it, such as ${name}:name`);
        if ([...by].length > 100) throw new Error('by: at most 100 characters that can be printed');
        return this.#tasks.answer(id, approved, by);
      },
      on: (listener) => {
        const hear = (event: LogEvent) =>
          queueMicrotask(() => {
            try {
              listener(structuredClone(event));
            } catch (err) {
              this.faults.push(`listener: ${said(err)}`);
            }
          });
        this.#log.listeners.add(hear);
        return () => void this.#log.listeners.delete(hear);
      },
      job: (job, input, task) => this.#job(job, input, task),
      note: (data, task) => {
        if (task !== undefined) this.#tasks.get(task);
        const size = Buffer.byteLength(JSON.stringify(data ?? null));
        if (size > 64 << 10) throw new Error(`a note has at most 64 KB, this has ${size >> 10}`);
        this.#log.write({ type: 'note', task, track: name, data: hideIn(JSON.parse(JSON.stringify(data ?? null)), hide) });
      },
      onWebhook: (hook, handler) => {
        if (typeof handler !== 'function') throw new Error('box.onWebhook() needs a function');
        if (!/^[A-Za-z0-9_-]{1,60}$/.test(hook)) throw new Error(`webhook ${JSON.stringify(hook)}: a name of 1 to 60 letters, digits, _ and - is needed`);
        if (this.#hooks.has(hook)) throw new Error(`webhook ${hook} is there already: end that one first`);
        this.#hooks.set(hook, handler);
        return () => {
          if (this.#hooks.get(hook) === handler) this.#hooks.delete(hook);
        };
      },
      secret: (key) => this.#secret(key, this.#track.secrets ?? []),
      policy: () => {
        throw later('Business', 'box.policy()');
      },
      setPolicy: async () => {
        throw later('Business', 'box.setPolicy()');
      },
      watch: (watch: Watch, fire) => this.#watches.add(watch, fire),
    });
  }

  /** The files of a folder of the app's own. */
  #own(dir: string): Record<string, string> {
    const own = this.#opt.folder;
    const path = dir.startsWith('file:') ? decodeURIComponent(new URL(dir).pathname) : dir;
    if (own === undefined) throw new Error('testBox: give it the folder of the app (folder: import.meta.dirname), from which box.workspace() copies');
    if (`${path}/`.startsWith(`${own}/`) && !path.split('/').includes('..')) return folder(path);
    throw new Error(`fromDir: ${path} is not in ${this.#track.name}'s own folder or store`);
  }
}
