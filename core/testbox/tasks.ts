// Tasks, their questions, and the calls of their tools, as the box's broker takes them.

import { createHash } from 'node:crypto';
import type { Approval, Ctx, Json, Task, TaskState, Tool } from '../contract.ts';
import type { Workspaces, Changed } from './files.ts';
import type { Line, Log } from './log.ts';
import { dollars, plus } from './money.ts';
import { misfit, same } from './schema.ts';
import { hideIn } from './secrets.ts';
import { shown, type SpecSettings, whole } from './spec.ts';

/** What a call gave, as a worker gets it. */
export interface CallAnswer {
  /** Whether the tool gave a result. */
  ok: boolean;
  /** What it gave. */
  output?: any;
  /** Why it gave none. */
  error?: string;
  /** What the one who said no had to say. */
  reason?: string;
}

/** The box's settings that money and tasks go by. */
export interface TestSettings extends SpecSettings {
  approvalThresholdCents: number;
}

/** What tasks need of the rest of a test box. */
export interface Around {
  app: string;
  title(): string;
  tool(name: string): Tool | undefined;
  settings: TestSettings;
  droid: boolean;
  allowed(item: string): boolean;
  dailyLimit(): number | undefined;
  today(): string;
  hide(text: string): string;
  ctx(call: Begun): Ctx;
  /** Told when a task begins to run. */
  begun(task: Task): void;
  /** Told of a new question. */
  asked(approval: Approval): void;
  /** Told when the files of a workspace may have become different. */
  touched(workspace: string): void;
}

/** A call that begins: what its Ctx is made of. */
export type Begun = Pick<Ctx, 'key' | 'task' | 'cost' | 'log' | 'ask'> & { secrets: readonly string[]; who: string };

interface Flight {
  key: string;
  tool: string;
  input: Json;
  result: Promise<CallAnswer>;
}

const live = new Set<TaskState>(['queued', 'running', 'waiting']);

const can: Record<TaskState, TaskState[]> = {
  queued: ['running', 'failed', 'undone'], running: ['waiting', 'done', 'failed', 'undone'], waiting: ['running', 'done', 'failed', 'undone'], done: ['undone'], failed: ['undone'], undone: [],
};

export class Tasks {
  readonly tasks = new Map<string, Task>();
  readonly approvals = new Map<string, Approval>();
  paused = false;
  #around: Around;
  #log: Log;
  #files: Workspaces;
  #answered = new Map<string, (() => void)[]>();
  #known = new Map<string, { tool: string; input: Json; answer: CallAnswer }>(); // by task and key
  #flights = new Map<string, Flight[]>(); // by task
  #reserved = new Map<string, number>(); // by task, and for the app under ''
  #spent = { day: '', cents: 0 };

  constructor(around: Around, log: Log, files: Workspaces) {
    this.#around = around;
    this.#log = log;
    this.#files = files;
  }

