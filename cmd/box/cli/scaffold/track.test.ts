// What can be tried without a box: node --test tracks/NAME/track.test.ts

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testBox } from '../../core/testbox.ts';
import app from './track.ts';

test('it writes down what it is told', async () => {
  const b = await testBox(app);
  assert.deepEqual(await b.call('NAME.write', { text: 'Buy tea' }), { ok: true, output: { lines: 1 } });
  assert.deepEqual(b.steps(), [{ text: 'written down: Buy tea' }]);
  assert.deepEqual(await (await b.fetch('GET /notes')).json(), ['Buy tea']);
  assert.equal((await b.call('NAME.write', {})).error, "input: missing property 'text'");
});

test('there is a task every evening of a working day', async () => {
  const b = await testBox(app, { now: '2026-01-02T12:00:00Z' }); // a Friday
  await b.advance('4d');
  assert.deepEqual(b.tasks.map((t) => t.createdAt), ['2026-01-02T18:00:00.000Z', '2026-01-05T18:00:00.000Z']);
});
