// What the box watches for triggers: the clock and files, with the time of a test. It goes by the same rules as the box: a day is called for once, whatever
// the clock does; what was missed by less than 12 hours is made up for once; files are told of once they are at rest.

import type { Awaitable, Fired, Watch } from '../contract.ts';
import { type Daily, type Every, type Files, type Zone, dateText, fits } from './clock.ts';
import { type Workspaces, differ } from './files.ts';
import type { Log, Time } from './log.ts';
import { workspaceName } from './spec.ts';
import { said } from './tasks.ts';

const tooLate = 12 * 3_600_000;
const punctual = 60_000;
const rest = 500;
const restive = 30_000;

interface Watching {
  watch: Watch;
  fire: (fired: Fired) => Awaitable<void>;
  /** Of a day's schedule: what was due before this is none of its business. */
  since: number;
  ran: Set<number>;
  told: Set<number>;
  /** Of a day's schedule: when there is nothing to do before, by the wall clock; undefined when that is not known. */
  quiet: number | undefined;
  /** Of a span: when it last began, by the even clock. */
  base: number;
  /** Of files: what the app was last told of, and since when they differ. */
  was: Map<string, string>;
  touched: { first: number; last: number; at: number } | undefined;
}

export class Watches {
  #all = new Map<string, Watching>();
  #time: Time;
  #zone: Zone;
  #log: Log;
  #files: Workspaces;
  #app: string;

  constructor(app: string, time: Time, zone: Zone, log: Log, files: Workspaces) {
    this.#app = app;
    this.#time = time;
    this.#zone = zone;
    this.#log = log;
    this.#files = files;
  }