  create(given: unknown, app: string | undefined, source?: string): Task {
    const a = this.#around;
    const spec = whole(given, { settings: a.settings, workspace: (name) => this.#files.has(name), tool: (name) => a.tool(name) !== undefined, droid: a.droid, app: app ?? source ?? 'api' });
    if (app !== undefined) {
      for (const item of [...(spec.worker === 'droid' ? ['shell'] : []), ...spec.hosts.map((h) => `host:${h}`)]) {
        if (!a.allowed(item)) this.refuse(item);
      }
    }
    const id = `t${String(this.tasks.size + 1).padStart(12, '0')}`;
    const line = this.#log.write({ type: 'task.created', task: id, spec, user: `box-${id}`, app });
    const task: Task = { ...spec, id, state: 'queued', user: `box-${id}`, layers: [], costCents: 0, createdAt: line.at, updatedAt: line.at, ...(app === undefined ? {} : { app }) };
    this.tasks.set(id, task);
    const made = structuredClone(task);
    this.begin(task);
    return made;
  }

  /** Throws what the box says where the owner turned something off, and notes it. */
  refuse(item: string, task?: string): never {
    this.#log.note('permission refused', { app: this.#around.app, item }, task);
    throw new Error(refusal(this.#around.title(), item));
  }

  begin(task: Task): void {
    if (this.paused || task.state !== 'queued') return;
    task.layers = this.#files.layers(task.workspace);
    this.#state(task, 'running', { layers: task.layers });
    this.#around.begun(structuredClone(task));
  }

  get(id: string): Task {
    const t = this.tasks.get(id);
    if (!t) throw new Error(`there is no task ${shown(id)}`);
    return t;
  }

  #state(task: Task, to: TaskState, more: Record<string, unknown> = {}): void {
    if (!can[task.state].includes(to)) throw new Error(task.state === to ? `${task.id} is ${to} already` : `${task.id} is ${task.state} and can't become ${to}`);
    task.state = to;
    this.#line({ type: 'task.state', task: task.id, state: to, ...more });
  }

  #line(line: Line & { task: string }): void {
    const at = this.#log.write(line).at;
    const task = this.tasks.get(line.task);
    if (task) task.updatedAt = at;
  }

  /** Ends a task: its open questions fall away, its changes are seen when it is done. */
  end(id: string, to: 'done' | 'failed' | 'undone', more: { error?: string | undefined; summary?: string | undefined; files?: Changed | undefined } = {}): void {
    const t = this.get(id);
    if (!can[t.state].includes(to)) throw new Error(t.state === to ? `${id} is ${to} already` : `${id} is ${t.state} and can't become ${to}`);
    for (const a of this.approvals.values()) if (a.task === id && a.state === 'pending') this.#settle(a, false, to === 'undone' ? 'undo' : 'task ended');
    if (to === 'done' && t.state === 'queued') this.#state(t, 'running', { layers: t.layers });
    if (to === 'undone') this.#files.lift(id);
    if (to === 'done') this.#files.lay(t.workspace, id, more.files ?? {});
    this.#state(t, to, { error: more.error, summary: more.summary });
    if (more.error !== undefined) t.error = more.error;
    if (more.summary !== undefined) t.summary = more.summary;
    this.#around.touched(t.workspace);
  }

  step(id: string, text: string, data?: Json): void {
    const t = this.#going(id);
    this.#line({ type: 'task.step', task: id, text: this.#around.hide(text), data: hideIn(data, this.#around.hide) });
    t.step = [...this.#around.hide(text)].slice(0, 200).join('');
  }

  cost(cents: number, what: string, task?: string, byTool = false): void {
    if (typeof cents !== 'number' || !Number.isFinite(cents) || cents < 0) throw new Error('cents: a cost of 0 or more');
    this.#line({ type: 'cost', task, cents, what: this.#around.hide(what), spender: byTool ? this.#around.app : undefined } as Line & { task: string });
    if (task === undefined) return;
    const t = this.get(task);
    t.costCents = plus(t.costCents, cents);
    if (byTool) this.#spend(cents);
  }

  #spend(cents: number): void {
    this.#spent = { day: this.#around.today(), cents: plus(this.#today(), cents) };
  }

  #today(): number {
    return this.#spent.day === this.#around.today() ? this.#spent.cents : 0;
  }

  #going(id: string): Task {
    const t = this.get(id);
    if (!live.has(t.state)) throw new Error(`${id} is ${t.state}: it can do nothing more`);
    return t;
  }

