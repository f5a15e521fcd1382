// The test box by itself: its clock, its files, its readers, and what it refuses of an app. That it says what a real box says, twin.test.ts holds.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Track } from '../../core/contract.ts';
import { testBox } from '../../core/testbox.ts';
import { fits } from '../../core/testbox/clock.ts';
import { onFileChange, schedule } from '../../core/triggers.ts';

const order = { title: 'T', prompt: 'step x', worker: 'fake' } as const;

const app = (more: Partial<Track>): Track => ({ name: 'x', ...more });

/** An app whose schedule starts a task that says when it was due. */
const scheduled = (when: { dailyAt?: string; every?: string; weekdays?: any[] }) =>
  app({ triggers: [schedule({ name: 's', ...(when as { dailyAt: string }), task: ({ at, late }) => ({ ...order, title: `${at.toISOString().slice(0, 16)}${late ? ' late' : ''}` }) })] });

const ran = (b: { tasks: { title: string }[] }) => b.tasks.map((t) => t.title);

test('what the box would refuse of an app, it refuses', async () => {
  const alive = (v: any): any => (v !== null && typeof v === 'object' ? (v.ƒ === true ? () => {} : Array.isArray(v) ? v.map(alive) : Object.fromEntries(Object.entries(v).map(([name, x]) => [name, alive(x)]))) : v);
  const rows = JSON.parse(readFileSync(new URL('declared.json', import.meta.url), 'utf8')) as { says: string; app: unknown }[];
  for (const { says, app } of rows) {
    const made = testBox(alive(app) as Track);
    if (says === '') await made;
    else await assert.rejects(made, { message: says });
  }
  for (const name of ['box', 'api', 'schedule', 'kit']) await assert.rejects(testBox({ name }), { message: `no app may be called ${name}: the box uses that name itself` });
  await assert.rejects(testBox({ name: 'Big' }), /is no name for an app/);
  await assert.rejects(testBox(undefined as unknown as Track), /exports no app as its default/);
});

test('a watch that the box would refuse, it refuses with the same words', async () => {
  const rows = JSON.parse(readFileSync(new URL('../../core/watch/testdata/watches.json', import.meta.url), 'utf8')) as { says: string; watch: any }[];
  const b = await testBox(app({}));
  for (const { says, watch } of rows) {
    const add = () => b.box.watch(watch, () => {})();
    if (says === '') add();
    else assert.throws(add, { message: says }, JSON.stringify(watch));
  }
  assert.throws(() => b.box.watch({ kind: 'daily', name: 'a\nb', at: '08:00' }, () => {}), { message: /a name of 1 to 100 characters is needed/ });
});

test('a day is called for once, whatever the clock does', async () => {
  const zone = { timeZone: 'Europe/Berlin' };
  // Clocks forward: 02:30 does not exist on 29 March, and comes at 03:00.
  let b = await testBox(scheduled({ dailyAt: '02:30' }), { now: '2026-03-28T00:00:00Z', ...zone });
  await b.advance('3d');
  assert.deepEqual(ran(b), ['2026-03-28T01:30', '2026-03-29T01:00', '2026-03-30T00:30']);
  // Clocks back: 02:30 exists twice on 25 October, and is taken once.
  b = await testBox(scheduled({ dailyAt: '02:30' }), { now: '2026-10-24T00:00:00Z', ...zone });
  await b.advance('3d');
  assert.deepEqual(ran(b), ['2026-10-24T00:30', '2026-10-25T00:30', '2026-10-26T01:30']);
  // Set back over its time, it does not run again; set forward, it is made up for.
  b = await testBox(scheduled({ dailyAt: '08:00' }), { now: '2026-01-05T07:00:00Z' });
  await b.advance('2h');
  await b.setClock('2026-01-05T07:30:00Z');
  await b.advance('2h');
  assert.deepEqual(ran(b), ['2026-01-05T08:00']);
  await b.setClock('2026-01-06T09:00:00Z');
  assert.deepEqual(ran(b), ['2026-01-05T08:00', '2026-01-06T08:00 late']);
});

