// Workspaces of a test: a base, and the changes of each done task over it, so that a task can be undone.

import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Change } from '../contract.ts';
import { workspaceName } from './spec.ts';

/** Files by path; null for one that is deleted. */
export type Changed = Record<string, string | null>;

export class Workspaces {
  #all = new Map<string, { base: Map<string, string>; layers: { task: string; files: Changed }[] }>();

  has(name: string): boolean {
    return this.#all.has(name);
  }

  make(name: string, files: Record<string, string> = {}): void {
    workspaceName(name);
    if (!this.#all.has(name)) this.#all.set(name, { base: new Map(Object.entries(files)), layers: [] });
  }

  /** Lays a task's changes over a workspace. */
  lay(name: string, task: string, files: Changed): void {
    this.#get(name).layers.push({ task, files });
  }

  /** Takes a task's changes out again. */
  lift(task: string): void {
    for (const w of this.#all.values()) w.layers = w.layers.filter((l) => l.task !== task);
  }

  /** The files as they are now. */
  view(name: string): Map<string, string> {
    const w = this.#all.get(name);
    const out = new Map(w?.base);
    for (const { files } of w?.layers ?? []) {
      for (const [path, text] of Object.entries(files)) {
        if (text === null) out.delete(path);
        else out.set(path, text);
      }
    }
    return out;
  }

  /** The done tasks whose changes lie over the base, newest first. */
  layers(name: string): string[] {
    return (this.#all.get(name)?.layers ?? []).map((l) => l.task).reverse();
  }

  #get(name: string) {
    const w = this.#all.get(name);
    if (!w) throw new Error(`workspace: there is no workspace ${name}; make it first`);
    return w;
  }
}

/** What differs between two views, by path. */
export function differ(was: ReadonlyMap<string, string>, is: ReadonlyMap<string, string>): Change[] {
  const out: Change[] = [];
  for (const path of new Set([...was.keys(), ...is.keys()])) {
    if (was.get(path) !== is.get(path)) out.push({ path, change: !was.has(path) ? 'added' : !is.has(path) ? 'deleted' : 'modified' });
  }
  return out.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The files of a folder, by path. */
export function folder(dir: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const path of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
    if (statSync(join(dir, path)).isFile()) out[path] = readFileSync(join(dir, path), 'utf8');
  }
  return out;
}