  /** Enters a question, unless its id was asked before, and waits for its answer. */
  async ask(a: Omit<Approval, 'state'>): Promise<Approval> {
    if (!this.approvals.has(a.id)) {
      const t = this.#going(a.task);
      const asked: Approval = { ...a, state: 'pending' };
      this.approvals.set(a.id, asked);
      this.#line({ type: 'approval.asked', task: a.task, approval: structuredClone(asked) });
      if (t.state === 'running') this.#state(t, 'waiting');
      this.#around.asked(structuredClone(asked));
    }
    const now = this.approvals.get(a.id)!;
    if (now.state === 'pending') await new Promise<void>((done) => this.#answered.set(a.id, [...(this.#answered.get(a.id) ?? []), done]));
    return structuredClone(now);
  }

  /** Asks for a call, and gives a yes or no; a task that ended says no. */
  async asks(task: string, prefix: string, digits: number, question: string, purpose: string | undefined): Promise<boolean> {
    const { hide } = this.#around;
    const hash = createHash('sha256').update(hide(question)).digest('hex').slice(0, digits);
    try {
      return (await this.ask({ id: prefix + hash, task, question: hide(question), costCents: 0, ...(purpose === undefined ? {} : { purpose: hide(purpose) }) })).state === 'approved';
    } catch (err) {
      if (!live.has(this.get(task).state)) return false;
      throw err;
    }
  }

  /** Answers a question; the first answer holds. */
  answer(id: string, approved: boolean, by: string, reason?: string): Approval {
    const a = this.approvals.get(id);
    if (!a) throw new Error(`there is no approval ${shown(id)}`);
    if (reason !== undefined && [...reason].length > 1000) throw new Error(`reason: at most 1000 characters, this has ${[...reason].length}`);
    if (a.state === 'pending') {
      this.#settle(a, approved, by, reason);
      const t = this.get(a.task);
      if (t.state === 'waiting' && ![...this.approvals.values()].some((o) => o.task === t.id && o.state === 'pending')) this.#state(t, 'running');
    }
    return structuredClone(a);
  }

  #settle(a: Approval, approved: boolean, by: string, reason?: string): void {
    Object.assign(a, { state: approved ? 'approved' : 'denied', by, ...(reason ? { reason } : {}) });
    this.#line({ type: 'approval.answered', task: a.task, id: a.id, approved, by, reason: reason || undefined });
    for (const done of this.#answered.get(a.id) ?? []) done();
    this.#answered.delete(a.id);
  }

  /** Calls a tool for a task, as its worker would. */
  async call(id: string, name: string, given: unknown, key: string): Promise<CallAnswer> {
    if (key === '') throw new Error('a key is required');
    if (/^model\.[0-9]+$/.test(key)) throw new Error(`key: ${key} names one of the box's own questions`);
    const input = JSON.parse(JSON.stringify(given === undefined ? {} : given)) as Json;
    const t = this.#going(id);
    if (!t.tools.includes(name)) return { ok: false, error: `this task may not use ${shown(name)}` };
    const known = this.#known.get(`${id} ${key}`);
    const flying = this.#flights.get(id)?.find((f) => f.key === key);
    const before = known ?? flying;
    if (before && !(before.tool === name && same(before.input, input))) throw new Error(`key: ${shown(key)} was used for another tool or input before; one key stands for one call for ever`);
    if (known) return structuredClone(known.answer);
    const shared = flying ?? this.#flights.get(id)?.find((f) => f.tool === name && same(f.input, input));
    if (shared) {
      if (shared !== flying) this.#log.note('call merged', { key, with: shared.key }, id);
      return structuredClone(await shared.result);
    }
    const flight: Flight = { key, tool: name, input, result: this.#fly(t, name, input, key) };
    this.#flights.set(id, [...(this.#flights.get(id) ?? []), flight]);
    try {
      return structuredClone(await flight.result);
    } finally {
      this.#flights.set(id, (this.#flights.get(id) ?? []).filter((f) => f !== flight));
    }
  }

  async #fly(t: Task, name: string, input: Json, key: string): Promise<CallAnswer> {
    const a = this.#around;
    await Promise.resolve(); // the flight is known before its tool is
    const tool = a.tool(name);
    if (!tool) return { ok: false, error: `${name} is not there: its app is off` };
    const wrong = misfit(tool.input, input);
    if (wrong !== undefined) return { ok: false, error: wrong };
    const spends = typeof tool.cost === 'function';
    let cost = 0;
    let card: { payee?: string; purpose?: string } = {};
    try {
      if (spends) cost = price(tool.cost!(structuredClone(input)));
    } catch (err) {
      return { ok: false, error: a.hide(`${name} could not say what this call costs: ${said(err)}`) };
    }
    try {
      if (typeof tool.approval === 'function') card = tool.approval(structuredClone(input)) ?? {};
    } catch (err) {
      return { ok: false, error: a.hide(`${name} could not say who is paid: ${said(err)}`) };
    }
    const no = await this.#judge(t, name, input, key, spends, cost, card);
    if (no) return no;
    this.#line({ type: 'tool.call', task: t.id, key, tool: name, input, reserved: cost > 0 ? cost : undefined });
    this.#reserve(t.id, cost);
    const r = await this.#run(t, tool, input, key, spends, cost);
    this.#reserve(t.id, -cost);
    this.#line({ type: 'tool.result', task: t.id, key, ok: r.answer.ok, output: r.answer.output, error: r.answer.error, cents: r.cents > 0 ? r.cents : undefined });
    if (r.alert !== undefined) this.#log.note('alert', { text: this.#around.hide(r.alert) }, t.id);
    t.costCents = plus(t.costCents, r.cents);
    this.#spend(r.cents);
    this.#known.set(`${t.id} ${key}`, { tool: name, input, answer: r.answer });
    return r.answer;
  }

  #reserve(task: string, cents: number): void {
    for (const whose of [task, '']) this.#reserved.set(whose, plus(this.#reserved.get(whose) ?? 0, cents));
  }

