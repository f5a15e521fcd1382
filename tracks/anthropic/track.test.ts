// The model app against a stand-in that speaks the real protocol.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Messages, messages } from '../../test/fixtures/messages/client.ts';
import { testBox } from '../../core/testbox.ts';
import { cents } from './cost.ts';
import { silence } from './messages.ts';
import anthropic from './track.ts';

const key = 'sk-ant-test-0123456789';
let api: Messages;

before(async () => {
  api = await messages(key);
});
after(() => api.stop());

const box = (secrets: Record<string, string> = {}) => testBox(anthropic, { secrets: { ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: api.url, ...secrets } });

/** The last note of the app. */
const noted = (b: Awaited<ReturnType<typeof box>>) => b.notes.at(-1) as { what: string; accepted?: boolean; error?: string } | undefined;

async function until(what: string, fn: () => boolean): Promise<void> {
  const end = performance.now() + 60_000;
  while (!fn()) {
    if (performance.now() > end) throw new Error(`${what}: not within 60 s`);
    await new Promise((go) => setImmediate(go));
  }
}

test('the job asks and gives the whole answer', async () => {
  const b = await box();
  const a = await b.job('ask', { prompt: 'Hello, you', system: 'Be short.', model: 'opus', maxTokens: 50 });
  assert.deepEqual(a, { text: 'You said: Hello, you', model: 'claude-opus-5', stop: 'end_turn', tokens: { input: 25, output: 12, cacheWrite: 7, cacheRead: 100 }, cents: 0.051875 });
  const sent = api.seen.find((s) => s.method === 'POST');
  assert.deepEqual(sent?.body, { model: 'claude-opus-5', max_tokens: 50, stream: true, messages: [{ role: 'user', content: 'Hello, you' }], system: 'Be short.' });
  assert.equal(sent?.key, key);
  assert.deepEqual(b.costs, [{ cents: 0.051875, what: 'claude-opus-5: 132 tokens read, 12 written' }]);
});

test('a conversation, and a task that pays for it', async () => {
  const b = await box();
  const task = b.task();
  const a = await b.job('ask', { messages: [{ role: 'user', content: 'One' }, { role: 'assistant', content: 'Two' }, { role: 'user', content: 'Grüße 🎉' }] }, task);
  assert.equal(a.text, 'You said: Grüße 🎉');
  assert.equal(a.model, 'claude-sonnet-5-5');
  assert.equal(b.tasks[0]?.costCents, a.cents);
  assert.equal(b.costs[0]?.task, task);
});

test('a task asks by the tool, within its budget', async () => {
  const b = await box();
  const r = await b.call('anthropic.ask', { prompt: 'Hi' });
  assert.deepEqual(r, { ok: true, output: { text: 'You said: Hi', model: 'claude-sonnet-5-5', stop: 'end_turn', spentCents: 0.01975 } });
  assert.equal(b.tasks[0]?.costCents, 0.01975);
  const dear = b.call('anthropic.ask', { prompt: 'Hi', model: 'opus', maxTokens: 64000 });
  const q = await b.question();
  assert.match(q.question, /^Spend \$1\.61 with anthropic\.ask\? The task has spent \$0\.0001975 of its budget of \$1\.00\.$/);
  assert.equal(q.payee, 'Anthropic');
  await b.answer(false);
  assert.deepEqual(await dear, { ok: false, error: 'not approved' });
});

test('every refusal is a sentence', async () => {
  const b = await box();
  for (const [prompt, sentence] of [
    ['[[status 400]]', 'Anthropic did not take the question (400): Bad Request'],
    ['[[status 401]]', 'Your Anthropic key was not accepted. Change it in Settings, Accounts & Keys.'],
    ['[[status 402]]', 'Your Anthropic account has no credit left. Add some at Anthropic, then try again.'],
    ['[[status 403]]', 'Your Anthropic key may not be used for claude-sonnet-5-5. Give it more rights at Anthropic, or set another one in Settings, Accounts & Keys.'],
    ['[[status 413]]', 'The question is too long for claude-sonnet-5-5.'],
    ['[[status 429 90]]', 'Anthropic limits how much your key may ask, and it asked more. Try again in 90 s.'],
    ['[[status 429 0]]', 'Anthropic limits how much your key may ask, and it asked more. Try again in 0 s.'],
    ['[[status 529 0]]', 'Anthropic is overloaded. Try again in 0 s.'],
    ['[[status 500 0]]', 'Anthropic has a fault of its own (500). Try again in 0 s.'],
    ['[[error overloaded_error]]', 'Anthropic is overloaded. Try again in a few minutes.'],
    ['[[error invalid_request_error]]', 'Anthropic did not take the question (400): Overloaded'],
    ['[[break]]', "Anthropic's answer broke off. Try again."],
    ['[[garbage]]', "Anthropic's answer can't be read. Is ANTHROPIC_BASE_URL the address of its API?"],
    ['[[refuse]]', 'claude-sonnet-5-5 declined to answer this.'],
  ] as const) {
    await assert.rejects(b.job('ask', { prompt }), { message: sentence }, prompt);
  }
  await assert.rejects(b.job('ask', { prompt: 'x', model: 'claude-nine' }), { message: 'Anthropic has no model named claude-nine.' });
});

test('what a broken answer used is paid', async () => {
  const b = await box();
  await assert.rejects(b.job('ask', { prompt: '[[refuse]]' }));
  assert.deepEqual(b.costs.map((c) => c.cents), [0.01975]);
  const r = await b.call('anthropic.ask', { prompt: '[[break]]' });
  assert.equal(r.ok, false);
  const half = cents('claude-sonnet-5-5', { input: 25, output: 2, cacheWrite: 7, cacheRead: 100 });
  assert.equal(b.costs.at(-1)?.cents, half);
  assert.equal(b.tasks.at(-1)?.costCents, half);
});

