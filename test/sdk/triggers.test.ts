// The ready-made triggers, on a box that only notes what it is asked for.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Awaitable, Box, Fired, HookHeaders, Json, Task, TaskSpec, Trigger, Watch } from '../../core/contract.ts';
import { onFileChange, schedule, webhook } from '../../core/triggers.ts';

/** A box with nothing but what triggers use. */
function noting() {
  const made: TaskSpec[] = [];
  const watched: Watch[] = [];
  let fire: ((fired: Fired) => Awaitable<void>) | undefined;
  let hook: { name: string; handler: (body: Json, headers: HookHeaders) => Awaitable<Json | void> } | undefined;
  let stopped = 0;
  const box: Pick<Box, 'createTask' | 'watch' | 'onWebhook'> = {
    createTask: async (spec) => {
      made.push(spec);
      return { id: `t${made.length}` } as Task;
    },
    watch: (watch, f) => {
      watched.push(watch);
      fire = f;
      return () => stopped++;
    },
    onWebhook: (name, handler) => {
      hook = { name, handler };
      return () => stopped++;
    },
  };
  return {
    made,
    watched,
    start: async (t: Trigger) => (await t.start(box as Box)) as () => void,
    fire: (fired: Partial<Fired> = {}) => fire?.({ at: '2026-12-01T08:00:00.000Z', late: false, changes: [], ...fired }),
    request: async (body: Json) => await hook?.handler(body, { 'x-sign': 's' }),
    hooked: () => hook?.name,
    stopped: () => stopped,
  };
}

const order = { title: 'Look', prompt: 'Look around.' };

test('a schedule has the box watch the clock', async () => {
  for (const [given, asked] of [
    [{ dailyAt: '08:00' }, { kind: 'daily', name: 's', at: '08:00', weekdays: undefined }],
    [{ dailyAt: '23:59', weekdays: ['fri', 'mon', 'fri'] }, { kind: 'daily', name: 's', at: '23:59', weekdays: ['mon', 'fri'] }],
    [{ every: '90s' }, { kind: 'every', name: 's', ms: 90_000, weekdays: undefined }],
    [{ every: '2h' }, { kind: 'every', name: 's', ms: 7_200_000, weekdays: undefined }],
    [{ every: '31d' }, { kind: 'every', name: 's', ms: 31 * 86_400_000, weekdays: undefined }],
  ] as const) {
    const b = noting();
    const stop = await b.start(schedule({ name: 's', task: order, ...given } as Parameters<typeof schedule>[0]));
    assert.deepEqual(b.watched, [asked]);
    stop();
    assert.equal(b.stopped(), 1);
  }
});

test('a schedule starts its task, as schedule unless the task says else', async () => {
  const b = noting();
  await b.start(schedule({ name: 's', dailyAt: '08:00', task: ({ at, late }) => (late ? undefined : { ...order, title: `${at.getUTCHours()}` }) }));
  await b.fire();
  await b.fire({ late: true });
  assert.deepEqual(b.made, [{ source: 'schedule', ...order, title: '8' }]);
  await b.start(schedule({ name: 's', every: '1h', task: { ...order, source: 'jira:BOX-12' } }));
  await b.fire();
  assert.equal(b.made[1]?.source, 'jira:BOX-12');
  await b.start(schedule({ name: 's', every: '1h', task: { ...order, source: undefined } as TaskSpec }));
  await b.fire();
  assert.equal(b.made[2]?.source, 'schedule');
});

