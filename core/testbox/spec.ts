// Holds a TaskSpec against the box's limits and fills in its defaults, with the box's own sentences.

import type { Task, TaskSpec } from '../contract.ts';
import { suffixes } from './suffixes.ts';

/** The settings that a spec's defaults come from. */
export interface SpecSettings {
  defaultBudgetCents: number;
  networkDefault: 'none' | 'allowlist';
  defaultHosts: string[];
}

/** A spec with every default filled in. */
export type WholeSpec = TaskSpec & Pick<Task, 'workspace' | 'worker' | 'tools' | 'hosts' | 'budgetCents' | 'source'>;

/** What the box has that a spec may name. */
export interface Known {
  settings: SpecSettings;
  workspace(name: string): boolean;
  tool(name: string): boolean;
  /** Whether it has a program for the worker droid. */
  droid: boolean;
  /** Who asks. */
  app: string;
}

const strings = ['title', 'prompt', 'workspace', 'worker', 'model', 'source', 'seat'] as const;
const models: Record<string, string> = { haiku: 'claude-haiku-4-5-20251001', sonnet: 'claude-sonnet-5-5', opus: 'claude-opus-5' };

const wrong = (field: string, sentence: string): never => {
  throw new Error(field === '' ? sentence : `${field}: ${sentence}`);
};

/** The spec as the box would make a task of it. Throws with the box's sentence where it would not. */
export function whole(given: unknown, known: Known): WholeSpec {
  const r = shape(given);
  if (r.folder !== undefined) wrong('folder', 'tasks on real folders come with GurtOS Personal');
  if (r.folders !== undefined) wrong('folders', 'tasks on real folders come with GurtOS Personal');
  if (r.title === undefined || r.title.trim() === '') wrong('title', 'a short name for people is needed');
  if (r.prompt === undefined) wrong('prompt', 'what the worker should do is needed');
  for (const [field, most] of [['title', 200], ['prompt', 100_000], ['source', 200], ['seat', 60]] as const) {
    const n = [...(r[field] ?? '')].length;
    if (n > most) wrong(field, `at most ${most} characters, this has ${n}`);
  }
  const source = r.source ?? known.app;
  if (source === '') wrong('source', 'who started the task is needed, or leave it out');
  const workspace = r.workspace ?? 'home';
  workspaceName(workspace);
  if (!known.workspace(workspace)) wrong('workspace', `there is no workspace ${workspace}; make it first`);
  const worker = r.worker ?? 'droid';
  if (worker !== 'droid' && worker !== 'fake') wrong('worker', 'droid or fake is needed');
  let model = r.model === undefined ? undefined : Object.hasOwn(models, r.model) ? models[r.model] : r.model;
  if (model !== undefined && !/^claude-[A-Za-z0-9._@:-]{1,93}$/.test(model)) wrong('model', 'haiku, sonnet, opus or an id that starts with claude- is needed');
  if (worker === 'droid') model ??= 'claude-sonnet-5-5';
  if (worker === 'droid' && !known.droid) wrong('worker', `${worker} is not in this build. The one that is there is fake, which runs the prompt as a script: give --worker fake, or worker: 'fake'`);
  if (worker === 'droid' && r.prompt.trim() === '') wrong('prompt', 'what the worker should do is needed');
  (r.tools ?? []).forEach((name, i) => {
    if (!known.tool(name)) wrong(`tools[${i}]`, `no app that is on has a tool named ${shown(name)}`);
  });
  let hosts = hostList(r.hosts, known.settings);
  let budgetCents = known.settings.defaultBudgetCents;
  if (r.budgetCents !== undefined) {
    if (!Number.isInteger(r.budgetCents) || r.budgetCents < 0 || r.budgetCents > 100_000) wrong('budgetCents', 'a whole number of cents from 0 to 100000 is needed');
    budgetCents = r.budgetCents;
  }
  const autonomy = r.droid?.autonomy;
  if (autonomy !== undefined && autonomy !== 'low' && autonomy !== 'medium' && autonomy !== 'high') wrong('droid.autonomy', 'low, medium or high is needed');
  if (worker === 'droid' && autonomy === 'low') [hosts, budgetCents] = [[], 0];
  if (worker === 'droid' && autonomy === 'medium') budgetCents = Math.min(budgetCents, 100);
  return {
    title: r.title, prompt: r.prompt, workspace, worker: worker as Task['worker'], ...(model === undefined ? {} : { model }),
    tools: [...new Set(r.tools ?? [])], hosts, budgetCents, source, ...(r.seat === undefined ? {} : { seat: r.seat }), ...(r.droid === undefined ? {} : { droid: r.droid }),
  };
}