test('an answer that is cut says so', async () => {
  assert.equal((await (await box()).job('ask', { prompt: 'x [[cut]]' })).stop, 'max_tokens');
});

test('a passing fault is tried again', async () => {
  const b = await box();
  assert.equal((await b.job('ask', { prompt: 'again [[status 529 once]]' })).text, 'You said: again');
});

test('silence ends, and so does a question that nobody waits for', async (t) => {
  const b = await box();
  await b.settle();
  t.mock.timers.enable({ apis: ['setTimeout'] });
  for (const quiet of ['[[silent]]']) {
    let over = false;
    const asked = assert.rejects(b.job('ask', { prompt: quiet }), { message: 'Anthropic said nothing for 60 s. Try again.' }).finally(() => (over = true));
    while (!over) {
      t.mock.timers.tick(silence);
      await new Promise((go) => setImmediate(go));
    }
    await asked;
  }
  t.mock.timers.reset();
  const seen = api.seen.length;
  const asked = assert.rejects(b.job('ask', { prompt: '[[silent]] off' }), { message: 'the app is off' });
  await until('the question', () => api.seen.length > seen);
  await b.off();
  await asked;
});

test('what is asked is checked first', async () => {
  const b = await box();
  for (const [given, why] of [
    [null, 'ask: an object with a prompt is needed'],
    [{}, 'ask: a prompt is needed, or messages, and not both'],
    [{ prompt: 'a', messages: [] }, 'ask: a prompt is needed, or messages, and not both'],
    [{ prompt: ' ' }, 'ask: prompt: a text is needed'],
    [{ messages: [] }, 'ask: messages: at least one is needed'],
    [{ messages: [{ role: 'system', content: 'x' }] }, 'ask: messages[0].role: user or assistant is needed'],
    [{ messages: [{ role: 'assistant', content: 'x' }] }, 'ask: messages: the first is the user'],
    [{ prompt: 'a', model: 'gpt' }, 'ask: model: haiku, sonnet, opus or an id that starts with claude- is needed'],
    [{ prompt: 'a', model: '__proto__' }, 'ask: model: haiku, sonnet, opus or an id that starts with claude- is needed'],
    [{ prompt: 'a', maxTokens: 0 }, 'ask: maxTokens: a whole number from 1 to 64000 is needed'],
    [{ prompt: 'a', temperature: 2 }, 'ask: temperature: a number from 0 to 1 is needed'],
    [{ prompt: 'a', tools: [] }, 'ask: there is no tools; there are prompt, messages, system, model, maxTokens, temperature'],
  ] as const) {
    await assert.rejects(b.job('ask', given), { message: why });
  }
});

test('a key is tried when it is set', async () => {
  const b = await testBox(anthropic, { secrets: { ANTHROPIC_BASE_URL: api.url } });
  assert.deepEqual(await (await b.fetch('GET /key')).json(), { set: false });
  await assert.rejects(b.job('ask', { prompt: 'x' }), { message: 'There is no Anthropic key yet. Add one in Settings, Accounts & Keys.' });
  await b.setSecret('ANTHROPIC_API_KEY', 'sk-ant-wrong-key');
  await until('its note', () => noted(b) !== undefined);
  assert.equal(noted(b)?.accepted, false);
  assert.equal(noted(b)?.error, 'Your Anthropic key was not accepted. Change it in Settings, Accounts & Keys.');
  await b.setSecret('ANTHROPIC_API_KEY', key);
  await until('its note', () => noted(b)?.accepted === true);
  const state = (await (await b.fetch('GET /key')).json()) as { accepted?: boolean; error?: string };
  assert.equal(state.accepted, true);
  assert.equal(state.error, undefined);
  assert(!JSON.stringify(b.log).includes(key), 'the key is nowhere in the log');
});

test('an address that is none is said, and an owner who says no is heard', async () => {
  for (const url of ['not an address', 'file:///etc/passwd', 'https://user:pass@example.com', 'https://example.com/?q=1']) {
    const b = await box({ ANTHROPIC_BASE_URL: url });
    await assert.rejects(b.job('ask', { prompt: 'x' }), { message: 'ANTHROPIC_BASE_URL is no address such as https://api.anthropic.com. Change it in Settings, Accounts & Keys.' });
  }
  const gone = await box({ ANTHROPIC_BASE_URL: 'http://127.0.0.1:9' });
  await assert.rejects(gone.job('ask', { prompt: 'x' }), { message: "Anthropic can't be reached. Is the box online?" });
  const b = await box();
  b.allow('key:ANTHROPIC_API_KEY', false);
  await assert.rejects(b.job('ask', { prompt: 'x' }), { message: "Claude isn't allowed to use ANTHROPIC_API_KEY. The owner can allow it in Settings, Permissions." });
});

test('it costs what the box says it costs', () => {
  const million = { input: 1_000_000, output: 0, cacheWrite: 0, cacheRead: 0 };
  assert.equal(cents('claude-opus-5', million), 500);
  assert.equal(cents('claude-haiku-4-5-20251001', million), 100);
  assert.equal(cents('claude-haiku-5-5', { ...million, input: 100_000 }), 1);
  assert.equal(cents('claude-haiku-5-5', { ...million, input: 100_001 }), 5.00005);
  assert.equal(cents('claude-nobody-knows', million), 200);
});
