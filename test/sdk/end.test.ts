// How a call's function learns that nobody waits for it any more: core/app/node/end.mjs, which every app's process has.

import assert from 'node:assert/strict';
import { test } from 'node:test';

const { End } = (await import(String(new URL('../../core/app/node/end.mjs', import.meta.url)))) as { End: new () => { signal: AbortSignal; abort(why: Error): void } };
const why = new Error('it took longer than it may');

test('who listens hears it once', () => {
  const end = new End();
  let heard = 0;
  end.signal.addEventListener('abort', () => heard++);
  assert.equal(end.signal, end.signal, 'it is one signal');
  assert.equal(end.signal.aborted, false);
  end.abort(why);
  end.abort(new Error('another reason'));
  assert.deepEqual([heard, end.signal.aborted, end.signal.reason], [1, true, why]);
});

test('who asks for the signal afterwards sees it too', () => {
  const end = new End();
  end.abort(why);
  end.abort(new Error('another reason'));
  assert.deepEqual([end.signal.aborted, end.signal.reason], [true, why]);
  assert.throws(() => end.signal.throwIfAborted(), why);
});
