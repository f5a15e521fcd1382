import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testBox } from '../../core/testbox.ts';
import hello from './track.ts';

test('it greets', async () => {
  const b = await testBox(hello);
  assert.deepEqual(await b.call('hello.greet', { name: 'Ada' }), { ok: true, output: { greeting: 'Hello, Ada' } });
  assert.deepEqual(await b.call('hello.greet', {}), { ok: false, error: "input: missing property 'name'" });
});

test('every morning there is a task', async () => {
  const b = await testBox(hello, { now: '2026-01-05T07:59:00+01:00', timeZone: 'Europe/Berlin', droid: true }); // its task names no worker
  await b.advance('59s');
  assert.equal(b.tasks.length, 0);
  await b.advance('1s');
  const [task] = b.tasks;
  assert.equal(task?.title, 'Morning note');
  assert.equal(task.source, 'schedule');
  assert.equal(task.app, 'hello');
  assert.deepEqual(task.tools, ['hello.greet']);
  await b.advance('7d');
  assert.equal(b.tasks.length, 8);
});

test('where there is no Droid yet, the log says so every morning', async () => {
  const b = await testBox(hello, { now: '2026-01-05T07:59:00Z' });
  await b.advance('1d');
  assert.equal(b.tasks.length, 0);
  const failed = b.log.filter((e) => e.type === 'note' && e.track === 'box' && (e.data as { what?: string }).what === 'trigger failed');
  assert.equal(failed.length, 1);
  assert.match(JSON.stringify(failed), /droid is not in this build/);
});

test('its page says hello', async () => {
  const page = await (await testBox(hello)).fetch('GET /');
  assert.equal(page.headers.get('content-type'), 'text/html');
  assert.equal(await page.text(), '<h1>Hello</h1>');
});
