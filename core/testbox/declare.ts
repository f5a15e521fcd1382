// Holds what an app declares against what the box asks of it, in the box's order and with its sentences.

import type { Track } from '../contract.ts';
import { rule } from './spec.ts';

type Part = Record<string, unknown>;

const mostName = 60;
const mostApp = 40;
const mostTitle = 60;
const mostText = 10_000;
const mostParts = 200;

const form = /^[A-Za-z0-9_-]+$/;
const keyForm = /^[A-Z][A-Z0-9_]*$/;
const routeForm = /^(GET|HEAD|POST|PUT|PATCH|DELETE) (\/[^\s?#]*)$/;

/** The app, when the box would take it. Throws with the app's name, the field and the rule. */
export function declared(track: Track): Track {
  const t: unknown = track;
  if (!isPart(t)) throw new Error("track.ts exports no app as its default. It is to end in `export default { name: '…', … } satisfies Track`");
  const app = typeof t['name'] === 'string' ? t['name'] : 'the app';
  const c = new Checker(app);
  const name = c.text(t, '', 'name', mostName, true);
  if (!/^[a-z][a-z0-9_-]*$/.test(name) || name.length > mostApp) throw new Error(`${JSON.stringify(clip(name))} is no name for an app: at most ${mostApp} small letters, digits, _ and -, a letter first`);
  if (['box', 'api', 'schedule', 'kit'].includes(name)) throw new Error(`no app may be called ${name}: the box uses that name itself`);
  c.known(t, '', ['name', 'title', 'description', 'secrets', 'optionalSecrets', 'taskContext', 'offByDefault', 'triggers', 'tools', 'logReaders', 'modelJobs', 'apps', 'routes', 'openRoutes', 'ownOrigin']);
  c.text(t, '', 'title', mostTitle, false);
  c.text(t, '', 'description', mostText, false);
  const secrets = c.keys(t, '', 'secrets');
  const optional = c.keys(t, '', 'optionalSecrets');
  c.fn(t, '', 'taskContext', false);
  c.parts(t, 'triggers', (at, p) => {
    c.known(p, at, ['name', 'start']);
    c.fn(p, at, 'start', true);
    return c.part(p, at);
  });
  c.parts(t, 'tools', (at, p) => {
    c.known(p, at, ['name', 'description', 'input', 'secrets', 'hosts', 'cost', 'approval', 'decides', 'run']);
    const tool = c.text(p, at, 'name', mostApp + 1 + mostName, true);
    c.text(p, at, 'description', mostText, true);
    secrets.push(...c.keys(p, at, 'secrets'));
    for (const fn of ['cost', 'approval']) c.fn(p, at, fn, false);
    c.texts(p, at, 'hosts', (s) => void rule(s));
    c.fn(p, at, 'decides', false);
    c.fn(p, at, 'run', true);
    const [own, verb = ''] = tool.split(/\.(.*)/s);
    if (own !== name || !form.test(verb)) c.fail(`${at}.name`, `it is ${JSON.stringify(clip(tool))}, and a tool of this app is called ${name}.<verb>, the verb of letters, digits, _ and -`);
    if (p['input'] !== undefined && typeof p['input'] !== 'boolean' && !isPart(p['input'])) c.fail(`${at}.input`, 'it is no JSON Schema that can be used: an object is needed');
    return tool;
  });
  c.parts(t, 'logReaders', (at, p) => {
    c.known(p, at, ['name', 'read']);
    c.fn(p, at, 'read', true);
    return c.part(p, at);
  });
  c.parts(t, 'modelJobs', (at, p) => {
    c.known(p, at, ['name', 'secrets', 'run']);
    c.fn(p, at, 'run', true);
    const job = c.part(p, at);
    secrets.push(...c.keys(p, at, 'secrets'));
    return job;
  });
  c.parts(t, 'apps', (at, p) => {
    c.known(p, at, ['name', 'title', 'href']);
    const page = c.part(p, at);
    c.text(p, at, 'title', mostTitle, true);
    const href = c.text(p, at, 'href', 1000, true);
    if (!href.startsWith('/') || href.startsWith('//') || /[\\ ]/.test(href)) c.fail(`${at}.href`, `it is ${JSON.stringify(clip(href))}, and has to be a path beneath /t/${name} that begins with one /`);
    return page;
  });
  routes(c, t);
  for (const key of optional) if (!secrets.includes(key)) throw new Error(`${name}: optionalSecrets: ${key} is not among the keys that the app, its tools or its model jobs list in secrets`);
  return track;
}

function routes(c: Checker, t: Part): void {
  const all = t['routes'] ?? {};
  if (!isPart(all)) return c.fail('routes', 'an object of functions by METHOD /path is needed');
  const names = Object.keys(all).sort();
  if (names.length > mostParts) c.fail('routes', `at most ${mostParts}, these are ${names.length}`);
  for (const key of names) {
    if (!routeForm.test(key) || key.length > 1000) {
      c.fail('routes', `${JSON.stringify(clip(key))} is no route: a method (GET, HEAD, POST, PUT, PATCH or DELETE), a space and a path that begins with / are needed, such as GET /spend`);
    }
    c.fn(all, 'routes', key, true);
  }
  for (const list of ['openRoutes', 'ownOrigin']) {
    c.texts(t, '', list, (s) => {
      if (!names.includes(s)) throw new Error('there is no such route; a key of routes is needed');
    });
  }
}

class Checker {
  #app: string;

  constructor(app: string) {
    this.#app = app;
  }

  fail(field: string, why: string): never {
    throw new Error(`${this.#app}: ${field}: ${why}`);
  }

  known(o: Part, at: string, names: string[]): void {
    for (const name of Object.keys(o).sort()) if (!names.includes(name) && o[name] !== undefined) this.fail(join(at, clip(name)), `there is no such field; there are ${names.join(', ')}`);
  }

  text(o: Part, at: string, name: string, most: number, must: boolean): string {
    const field = join(at, name);
    const s = o[name];
    if (s === undefined) return must ? this.fail(field, 'it is missing') : '';
    if (typeof s !== 'string') return this.fail(field, 'a text is needed');
    if (s.trim() === '') this.fail(field, 'it is empty');
    if ([...s].length > most) this.fail(field, `at most ${most} characters, this has ${[...s].length}`);
    if (/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(s)) this.fail(field, "control characters can't be in it");
    return s;
  }

  part(o: Part, at: string): string {
    const name = this.text(o, at, 'name', mostName, true);
    if (!form.test(name)) this.fail(`${at}.name`, `it is ${JSON.stringify(name)}, and may have letters, digits, _ and - alone`);
    return name;
  }

  fn(o: Part, at: string, name: string, must: boolean): void {
    if (o[name] === undefined) {
      if (must) this.fail(join(at, name), 'the function is missing');
    } else if (typeof o[name] !== 'function') this.fail(join(at, name), 'a function is needed');
  }

  list(o: Part, at: string, name: string): unknown[] {
    const all = o[name];
    if (all === undefined) return [];
    if (!Array.isArray(all)) return this.fail(join(at, name), 'a list is needed');
    if (all.length > mostParts) this.fail(join(at, name), `at most ${mostParts}, these are ${all.length}`);
    return all;
  }

  texts(o: Part, at: string, name: string, check: (s: string) => void): string[] {
    const out: string[] = [];
    for (const [i, s] of this.list(o, at, name).entries()) {
      const field = `${join(at, name)}[${i}]`;
      if (typeof s !== 'string' || s === '') return this.fail(field, 'a text is needed');
      try {
        check(s);
      } catch (err) {
        this.fail(field, `it is ${JSON.stringify(clip(s))}: ${(err as Error).message}`);
      }
      if (out.includes(s)) this.fail(field, `${JSON.stringify(clip(s))} stands there twice`);
      out.push(s);
    }
    return out;
  }

  keys(o: Part, at: string, name: string): string[] {
    return this.texts(o, at, name, (s) => {
      if (!keyForm.test(s) || s.length > 100) throw new Error("a key's name: capital letters, digits and _ are needed, a letter first, at most 100 characters");
    });
  }

  parts(o: Part, name: string, read: (at: string, p: Part) => string): void {
    const seen = new Set<string>();
    for (const [i, p] of this.list(o, '', name).entries()) {
      const at = `${name}[${i}]`;
      if (!isPart(p)) return this.fail(at, 'an object is needed');
      const own = read(at, p);
      if (seen.has(own)) this.fail(`${at}.name`, `there is another one of the name ${own}`);
      seen.add(own);
    }
  }
}

const isPart = (v: unknown): v is Part => v !== null && typeof v === 'object' && !Array.isArray(v);

const join = (at: string, name: string) => (at === '' ? name : `${at}.${name}`);

const clip = (s: string) => {
  const letters = [...s];
  return letters.length > 80 ? `${letters.slice(0, 80).join('')}…` : s;
};