/** Holds the types of the fields, as the JSON that the box gets has them. */
function shape(given: unknown): TaskSpec {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) wrong('', 'the body is not a JSON object');
  const r = JSON.parse(JSON.stringify(given)) as Record<string, unknown>;
  for (const [name, v] of Object.entries(r)) {
    const want = (strings as readonly string[]).includes(name) ? 'a string' : name === 'tools' || name === 'hosts' ? 'a list of strings' : name === 'droid' ? 'an object' : 'a value';
    if (!['tools', 'hosts', 'budgetCents', 'droid', 'folder', 'folders', ...strings].includes(name)) wrong(name, 'the box does not know this field');
    if (v === null) wrong(name, `${want === 'a list of strings' ? 'an array' : want} is needed, not null`);
    if (want === 'a string' && typeof v !== 'string') wrong(name, `a string is needed, not ${article(v)}`);
    if (want === 'a list of strings') {
      if (!Array.isArray(v)) wrong(name, `an array is needed, not ${article(v)}`);
      (v as unknown[]).forEach((e) => typeof e === 'string' || wrong(name, `a string is needed, not ${article(e)}`));
    }
    if (want === 'an object') {
      if (typeof v !== 'object' || Array.isArray(v)) wrong(name, `an object is needed, not ${article(v)}`);
      for (const [inner, x] of Object.entries(v as object)) {
        if (inner !== 'plan' && inner !== 'autonomy') wrong(`droid.${inner}`, 'the box does not know this field');
        const kind = inner === 'plan' ? 'boolean' : 'string';
        if (typeof x !== kind) wrong(`droid.${inner}`, `${kind === 'boolean' ? 'true or false' : 'a string'} is needed, not ${article(x)}`);
      }
    }
  }
  return r as unknown as TaskSpec;
}

const article = (v: unknown) => (v === null ? 'null' : Array.isArray(v) ? 'an array' : typeof v === 'object' ? 'an object' : typeof v === 'boolean' ? 'a bool' : `a ${typeof v}`);

/** Holds a workspace's name to the box's form. */
export function workspaceName(name: string): void {
  if (!/^[A-Za-z0-9_.-]{1,100}$/.test(name) || name === '.' || name === '..') wrong('workspace', 'a name of 1 to 100 letters, digits, _, . and - is needed, and not . or ..');
}

/** A name that somebody else chose, short enough for a sentence. */
export const shown = (s: string) => {
  const letters = [...s];
  return (letters.length > 60 ? `${letters.slice(0, 60).join('')}…` : s).replaceAll(/[\u0000-\u001f\u007f]/g, '\ufffd');
};

function hostList(given: string[] | undefined, settings: SpecSettings): string[] {
  const [want, field] = given === undefined && settings.networkDefault === 'allowlist' ? [settings.defaultHosts, 'defaultHosts'] : [given ?? [], 'hosts'];
  if (want.length > 50) wrong(field, `at most 50 hosts, these are ${want.length}`);
  return want.map((h, i) => {
    try {
      return rule(h);
    } catch (err) {
      return wrong(`${field}[${i}] "${shown(h)}"`, (err as Error).message);
    }
  });
}

