// What a step has in its hands: the DemoKit of core/contract.ts, and for the core's own steps what apps have no use for.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Approval, Awaitable, DemoKit, LogEvent, Task } from '../../../core/contract.ts';
import type { Answer, As, RunningBox } from './box.ts';

export interface CoreKit extends DemoKit {
  /** The box itself, for steps that end it, start it again or look beneath it. */
  box: RunningBox;
  /** One request, with whatever status it gets. */
  ask(method: string, path: string, body?: unknown, as?: As): Promise<Answer>;
  /** Checks that a request is refused with a status and a sentence that holds these words. */
  refused(status: number, words: string, method: string, path: string, body?: unknown, as?: As): Promise<void>;
  /** Starts a task of the fake worker; each line is a command. */
  task(title: string, lines: string[], spec?: object): Promise<Task>;
  /** A task, once it is in one of these states. */
  in(id: string, ...states: Task['state'][]): Promise<Task>;
  /** The log's lines, of one task when it is named. */
  log(task?: string): Promise<LogEvent[]>;
  /** What the fake worker said of each line, by its number. */
  steps(task: string): Promise<Record<number, any>>;
  /** A task's question, once it is pending. */
  question(task: string): Promise<Approval>;
}

/** The kit for a step on a box. */
export function kit(box: RunningBox, held: (what: string) => void): CoreKit {
  const d: CoreKit = {
    box,
    home: box.home,
    port: box.port,
    url: box.url,
    ask: (...args) => box.ask(...args),

    async api(method, path, body) {
      const a = await box.ask(method, path, body);
      if (a.status >= 300) throw new Error(`${method} ${path}: ${a.status} ${a.body?.error ?? JSON.stringify(a.body)}`);
      return a.body;
    },

    check(ok, what) {
      if (!ok) throw new Error(what);
      held(what);
    },

    async refused(status, words, method, path, body, as) {
      const a = await box.ask(method, path, body, as);
      const sentence = a.body?.error ?? JSON.stringify(a.body);
      if (a.status !== status || !String(sentence).includes(words)) throw new Error(`${method} ${path} answers ${a.status} "${sentence}", and ${status} "${words}" is due`);
      held(`${method} ${path}: ${status}, ${sentence}`);
    },

    workspace(name, files) {
      const from = mkdtempSync('/tmp/files');
      try {
        for (const [path, text] of Object.entries(files)) {
          const to = normalize(join(from, path));
          if (!to.startsWith(`${from}/`)) throw new Error(`${path} is no path inside a workspace`);
          mkdirSync(dirname(to), { recursive: true });
          writeFileSync(to, text);
        }
        const made = box.command('workspace', 'new', name);
        if (made.code !== 0) throw new Error(`making the workspace ${name}: ${made.out}`);
        if (Object.keys(files).length === 0) return;
        const put = box.command('workspace', 'put', name, from);
        if (put.code !== 0) throw new Error(`filling the workspace ${name}: ${put.out}`);
      } finally {
        rmSync(from, { recursive: true });
      }
    },

    view(workspace, file) {
      const { code, out } = box.command('workspace', 'cat', workspace, file);
      if (code === 0) return out;
      if (/there is no|no such/i.test(out)) return undefined;
      throw new Error(`reading ${file} of ${workspace}: ${out}`);
    },

    async settled(ids) {
      const tasks = await Promise.all(ids.map((id) => d.in(id, 'done', 'failed', 'undone')));
      const failed = tasks.find((t) => t.state === 'failed');
      if (failed) throw new Error(`task ${failed.id} (${failed.title}) failed: ${failed.error}`);
      return tasks;
    },

    async waitFor<T>(what: string, fn: () => Awaitable<T | undefined | null | false>, ms = 10_000): Promise<T> {
      const end = performance.now() + ms;
      for (let wait = 5; ; wait = Math.min(wait * 2, 100)) {
        const got = await fn();
        if (got !== undefined && got !== null && got !== false) return got;
        if (performance.now() > end) throw new Error(`${what}: not within ${ms / 1000} s`);
        await pause(wait);
      }
    },

    task: (title, lines, spec = {}) => d.api('POST', '/api/tasks', { title, prompt: lines.join('\n'), worker: 'fake', ...spec }),

    in: (id, ...states) =>
      d.waitFor(`task ${id} ${states.join(' or ')}`, async () => {
        const t: Task = await d.api('GET', `/api/tasks/${id}`);
        return states.includes(t.state) && t;
      }, 60_000),

    log: (task) => d.api('GET', `/api/log?after=0${task ? `&task=${task}` : ''}`),

    async steps(task) {
      const by: Record<number, any> = {};
      for (const e of await d.log(task)) if (e.type === 'task.step') by[(e.data as { line: number }).line] = { ...(e.data as object), step: e.text };
      return by;
    },

    question: (task) =>
      d.waitFor(`a question of task ${task}`, async () => {
        const all: Approval[] = await d.api('GET', '/api/approvals?state=pending');
        return all.find((a) => a.task === task);
      }, 30_000),
  };
  return d;
}