test('schedules that could not be are refused when they are made', () => {
  for (const [given, why] of [
    [{ dailyAt: '8:00' }, 'schedule s: dailyAt is "8:00", and a time from 00:00 to 23:59 such as 08:00 is needed'],
    [{ dailyAt: '24:00' }, 'schedule s: dailyAt is "24:00", and a time from 00:00 to 23:59 such as 08:00 is needed'],
    [{ every: '0s' }, 'schedule s: every is "0s", and a time from 1s to 31d such as 15m is needed'],
    [{ every: '15 min' }, 'schedule s: every is "15 min", and a time from 1s to 31d such as 15m is needed'],
    [{ every: '32d' }, 'schedule s: every is "32d", and a time from 1s to 31d such as 15m is needed'],
    [{ every: '1h', weekdays: [] }, 'schedule s: weekdays names no day, so it would never run'],
    [{}, 'schedule s: dailyAt or every is needed'],
    [{ dailyAt: '08:00', every: '1h' }, 'schedule s: dailyAt or every is needed, and not both'],
    [{ dialyAt: '08:00' }, 'schedule s: there is no dialyAt; there are name, dailyAt, every, weekdays, task'],
    [{ dailyAt: 8 }, 'schedule s: dailyAt is "8", and a time from 00:00 to 23:59 such as 08:00 is needed'],
    [{ every: 60_000 }, 'schedule s: every is "60000", and a time from 1s to 31d such as 15m is needed'],
    [{ every: '1h', weekdays: 'mon' }, "schedule s: weekdays is no list of days such as ['mon', 'fri']"],
    [{ every: '1h', name: '' }, 'schedule: name: a name of 1 to 100 characters is needed'],
    [{ every: '1h', name: 'n'.repeat(101) }, 'schedule: name: a name of 1 to 100 characters is needed'],
    [{ every: '1h', task: undefined }, 'schedule s: task: a task, or a function that makes one, is needed'],
    [{ every: '1h', task: 'look' }, 'schedule s: task: a task, or a function that makes one, is needed'],
    [{ every: '1h', weekdays: ['sunday'] }, 'schedule s: "sunday" is no weekday; they are mon, tue, wed, thu, fri, sat, sun'],
  ] as const) {
    assert.throws(() => schedule({ name: 's', task: order, ...given } as unknown as Parameters<typeof schedule>[0]), { message: why });
  }
  assert.throws(() => schedule(null as any), { message: 'schedule: an object with name, dailyAt, every, weekdays, task is needed' });
});

test('a webhook makes a task of its request, and says which', async () => {
  const b = noting();
  const stop = await b.start(webhook({ name: 'push', task: (body, headers) => (headers['x-sign'] && body.ref ? { ...order, title: body.ref } : null) }));
  assert.equal(b.hooked(), 'push');
  assert.deepEqual(await b.request({ ref: 'main' }), { task: 't1' });
  assert.deepEqual(await b.request({}), {});
  assert.deepEqual(b.made, [{ ...order, title: 'main' }]);
  stop();
  assert.equal(b.stopped(), 1);
  assert.throws(() => webhook({ name: 'a/b', task: () => null }), /letters, digits, _ and - alone/);
});

test('files are watched by the box', async () => {
  const b = noting();
  await b.start(onFileChange({ name: 'notes', paths: ['notes/**'], task: (changes) => ({ ...order, prompt: changes.map((c) => `${c.change} ${c.path}`).join() }) }));
  assert.deepEqual(b.watched, [{ kind: 'files', name: 'notes', workspace: 'home', paths: ['notes/**'] }]);
  await b.fire({ changes: [{ path: 'notes/a', change: 'added' }, { path: 'notes/b', change: 'deleted' }] });
  assert.equal(b.made[0]?.prompt, 'added notes/a,deleted notes/b');
  for (const path of ['', '/etc/*', 'a/../b', 'a//b', 'a/', './a']) assert.throws(() => onFileChange({ name: 'n', paths: [path], task: () => null }), /is no path inside a workspace/);
});

test('webhooks and watches of files that could not be are refused when they are made', () => {
  const task = () => null;
  for (const [made, why] of [
    [() => webhook({ name: 'p', task: order } as any), 'webhook p: task: a function that makes a task is needed'],
    [() => webhook({ name: 'p' } as any), 'webhook p: task: a function that makes a task is needed'],
    [() => webhook({ name: 'p', task, secret: 'x' } as any), 'webhook p: there is no secret; there are name, task'],
    [() => webhook({ name: 'p'.repeat(61), task }), `webhook ${'p'.repeat(61)}: its name may have up to 60 letters, digits, _ and - alone`],
    [() => webhook({ name: 5, task } as any), 'webhook: name: a name of 1 to 100 characters is needed'],
    [() => onFileChange({ name: 'n', task: order } as any), 'onFileChange n: task: a function that makes a task is needed'],
    [() => onFileChange({ name: 'n', task, path: '*.md' } as any), 'onFileChange n: there is no path; there are name, workspace, paths, task'],
    [() => onFileChange({ name: 'n', task, paths: [] }), 'onFileChange n: paths is no list with a path in it; leave it out for all'],
    [() => onFileChange({ name: 'n', task, paths: '*.md' } as any), 'onFileChange n: paths is no list with a path in it; leave it out for all'],
    [() => onFileChange({ name: 'n', task, paths: [5] } as any), 'onFileChange n: paths has something that is no text'],
    [() => onFileChange({ name: 'n', task, workspace: 5 } as any), 'onFileChange n: workspace is no text'],
  ] as const) assert.throws(made, { message: why });
});

test('a task that the box refuses is an error of the trigger', async () => {
  const b = noting();
  await b.start(schedule({ name: 's', every: '1h', task: () => Promise.reject(new Error('no idea')) }));
  await assert.rejects(async () => await b.fire(), /no idea/);
});