/** The one spelling of a host rule. Throws with what is wrong with it. */
export function rule(s: string): string {
  const no = (why: string): never => {
    throw new Error(why);
  };
  if (s === '') no('a host is empty');
  if (s.length > 1024) no('a host name has at most 253 characters');
  if (/[\u0000- \u007f]/.test(s)) no('a host holds no spaces or control characters');
  if (s.includes('://')) no('give the host alone, without http:// or the like');
  if (/[/?#\\]/.test(s)) no('give the host alone, without a path');
  if (s.includes('@')) no('give the host alone, without a user name');
  if (s.startsWith('[') || /^\d+(\.\d+){3}\.?(:\d+)?$/.test(s)) return address(s, no);
  if (s.split(':').length > 2) no('an IPv6 address is written in brackets, with a port, such as [2001:db8::1]:443');
  const [, host = '', port] = /^([^:]*)(?::(.*))?$/s.exec(s) ?? no('this is not a valid host name');
  checkedPort(port, no);
  if (host === '*' || host === '*.') no('a wildcard over all hosts is refused; name the hosts that the task needs');
  const wildcard = host.startsWith('*.');
  const bare = wildcard ? host.slice(2) : host;
  if (bare.includes('*')) no('a * stands only in front, as in *.example.com');
  const name = normal(bare, no);
  if (/(^|\.)(\d+|0x[0-9a-f]*)$/.test(name)) no('an address is written as four decimal numbers from 0 to 255, without leading zeros, and a name does not end in a number');
  if (/(^|\.)localhost$|^localhost\.localdomain$|^localhost[46](\.localdomain[46])?$|^ip6-(localhost|loopback)$|^loopback$/.test(name)) no(`${name} is the task itself, which needs no rule`);
  if (/^metadata(\.google\.internal|\.goog)?$|^instance-data(\.ec2\.internal)?$/.test(name)) no(`${name} is a cloud's metadata service, which no task may reach`);
  if (wildcard && (!name.includes('.') || suffix(name))) no(`a wildcard over ${name}, below which anyone can have a name, is refused; name the hosts that the task needs`);
  return `${wildcard ? '*.' : ''}${name}${port === undefined ? '' : `:${port}`}`;
}

/** Whether anyone can have a name below this one, of more than one part. */
function suffix(name: string): boolean {
  return (suffixes.has(name) || suffixes.has(name.replace(/^[^.]+/, '*'))) && !suffixes.has(`!${name}`);
}

function checkedPort(port: string | undefined, no: (why: string) => never): void {
  if (port !== undefined && (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65535)) no('a port is a number from 1 to 65535');
}

function normal(host: string, no: (why: string) => never): string {
  let name = host.replaceAll(/[。．｡]/g, '.');
  if (/[^\u0000-\u007f]/.test(name)) {
    try {
      name = new URL(`http://${name}`).hostname;
    } catch {
      no('this is not a valid host name');
    }
  }
  name = name.toLowerCase().replace(/\.$/, '');
  if (name === '' || name.length > 253) no('a host name has 1 to 253 characters');
  for (const part of name.split('.')) {
    if (part === '') no('a host name has no empty part between its dots');
    if (part.startsWith('-') || part.endsWith('-')) no('this is not a valid host name');
    if (part.length > 63) no('each part of a host name has at most 63 characters');
    if (!/^[a-z0-9_-]+$/.test(part)) no('a host name has letters, digits, hyphens and dots only');
  }
  return name;
}

function address(s: string, no: (why: string) => never): string {
  const six = s.startsWith('[');
  const [, text = '', port] = (six ? /^\[([^\]]*)\](?::(.*))?$/ : /^([\d.]+?)\.?(?::(.*))?$/).exec(s) ?? no('this is not an IPv6 address');
  checkedPort(port, no);
  let plain = '';
  try {
    plain = new URL(six ? `http://[${text}]/` : `http://${text}/`).hostname;
  } catch {
    no(six ? 'this is not an IPv6 address' : 'an address is written as four decimal numbers from 0 to 255, without leading zeros, and a name does not end in a number');
  }
  if (!six && plain !== text) no('an address is written as four decimal numbers from 0 to 255, without leading zeros, and a name does not end in a number');
  // An IPv4 address in an IPv6 one is that address.
  const [, high = '', low = ''] = /^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/.exec(plain) ?? [];
  if (low !== '') plain = [high, low].flatMap((part) => [parseInt(part, 16) >> 8, parseInt(part, 16) & 255]).join('.');
  const bare = plain.replaceAll(/[[\]]/g, '');
  for (const [form, what] of forbidden) if (form.test(bare)) no(`${bare} is ${what}, which no task may reach`);
  if (port === undefined) no('an address needs an exact port, such as 192.0.2.34:443');
  return `${plain}:${port}`;
}

const forbidden: [RegExp, string][] = [
  [/^169\.254\.(169\.254|170\.2)$|^100\.100\.100\.200$|^168\.63\.129\.16$/, "a cloud's metadata address"],
  [/^127\.|^::1$/, 'a loopback address'],
  [/^169\.254\.|^fe[89ab]/, 'a link-local address'],
  [/^0\.0\.0\.0$|^::$/, 'an unspecified address'],
  [/^2(2[4-9]|3\d)\.|^ff/, 'a multicast address'],
  [/^198\.1[89]\./, 'an address that stands for names inside a task'],
  [/^0\.|^2[45]\d\./, 'a reserved address'],
];
