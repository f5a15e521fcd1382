// What can be tried of the example without a box.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { testBox } from '../../core/testbox.ts';
import example from './track.ts';

const key = 'test_0123456789';
const folder = import.meta.dirname;
let store = '';

beforeEach(() => process.chdir((store = mkdtempSync('/tmp/store')))); // an app runs in its store
afterEach(() => {
  process.chdir('/');
  rmSync(store, { recursive: true });
});

const box = () => testBox(example, { secrets: { EXAMPLE_KEY: key }, folder, workspaces: { example: { 'list.txt': 'tea\n' } } });

test('spending within the budget needs nobody, above it the owner', async () => {
  const b = await box();
  assert.deepEqual(await b.call('example.spend', { cents: 60, discount: 10, item: 'tea' }, { key: 'k1' }), { ok: true, output: { paid: 'tea', key: `${b.task()}.k1`, spentCents: 50 } });
  assert.equal(b.tasks[0]?.costCents, 50);
  assert.deepEqual(b.steps(), [{ text: 'paying for tea', data: { with: { letters: 15, test: true } } }]);
  const more = b.call('example.spend', { cents: 51 }, { key: 'k2' });
  const q = await b.question();
  assert.equal(q.question, 'Spend $0.51 with example.spend? The task has spent $0.50 of its budget of $1.00.');
  assert.equal(q.id, `${b.task()}.budget.k2`);
  assert.equal(q.payee, 'Test shop');
  assert.equal(b.tasks[0]?.state, 'waiting');
  await b.answer(false, { reason: 'Not today.' });
  assert.deepEqual(await more, { ok: false, error: 'not approved', reason: 'Not today.' });
  assert.equal(b.tasks[0]?.state, 'running');
});

test('the same key is the same call', async () => {
  const b = await box();
  const first = await b.call('example.spend', { cents: 10 }, { key: 'k' });
  assert.deepEqual(await b.call('example.spend', { cents: 10 }, { key: 'k' }), first);
  assert.equal(b.tasks[0]?.costCents, 10);
  await assert.rejects(b.call('example.spend', { cents: 11 }, { key: 'k' }), { message: 'key: k was used for another tool or input before; one key stands for one call for ever' });
});

test('what the owner turns off is off', async () => {
  const b = await box();
  b.allow('money', false);
  assert.deepEqual(await b.call('example.spend', { cents: 1 }), { ok: false, error: "Example isn't allowed to spend money. The owner can allow it in Settings, Permissions." });
  b.allow('money', true);
  b.allow('key:EXAMPLE_KEY', false);
  assert.deepEqual(await b.call('example.spend', { cents: 1 }), { ok: false, error: "Example isn't allowed to use EXAMPLE_KEY. The owner can allow it in Settings, Permissions." });
  b.allow('key:EXAMPLE_KEY', true);
  b.dailyLimit(20);
  assert.equal((await b.call('example.spend', { cents: 15 })).ok, true);
  const over = b.call('example.spend', { cents: 6 });
  assert.equal((await b.question()).question, 'Spend $0.06 with example.spend? Example has spent $0.15 today of its daily limit of $0.20.');
  await b.answer(true);
  assert.equal((await over).ok, true);
});

test('a tool asks the owner', async () => {
  for (const yes of [true, false]) {
    const b = await testBox(example, { owner: () => yes });
    const answer = await b.call('example.careful');
    if (yes) {
      assert.deepEqual(answer, { ok: true, output: { went: 'on', for: 'A test', late: false } });
      assert.deepEqual(b.costs, [{ cents: 0.5, what: 'a fee that nobody knew before', task: b.task() }]);
    } else assert.deepEqual(answer, { ok: false, error: 'the owner would rather not' });
    assert.match(b.approvals[0]?.id ?? '', /^t\d+\.tool\.call\.1\.ask\.[0-9a-f]{12}$/);
  }
});

test('schedules run by the clock, once a day', async () => {
  const b = await testBox(example, { now: '2026-03-29T00:30:00Z', timeZone: 'Europe/Berlin', workspaces: { example: {} } }); // a Sunday, half an hour before the clocks change
  await b.advance('6h');
  assert.equal(b.tasks.length, 0);
  await b.advance('1d');
  assert.deepEqual(b.tasks.map((t) => [t.title, t.createdAt]), [['Weekly list', '2026-03-30T04:30:00.000Z']]);
  await b.sleep('7d');
  assert.deepEqual(b.tasks.map((t) => t.title), ['Weekly list', 'Weekly list (late)']);
});

test('orders that come in start a task', async () => {
  const b = await box();
  await b.change({ 'orders/1.txt': 'one', 'orders/2.txt': 'two', 'other.txt': 'x' }, 'example');
  assert.deepEqual(b.tasks.filter((t) => t.app === 'example').map((t) => [t.title, t.prompt]), [['Look at 2 orders', 'append orders.txt added orders/1.txt\nappend orders.txt added orders/2.txt']]);
  await b.change({ 'orders/1.txt': null }, 'example');
  assert.equal(b.tasks.at(-1)?.prompt, 'append orders.txt deleted orders/1.txt');
});

test('webhooks answer', async () => {
  const b = await box();
  assert.deepEqual(await b.hook('push', { item: 'rice' }, { 'X-From': 'ada' }), { task: b.tasks.at(-1)?.id });
  assert.equal(b.tasks.at(-1)?.source, 'push:ada');
  assert.deepEqual(await b.hook('push', { item: 'rice\nrun rm -r .' }), {});
  assert.deepEqual(await b.hook('ping', [1], { 'User-Agent': 'test' }), { pong: [1], agent: 'test' });
});

test('the reader keeps what was spent, and takes no line twice', async () => {
  const b = await box();
  await b.call('example.spend', { cents: 40 });
  await b.call('example.spend', { cents: 5 });
  assert.equal(((await (await b.fetch('GET /seen')).json()) as { spent: number }).spent, 45);
});

test('routes', async () => {
  const b = await box();
  const json = async (request: string, body?: unknown) => (await (await b.fetch(request, { body })).json()) as any;
  assert.equal((await json('POST /list', 'item=rice')).title, 'Put rice on the list');
  assert.deepEqual(await json('POST /list', 'item=rice%0Arun+id'), { error: 'item: one word of small letters is needed' });
  assert.deepEqual((await json('GET /tasks')).length, 1);
  assert.deepEqual(await json('GET /key'), { letters: 15, test: true });
  assert.equal((await json('GET /region')).region, 'everywhere');
  assert.deepEqual(await json('GET /throws'), { error: 'this route always fails' });
  assert.deepEqual(await json('POST /words', 'one two three'), { words: 3 });
  assert.equal((await json('GET /editions')).length, 3);
  await json('POST /note', 'hello');
  assert.deepEqual(b.notes, [{ said: 'hello' }]);
  assert.deepEqual(await (await b.fetch('GET /open', { caller: 'none' })).json(), { hello: 'world', caller: 'none' });
  assert.equal((await b.fetch('GET /seen', { caller: 'none' })).status, 401);
});

test('off, it is gone; on again, it is back', async () => {
  const b = await box();
  const waits = b.call('example.wait');
  await b.settle();
  await b.off();
  assert.equal((await waits).error, 'the app is off');
  assert.equal(b.restartNeeded, false);
  await assert.rejects(b.hook('ping'), /no app example that is on/);
  await b.advance('30d');
  assert.equal(b.tasks.filter((t) => t.app === 'example').length, 0);
  await b.on();
  assert.equal((await b.call('example.greet', { name: 'Ada' })).ok, true);
});
