// Ready-made triggers. Each one is a Trigger like those that an app writes itself and uses only its Box: a webhook is served by box.onWebhook, and for
// clock and files the box does the watching (box.watch), so that an app needs no timer of its own, misses nothing while it is down, and can be tested
// with a clock that is not real.

import type { Awaitable, Box, Change, HookHeaders, Json, TaskSpec, Trigger, Weekday } from './contract.ts';

/** The task to start, or nothing when there is none to start this time. */
export type Order = TaskSpec | undefined | null | void;

const days: readonly Weekday[] = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];

/** When a schedule runs: at a time of the day, or again and again. */
export type When =
  | {
      /** HH:MM on the clock of the box's time zone, 00:00 to 23:59; once a day. A time that a day leaves out is taken at the first one after it. */
      dailyAt: string;
      every?: never;
    }
  | {
      /** A whole number and a unit: `30s`, `15m`, `2h` or `1d`; from 1s to 31d. */
      every: string;
      dailyAt?: never;
    };

/** A schedule. */
export type Schedule = When & {
  /** Tells it from the app's other triggers; the box remembers its last run by it. */
  name: string;
  /** Only on these days. Default all seven. */
  weekdays?: Weekday[];
  /** The task to start, or what makes it. `late` is true where it was due while the box was off. */
  task: TaskSpec | ((due: { at: Date; late: boolean }, box: Box) => Awaitable<Order>);
};

/**
 * Starts a task at set times. Its source is `schedule` unless the task names one. A run that was missed by less than 12 hours while the box was off is made up
 * for once, with `late`; a `task` that throws has had its run.
 */
export function schedule(s: Schedule): Trigger {
  checked('schedule', s, ['name', 'dailyAt', 'every', 'weekdays', 'task']);
  if ((s.dailyAt === undefined) === (s.every === undefined)) throw new Error(`schedule ${s.name}: dailyAt or every is needed${s.every === undefined ? '' : ', and not both'}`);
  const weekdays = s.weekdays === undefined ? undefined : checkedDays(s.name, s.weekdays);
  const watch =
    s.dailyAt !== undefined
      ? ({ kind: 'daily', name: s.name, at: checkedTime(s.name, s.dailyAt), weekdays } as const)
      : ({ kind: 'every', name: s.name, ms: checkedSpan(s.name, s.every), weekdays } as const);
  return {
    name: s.name,
    start: (box) =>
      box.watch(watch, async (fired) => {
        const spec = typeof s.task === 'function' ? await s.task({ at: new Date(fired.at), late: fired.late }, box) : s.task;
        if (spec) await box.createTask({ ...spec, source: spec.source ?? 'schedule' });
      }),
  };
}

/** A webhook. */
export interface Webhook {
  /** What stands in its address, POST /hook/<app>/<name>: up to 60 letters, digits, `_` and `-`. */
  name: string;
  /** The task to start for a request, from its JSON body and its headers (names in lower case). */
  task: (body: any, headers: HookHeaders, box: Box) => Awaitable<Order>;
}

/** Starts a task for a request. The caller gets `{task: <id>}`, or `{}` when none was started. */
export function webhook(w: Webhook): Trigger {
  checked('webhook', w, ['name', 'task']);
  if (!/^[A-Za-z0-9_-]{1,60}$/.test(w.name)) throw new Error(`webhook ${w.name}: its name may have up to 60 letters, digits, _ and - alone`);
  return {
    name: w.name,
    start: (box) =>
      box.onWebhook(w.name, async (body: Json, headers): Promise<Json> => {
        const spec = await w.task(body, headers, box);
        if (!spec) return {};
        return { task: (await box.createTask(spec)).id };
      }),
  };
}

/** A watch on files. */
export interface FileChange {
  /** Tells it from the app's other triggers. */
  name: string;
  /** The workspace, as it is with every done task. Default `home`. */
  workspace?: string;
  /** Only these paths in it, as globs such as `*.md`, `notes/**` and `day-?.txt`. Default all. */
  paths?: string[];
  /** The task to start for what has changed. Its own changes, once it is done, are changes too. */
  task: (changes: Change[], box: Box) => Awaitable<Order>;
}

/**
 * Starts a task when files of a workspace have changed and nothing more has for half a second, several changes together. What changes is what a file says: a new
 * mode or time is none, nor is a file that was written anew with the same bytes.
 */
export function onFileChange(f: FileChange): Trigger {
  checked('onFileChange', f, ['name', 'workspace', 'paths', 'task']);
  if (f.workspace !== undefined && typeof f.workspace !== 'string') throw new Error(`onFileChange ${f.name}: workspace is no text`);
  if (f.paths !== undefined && !(Array.isArray(f.paths) && f.paths.length > 0)) throw new Error(`onFileChange ${f.name}: paths is no list with a path in it; leave it out for all`);
  for (const path of f.paths ?? []) {
    if (typeof path !== 'string') throw new Error(`onFileChange ${f.name}: paths has something that is no text`);
    if (path.split('/').some((name) => ['', '.', '..'].includes(name))) throw new Error(`onFileChange ${f.name}: ${path || 'an empty path'} is no path inside a workspace`);
  }
  return {
    name: f.name,
    start: (box) =>
      box.watch({ kind: 'files', name: f.name, workspace: f.workspace ?? 'home', paths: f.paths }, async (fired) => {
        const spec = await f.task(fired.changes, box);
        if (spec) await box.createTask(spec);
      }),
  };
}

/** Holds what a trigger is made of to its fields: the types are not there any more when an app runs. */
function checked(what: string, given: { name: string; task: unknown }, fields: string[]): void {
  if (given === null || typeof given !== 'object') throw new Error(`${what}: an object with ${fields.join(', ')} is needed`);
  const { name, task } = given;
  if (typeof name !== 'string' || name === '' || [...name].length > 100) throw new Error(`${what}: name: a name of 1 to 100 characters is needed`);
  for (const field of Object.keys(given)) if (!fields.includes(field)) throw new Error(`${what} ${name}: there is no ${field}; there are ${fields.join(', ')}`);
  const fits = typeof task === 'function' || (what === 'schedule' && task !== null && typeof task === 'object');
  if (!fits) throw new Error(`${what} ${name}: task: ${what === 'schedule' ? 'a task, or a function that makes one,' : 'a function that makes a task'} is needed`);
}

function checkedTime(name: string, time: string): string {
  if (!/^([01]\d|2[0-3]):[0-5]\d$/.test(time)) throw new Error(`schedule ${name}: dailyAt is "${time}", and a time from 00:00 to 23:59 such as 08:00 is needed`);
  return time;
}

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function checkedSpan(name: string, every: string): number {
  const [, count = '', unit = ''] = /^([1-9]\d{0,6})([smhd])$/.exec(every) ?? [];
  const ms = Number(count) * (units[unit] ?? 0);
  if (ms < 1000 || ms > 31 * 86_400_000) throw new Error(`schedule ${name}: every is "${every}", and a time from 1s to 31d such as 15m is needed`);
  return ms;
}

function checkedDays(name: string, weekdays: Weekday[]): Weekday[] {
  if (!Array.isArray(weekdays)) throw new Error(`schedule ${name}: weekdays is no list of days such as ['mon', 'fri']`);
  if (weekdays.length === 0) throw new Error(`schedule ${name}: weekdays names no day, so it would never run`);
  for (const day of weekdays) if (!days.includes(day)) throw new Error(`schedule ${name}: "${day}" is no weekday; they are ${days.join(', ')}`);
  return days.filter((day) => weekdays.includes(day));
}
