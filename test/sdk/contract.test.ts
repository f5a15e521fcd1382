// contract.ts explains each of its fields, costs nothing when it runs, and says the same as the box's own Go.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const contract = readFileSync(new URL('../../core/contract.ts', import.meta.url), 'utf8');

interface Field {
  name: string;
  optional: boolean;
  explained: boolean;
}

/** The fields of an interface as they stand in contract.ts. */
function fields(name: string): Field[] {
  const body = new RegExp(`^export interface ${name} .*?\\{\\n(.*?)^\\}`, 'ms').exec(contract)?.[1];
  assert(body !== undefined, `there is no interface ${name}`);
  const lines = body.split('\n');
  return lines.flatMap((line, i) => {
    const m = /^  (?:readonly )?(\w+)(\??)[:(<]/.exec(line);
    return m?.[1] ? [{ name: m[1], optional: m[2] === '?', explained: /\*\/$/.test(lines[i - 1] ?? '') }] : [];
  });
}

const interfaces = [...contract.matchAll(/^export interface (\w+)/gm)].flatMap((m) => (m[1] ? [m[1]] : []));

/** The names that a Go struct has in JSON. */
function tags(file: string, struct: string): Map<string, boolean> {
  const text = readFileSync(new URL(`../../core/${file}`, import.meta.url), 'utf8');
  const body = new RegExp(`^type ${struct} struct \\{\\n(.*?)^\\}`, 'ms').exec(text)?.[1];
  assert(body !== undefined, `${file} has no struct ${struct}`);
  return new Map([...body.matchAll(/`json:"([\w]+)(,omitempty)?"`/g)].map((m) => [m[1] ?? '', m[2] !== undefined]));
}

test('each field is explained', () => {
  assert(interfaces.length > 25);
  for (const name of interfaces) {
    for (const f of fields(name)) assert(f.explained, `${name}.${f.name} has no sentence above it`);
  }
});

test('each type is explained', () => {
  for (const m of contract.matchAll(/^(.*)\nexport (?:interface|type) (\w+)/gm)) assert(m[1]?.endsWith('*/'), `${m[2]} has no sentence above it`);
});

test('importing it costs nothing', async () => {
  assert.deepEqual(Object.keys(await import('../../core/contract.ts')), []);
  assert(!/^import /m.test(contract), 'it needs no other file');
});

// Fields that only an edition to come sets.
const editions = new Set(['review', 'requestedBy', 'person', 'via', 'askedBy', 'route', 'shadow']);

for (const [name, file, struct] of [
  ['TaskSpec', 'task/spec.go', 'Spec'],
  ['Task', 'task/spec.go', 'Task'],
  ['Approval', 'approval/approval.go', 'Approval'],
  ['Tokens', 'budget/prices.go', 'Tokens'],
] as const) {
  test(`${name} has the fields that the box sends`, () => {
    const go = tags(file, struct);
    const mine = fields(name);
    const inherited = name === 'Task' ? new Set(fields('TaskSpec').map((f) => f.name)) : new Set();
    for (const f of mine) if (!editions.has(f.name)) assert(go.has(f.name) || inherited.has(f.name), `${name}.${f.name} is nowhere in core/${file}`);
    for (const tag of go.keys()) assert(mine.some((f) => f.name === tag) || inherited.has(tag), `${name} lacks ${tag}, which the box sends`);
    if (name === 'TaskSpec') return; // what may be left out of an order is filled in by the box
    for (const f of mine) if (go.has(f.name)) assert.equal(f.optional, go.get(f.name), `${name}.${f.name}: may it be absent?`);
  });
}

test('each type of event has the fields that the log writes', () => {
  const event = tags('actionlog/event.go', 'Event');
  const shapes = new Map(
    [...readFileSync(new URL('../../core/actionlog/encode.go', import.meta.url), 'utf8').matchAll(/^\tType(\w+): +\{(.*)\},$/gm)].map((m) => [m[1] ?? '', m[2] ?? '']),
  );
  const types: Record<string, string> = {
    TaskCreated: 'TaskCreated', TaskState: 'TaskStateChanged', TaskStep: 'TaskStep', ToolCall: 'ToolCalled', ToolResult: 'ToolResult',
    ApprovalAsked: 'ApprovalAsked', ApprovalAnswered: 'ApprovalAnswered', Cost: 'Cost', NetBlocked: 'NetBlocked', Note: 'Note',
  };
  assert.deepEqual([...shapes.keys()].sort(), Object.keys(types).sort(), 'the types that this edition writes');
  for (const [type, name] of Object.entries(types)) {
    const mine = new Map(fields(name).map((f) => [f.name, f.optional]));
    mine.delete('type');
    const go = new Map((shapes.get(type) ?? '').split(', ').map((s) => s.split(': ') as [string, string]));
    assert.deepEqual([...mine.keys()].sort(), [...go.keys()].sort(), name);
    for (const [field, need] of go) {
      assert.equal(mine.get(field), need === 'may', `${name}.${field}: may it be absent?`);
      assert(event.has(field), `${field} is no field of an event`);
    }
  }
  const union = /export type LogEvent =\n(.*?);/s.exec(contract)?.[1] ?? '';
  assert.equal(union.split('|').length - 1, 11, 'and keep makes eleven');
});