  add(given: Watch, fire: (fired: Fired) => Awaitable<void>): () => void {
    const watch = JSON.parse(JSON.stringify(given ?? null)) as Watch;
    check(watch);
    if (this.#all.has(watch.name)) throw new Error(`trigger "${watch.name}": ${this.#app} has another one of this name, and the box remembers each by its name`);
    const none = watch.kind === 'files' && !this.#files.has(watch.workspace);
    this.#log.note('trigger armed', { app: this.#app, trigger: watch.name, watch, ...(none ? { none: true } : {}) });
    const one: Watching = {
      watch, fire, since: this.#time.wall(), ran: new Set(), told: new Set(), quiet: undefined, base: this.#time.even(), touched: undefined,
      was: watch.kind === 'files' ? this.#files.view(watch.workspace) : new Map(),
    };
    this.#all.set(watch.name, one);
    return () => {
      if (this.#all.get(watch.name) === one) this.#all.delete(watch.name);
    };
  }

  /** The files of a workspace may be different now. */
  touch(workspace: string): void {
    const now = { first: this.#time.even(), last: this.#time.even(), at: this.#time.wall() };
    for (const w of this.#all.values()) {
      if (w.watch.kind === 'files' && w.watch.workspace === workspace) w.touched = w.touched ? { ...now, first: w.touched.first } : now;
    }
  }

  /** The clock was set: a day's schedule is as old as the earliest that the clock showed since it began. */
  stepped(): void {
    for (const w of this.#all.values()) {
      w.since = Math.min(w.since, this.#time.wall());
      w.quiet = undefined;
    }
  }

  /** When something may be due next, by the even clock; undefined when nothing ever will. */
  next(): number | undefined {
    const [wall, even] = [this.#time.wall(), this.#time.even()];
    const all = [...this.#all.values()].flatMap((w): number[] => {
      if (w.watch.kind === 'files') return w.touched ? [Math.min(w.touched.last + rest, w.touched.first + restive)] : [];
      if (w.watch.kind === 'every') return [even + this.#zone.steps(w.watch, w.base + wall - even, wall).due - wall];
      w.quiet ??= this.#zone.next(w.watch, wall, (date) => w.ran.has(date));
      return w.quiet === undefined ? [] : [even + w.quiet - wall];
    });
    return all.length === 0 ? undefined : Math.min(...all);
  }

  /** Does all that is due now. */
  async look(): Promise<void> {
    for (const w of [...this.#all.values()]) {
      if (w.watch.kind === 'daily') await this.#day(w, w.watch);
      else if (w.watch.kind === 'every') await this.#span(w, w.watch);
      else await this.#changes(w, w.watch);
    }
  }

  async #day(w: Watching, watch: Daily): Promise<void> {
    const now = this.#time.wall();
    if (w.quiet !== undefined && now < w.quiet) return;
    w.quiet = undefined;
    const last = this.#zone.last(watch, now);
    if (!last || last.due <= w.since || w.ran.has(last.date)) return;
    const { date, due } = last;
    const left: number[] = [];
    const done = [...w.ran, ...w.told].filter((d) => d < date);
    for (let d = Math.max(this.#zone.date(w.since), ...done.map((x) => x + 1)); d < date; d++) {
      const at = this.#zone.due(watch, d);
      if (at !== undefined && at > w.since) left.push(d);
    }
    const note = { due: iso(due), date: dateText(date), ...(left.length > 0 ? { left: left.length, from: dateText(left[0]!) } : {}) };
    if (now - due < tooLate) {
      w.ran.add(date);
      for (const d of left) w.told.add(d);
      await this.#run(w, note, due, now - due);
    } else if (!w.told.has(date)) {
      for (const d of [...left, date]) w.told.add(d);
      this.#log.note('schedule missed', { app: this.#app, trigger: watch.name, ...note });
    }
  }

  async #span(w: Watching, watch: Every): Promise<void> {
    const [wall, even] = [this.#time.wall(), this.#time.even()];
    const { n, due } = this.#zone.steps(watch, w.base + wall - even, wall);
    if (n === 0) return;
    const note = { due: iso(due), ...(n > 1 ? { left: n - 1 } : {}) };
    if (wall - due >= tooLate) {
      w.base = even - (wall - due);
      if (remembered(watch)) this.#log.note('schedule missed', { app: this.#app, trigger: watch.name, ...note });
      return;
    }
    w.base = even;
    await this.#run(w, note, due, wall - due);
  }

  async #run(w: Watching, note: Record<string, unknown>, due: number, late: number): Promise<void> {
    const isLate = late >= punctual;
    // A span of less than a minute is not remembered: the log would hold little else.
    if (remembered(w.watch)) this.#log.note('schedule ran', { app: this.#app, trigger: w.watch.name, ...note, ...(isLate ? { late: true } : {}) });
    await this.#hand(w, { at: iso(due), late: isLate, changes: [] });
  }

  async #changes(w: Watching, watch: Files): Promise<void> {
    const t = w.touched;
    if (!t || Math.min(t.last + rest, t.first + restive) > this.#time.even()) return;
    w.touched = undefined;
    const is = this.#files.view(watch.workspace);
    const globs = watch.paths ?? [];
    const changes = differ(w.was, is).filter((c) => globs.length === 0 || globs.some((g) => fits(g, c.path)));
    w.was = is;
    if (changes.length === 0) return;
    await this.#hand(w, { at: iso(t.at), late: false, changes });
    this.#log.note('files seen', { app: this.#app, trigger: watch.name, changes: changes.length });
  }

  async #hand(w: Watching, fired: Fired): Promise<void> {
    try {
      await w.fire(fired);
    } catch (err) {
      this.#log.note('trigger failed', { app: this.#app, trigger: w.watch.name, due: fired.at, error: [...said(err)].slice(0, 1000).join('') });
    }
  }
}

const remembered = (w: Watch) => w.kind !== 'every' || w.ms >= 60_000;

const iso = (at: number) => new Date(at).toISOString();

const days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];

const needs: [name: string, what: string, fits: (v: unknown) => boolean][] = [
  ...['name', 'kind', 'at'].map((name): (typeof needs)[number] => [name, 'a text', isText]),
  ['ms', 'a whole number', (v) => Number.isSafeInteger(v)],
  ['workspace', 'a text', isText],
  ...['weekdays', 'paths'].map((name): (typeof needs)[number] => [name, 'a list of texts', (v) => Array.isArray(v) && v.every(isText)]),
];

const fields: Record<string, string[]> = { daily: ['at', 'weekdays'], every: ['ms', 'weekdays'], files: ['workspace', 'paths'] };

function isText(v: unknown): boolean {
  return typeof v === 'string';
}

/** Throws the box's sentence for a watch that can't be. */
function check(given: unknown): void {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) throw new Error("a watch is an object with a kind and a name, such as {kind: 'daily', name: 'morning', at: '08:00'}");
  const w = { name: '', kind: '', at: '', ms: 0, workspace: '', ...given } as { name: string; kind: string; at: string; ms: number; workspace: string; weekdays?: string[]; paths?: string[] };
  const wrong = (why: string): never => {
    throw new Error(`trigger "${isText(w.name) ? w.name : ''}": ${why}`);
  };
  for (const [name, what, fits] of needs) if (Object.hasOwn(given, name) && !fits((given as Record<string, unknown>)[name])) wrong(`${name}: ${what} is needed`);
  if (Object.hasOwn(fields, w.kind)) {
    const of = ['kind', 'name', ...(fields[w.kind] ?? [])];
    for (const name of Object.keys(given).sort()) if (!of.includes(name)) wrong(`there is no ${name} in a watch of kind ${w.kind}; there are ${of.join(', ')}`);
  }
  if (w.weekdays?.length === 0) wrong('weekdays names no day, so it would never run');
  if (w.paths?.length === 0) wrong('paths names no path, so it would never run');
  if (w.name === '' || [...w.name].length > 100 || /\p{Cc}/u.test(w.name)) wrong('a name of 1 to 100 characters is needed');
  w.weekdays?.forEach((d, i, all) => {
    if (!days.includes(d)) wrong(`"${d}" is no weekday; they are ${days.join(', ')}`);
    if (all.indexOf(d) < i) wrong(`${d} is there twice`);
  });
  switch (w.kind) {
    case 'daily':
      if (!/^([01]\d|2[0-3]):[0-5]\d$/.test(w.at)) wrong(`at is "${w.at}", and a time from 00:00 to 23:59 such as 08:00 is needed`);
      break;
    case 'every':
      if (w.ms < 1000 || w.ms > 31 * 86_400_000) wrong(`a span of ${w.ms} ms is none that can be: whole milliseconds from 1000 to 2678400000 are`);
      break;
    case 'files':
      try {
        workspaceName(w.workspace);
      } catch (err) {
        wrong(said(err));
      }
      for (const path of w.paths ?? []) {
        if (path === '') wrong('an empty path is no path inside a workspace');
        if (path.startsWith('/')) wrong(`"${path}" begins with /, and paths begin at the workspace`);
        if (path.split('/').some((part) => part === '' || part === '.' || part === '..')) wrong(`"${path}" is no path inside a workspace: between two slashes there is a name, and not . or ..`);
      }
      break;
    default:
      wrong(`the box watches daily, every and files, and not "${w.kind}"`);
  }
}