  /** Undefined once the call may run, else what it gets instead. */
  async #judge(t: Task, name: string, input: Json, key: string, spends: boolean, cost: number, card: { payee?: string; purpose?: string }): Promise<CallAnswer | undefined> {
    const a = this.#around;
    if (spends && !a.allowed('money')) {
      this.#log.note('permission refused', { app: a.app, item: 'money', tool: name }, t.id);
      return { ok: false, error: refusal(a.title(), 'money') };
    }
    const why = this.#overspends(t, cost);
    if (why === '') return undefined;
    const answer = await this.ask({
      id: `${t.id}.budget.${key}`, task: t.id, question: `Spend ${dollars(cost)} with ${name}? ${why}`, costCents: cost,
      ...(card.payee === undefined ? {} : { payee: a.hide(card.payee) }), ...(card.purpose === undefined ? {} : { purpose: a.hide(card.purpose) }), key, tool: name, input,
    });
    if (answer.state !== 'approved') return { ok: false, error: 'not approved', ...(answer.reason === undefined ? {} : { reason: answer.reason }) };
    if (spends && !a.allowed('money')) return await this.#judge(t, name, input, key, spends, cost, card);
    return undefined;
  }

  #overspends(t: Task, cost: number): string {
    if (cost === 0) return '';
    const a = this.#around;
    const spent = plus(t.costCents, this.#reserved.get(t.id) ?? 0);
    if (plus(spent, cost) > t.budgetCents) return `The task has spent ${dollars(spent)} of its budget of ${dollars(t.budgetCents)}.`;
    if (cost > a.settings.approvalThresholdCents) return `One spend above ${dollars(a.settings.approvalThresholdCents)} needs an OK.`;
    const limit = a.dailyLimit();
    const today = plus(this.#today(), this.#reserved.get('') ?? 0);
    if (limit !== undefined && plus(today, cost) > limit) return `${a.title()} has spent ${dollars(today)} today of its daily limit of ${dollars(limit)}.`;
    return '';
  }

  async #run(t: Task, tool: Tool, input: Json, key: string, spends: boolean, cost: number): Promise<{ answer: CallAnswer; cents: number; alert?: string }> {
    const a = this.#around;
    const ctx = a.ctx({
      key: `${t.id}.${key}`, who: tool.name, task: structuredClone(t), secrets: tool.secrets ?? [],
      cost: (cents, what) => this.cost(cents, what, t.id, true),
      log: (text, data) => this.step(t.id, text, data),
      ask: (question, opts) => this.asks(t.id, `${t.id}.tool.${key}.ask.`, 12, question, opts?.purpose),
    });
    let given: unknown;
    try {
      given = await tool.run(structuredClone(input), ctx);
    } catch (err) {
      return { answer: failed(a.hide(said(err))), cents: 0 };
    }
    const look = `Look it up by ${t.id}.${key}.`;
    let output: any;
    try {
      output = given === undefined ? null : JSON.parse(JSON.stringify(given));
    } catch (err) {
      const answer = failed(a.hide(said(err)));
      if (cost === 0) return { answer, cents: 0 };
      return { answer, cents: cost, alert: `A call of ${tool.name} for up to ${dollars(cost)} did its work, and what it gave back can't be taken. All of it counts as spent: l${look.slice(1)}` };
    }
    const answer: CallAnswer = { ok: true, output: hideIn(output, a.hide) };
    const spent = spends && output !== null && typeof output === 'object' ? output.spentCents : undefined;
    if (spent === undefined) return { answer, cents: cost };
    if (typeof spent === 'number' && spent >= 0 && spent <= cost) return { answer, cents: spent };
    const raw = [...JSON.stringify(spent)];
    const brief = raw.length > 40 ? `${raw.slice(0, 40).join('')}…` : raw.join('');
    return { answer, cents: cost, alert: `A call of ${tool.name} gave back the spentCents ${brief}, and a number from 0 to its cost of ${cost} is needed: the cost counts as spent. ${look}` };
  }
}

/** The answer of a call that failed, as long as the log takes it. */
function failed(why: string): CallAnswer {
  return { ok: false, error: [...why].slice(0, 4000).join('') };
}

function price(cents: unknown): number {
  if (typeof cents !== 'number' || !Number.isFinite(cents)) throw new Error(`its cost gave ${Number.isNaN(cents) ? 'nothing' : String(cents)}, and a number of cents is needed`);
  if (cents < 0) throw new Error('it is below 0');
  return cents;
}

/** What can be said of anything that was thrown. */
export function said(thrown: unknown): string {
  if (thrown instanceof Error) {
    const text = thrown.message || thrown.name;
    return thrown.cause instanceof Error && thrown.cause.message ? `${text}: ${thrown.cause.message}` : text;
  }
  return `it threw ${typeof thrown === 'string' ? JSON.stringify(thrown) : String(thrown)}`;
}

/** The sentence for what the owner turned off. */
export function refusal(title: string, item: string): string {
  const [kind = '', rest = ''] = item.split(/:(.*)/s);
  const what: Record<string, string> = {
    money: 'spend money', strangers: 'answer strangers', shell: 'run agents that can run commands', folders: 'give agents copies of your folders', key: `use ${rest}`, host: `let its agents reach ${rest}`,
  };
  return `${title} isn't allowed to ${what[kind]}. The owner can allow it in Settings, Permissions.`;
}