test('what was missed is made up for within 12 hours, once', async () => {
  const b = await testBox(scheduled({ dailyAt: '08:00' }), { now: '2026-01-05T07:00:00Z' });
  await b.sleep('12h');
  assert.deepEqual(ran(b), ['2026-01-05T08:00 late']);
  await b.sleep('1d');
  await b.sleep('2h');
  assert.deepEqual(ran(b), ['2026-01-05T08:00 late', '2026-01-06T08:00 late'], 'it was due 11 hours before');
  await b.sleep('22h');
  assert.deepEqual(ran(b).length, 3);
  await b.sleep('3d');
  const log = b.log.flatMap((e) => (e.type === 'note' && e.track === 'box' ? [e.data as any] : []));
  assert.deepEqual(log.at(-1), { what: 'schedule ran', app: 'x', trigger: 's', due: '2026-01-10T08:00:00.000Z', date: '2026-01-10', left: 2, from: '2026-01-08', late: true });
  const late = await testBox(scheduled({ dailyAt: '08:00' }), { now: '2026-01-05T07:00:00Z' });
  await late.sleep('13h');
  assert.deepEqual(ran(late), [], '12 hours are too late');
  assert.equal(((late.log.at(-1) as any).data as any).what, 'schedule missed');
});

test('days of the week, and spans', async () => {
  let b = await testBox(scheduled({ dailyAt: '08:00', weekdays: ['fri', 'mon'] }), { now: '2026-01-05T09:00:00Z' });
  await b.advance('14d');
  assert.deepEqual(ran(b).map((t) => t.slice(0, 10)), ['2026-01-09', '2026-01-12', '2026-01-16', '2026-01-19']);
  b = await testBox(scheduled({ every: '6h' }), { now: '2026-01-05T01:00:00Z' });
  await b.advance('1d');
  assert.deepEqual(ran(b), ['2026-01-05T07:00', '2026-01-05T13:00', '2026-01-05T19:00', '2026-01-06T01:00']);
  await b.setClock('2026-03-01T00:00:00Z');
  await b.advance('5h');
  assert.equal(ran(b).length, 4, 'a span goes by the time that really passes');
  await b.advance('1h');
  assert.equal(ran(b).length, 5);
  b = await testBox(scheduled({ every: '9h', weekdays: ['tue'] }), { now: '2026-01-05T00:00:00Z' });
  await b.advance('2d');
  assert.deepEqual(ran(b), ['2026-01-06T00:00', '2026-01-06T09:00', '2026-01-06T18:00']);
});

test('a trigger that fails is told, and goes on', async () => {
  const b = await testBox(app({ triggers: [schedule({ name: 's', every: '1h', task: () => ({ ...order, workspace: 'none' }) })] }));
  await b.advance('2h');
  const failed = b.log.filter((e) => e.type === 'note' && (e.data as any).what === 'trigger failed');
  assert.equal(failed.length, 2);
  assert.equal((failed[0] as any).data.error, 'workspace: there is no workspace none; make it first');
});

test('changes of files come together, once they are at rest', async () => {
  const b = await testBox(app({ triggers: [onFileChange({ name: 'f', paths: ['in/*.txt'], task: (changes) => ({ ...order, title: changes.map((c) => `${c.change} ${c.path}`).join() }) })] }));
  await b.change({ 'in/b.txt': 'b', 'in/a.txt': 'a', 'in/deep/c.txt': 'c', 'other.txt': 'x' });
  await b.change({ 'in/a.txt': 'again', 'in/b.txt': null });
  await b.change({ 'in/a.txt': 'again' });
  assert.deepEqual(b.tasks.filter((t) => t.app).map((t) => t.title), ['added in/a.txt,added in/b.txt', 'modified in/a.txt,deleted in/b.txt']);
  const task = await b.newTask(order);
  await b.finish(task, { files: { 'in/d.txt': 'd' } });
  assert.equal(b.tasks.filter((t) => t.app).length, 2, 'half a second has to pass');
  await b.advance('1s');
  assert.equal(b.tasks.filter((t) => t.app).at(-1)?.title, 'added in/d.txt');
});

test('globs', () => {
  for (const [glob, path, want] of [
    ['*', 'a', true], ['*', 'a/b', false], ['**', 'a/b', true], ['a/**', 'a', false], ['a/**', 'a/b/c', true], ['**/c', 'c', true], ['**/c', 'a/b/c', true], ['a/**/c', 'a/c', true], ['?.txt', 'a.txt', true], ['?.txt', 'ab.txt', false], ['a.b', 'axb', false], ['[a]', '[a]', true],
  ] as const) {
    assert.equal(fits(glob, path), want, `${glob} ${path}`);
  }
});

test('a reader gets every line in order, and one that it failed at again after 5 seconds', async () => {
  const seen: number[] = [];
  let fails = 2;
  const b = await testBox(app({ logReaders: [{ name: 'r', read: (e) => { if (e.type === 'note' && e.track === 'x' && fails-- > 0) throw new Error('not now'); seen.push(e.seq); } }], triggers: [{ name: 'n', start: (box) => { box.note('first'); return () => {}; } }] }));
  assert.deepEqual(seen, []);
  await b.advance('4s');
  assert.deepEqual(seen, []);
  await b.advance('1s');
  assert.deepEqual(seen, []);
  await b.advance('5s');
  await b.setSecret('SOME_KEY', '12345678');
  assert.deepEqual(seen, [1, 2]);
  assert.deepEqual(b.faults, ['reader r: not now', 'reader r: not now']);
});

test('a worker of the test works, and undo takes its files back', async () => {
  const b = await testBox(app({ tools: [{ name: 'x.two', description: 'd', cost: () => 60, run: async () => 2 }] }), {
    owner: (q) => q.costCents === 60,
    worker: async (task, hand) => {
      if (task.title === 'Bad') throw new Error('it can not');
      hand.write('out.txt', String((await hand.call('x.two')).output));
      hand.step('half');
      if (!(await hand.ask('Go on?'))) return 'stopped half way';
      return 'whole';
    },
  });
  const good = await b.newTask({ ...order, title: 'Good', tools: ['x.two'], budgetCents: 10 });
  const bad = await b.newTask({ ...order, title: 'Bad' });
  await b.settle();
  const [one, two] = b.tasks;
  assert.deepEqual([one?.state, one?.summary, one?.costCents], ['done', 'stopped half way', 60]);
  assert.deepEqual([two?.id, two?.state, two?.error], [bad, 'failed', 'it can not']);
  assert.equal(b.view('home', 'out.txt'), '2');
  await b.box.undo(good);
  assert.equal(b.view('home', 'out.txt'), undefined);
});

test('a trigger without an end stays, and the box says so', async () => {
  const b = await testBox(app({ triggers: [{ name: 't', start: () => {} }] }));
  assert.equal(b.restartNeeded, false);
  await b.off();
  assert.equal(b.restartNeeded, true);
});

test('while agents are paused, tasks wait', async () => {
  const b = await testBox(app({}));
  await b.pause(true);
  const { id } = await b.box.createTask(order);
  assert.equal(b.box.task(id)?.state, 'queued');
  await b.pause(false);
  assert.equal(b.box.task(id)?.state, 'running');
});

test('the log is a chain, and nobody can bend what it gave', async () => {
  const b = await testBox(app({}));
  b.box.note({ a: 1 });
  (b.log[0] as any).data.a = 2;
  b.box.tasks().push({} as any);
  b.box.note({ b: 1 });
  assert.deepEqual(b.notes, [{ a: 1 }, { b: 1 }]);
  assert.equal(b.log[0]?.prev, '');
  assert.match(b.log[1]?.prev ?? '', /^[0-9a-f]{64}$/);
});
