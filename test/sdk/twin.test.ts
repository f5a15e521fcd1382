// The same app on a test box and on a real one: what it is given, refused, asked and written must be the same, so that a unit test tells the truth.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import type { Approval, Json, LogEvent, Task } from '../../core/contract.ts';
import { type CallAnswer, type TestBox, testBox } from '../../core/testbox.ts';
import { RunningBox, root } from '../demo/kit/box.ts';
import { kit } from '../demo/kit/kit.ts';
import twin from './tracks/twin/track.ts';

const key = 'twin_0123456789';

/** A box as this test uses it. */
interface Twin {
  /** A method of Box, called by a route. */
  box(what: string, ...args: unknown[]): Promise<Json>;
  /** A request: its status and body. */
  request(request: string, body?: string, stranger?: boolean): Promise<[number, any, string | null]>;
  hook(name: string, body: Json): Promise<Json>;
  /** Has a task with these settings make calls, one after the other, while the owner says yes or no to each question. */
  calls(calls: [tool: string, input: unknown][], spec?: object, owner?: boolean): Promise<{ answers: CallAnswer[]; asked: Partial<Approval>[]; log: unknown[]; cents: number }>;
  allow(item: string, on: boolean): Promise<void>;
  limit(cents: number | null): Promise<void>;
  log(): Promise<LogEvent[]>;
}

/** Takes out of lines what differs from box to box, and what the worker of a real one says; tasks get the names T1, T2, … in their order. */
function plain(lines: LogEvent[], tasks: string[]): unknown[] {
  const said = lines.filter((e) => !(e.type === 'task.step' && e.text.startsWith('trycall ')));
  return said.map((line) => {
    const { seq: _seq, at: _at, prev: _prev, clock: _clock, layers: _layers, ...rest } = line as any;
    if (rest.spec) rest.spec.prompt = '';
    let text = JSON.stringify(rest, (_name, v) => (v !== null && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v));
    tasks.forEach((id, i) => (text = text.replaceAll(id, `T${i + 1}`)));
    return JSON.parse(text);
  });
}

const question = ({ question, costCents, payee, purpose, state, by, key, tool, input, reason }: Approval) => ({ question, costCents, payee, purpose, state, by, key, tool, input, reason });

const tools = ['twin.pay', 'twin.do', 'twin.end'];

function onTest(b: TestBox): Twin {
  return {
    box: async (what, ...args) => (await (await b.fetch('POST /do', { body: { do: what, with: args } })).json()) as Json,
    async request(request, body, stranger) {
      const a = await b.fetch(request, { body, ...(stranger ? { caller: 'none' } : {}) });
      const text = await a.text();
      return [a.status, a.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : text, a.headers.get('set-cookie')];
    },
    hook: (name, body) => b.hook(name, body).catch((err) => ({ threw: err.message })),
    async calls(calls, spec = {}, owner = true) {
      const before = b.approvals.length;
      const id = await b.newTask({ title: 'Calls', prompt: 'trycall …', worker: 'fake', tools, ...spec });
      const answers: CallAnswer[] = [];
      for (const [i, [tool, input]] of calls.entries()) {
        let over = false;
        const call = b.call(tool, input, { task: id, key: String(i + 1) }).finally(() => (over = true));
        await b.settle();
        while (!over) {
          if (b.approvals.some((a) => a.state === 'pending')) await b.answer(owner, { reason: 'So be it.' });
          else await b.settle();
        }
        answers.push(await call);
      }
      await b.finish(id);
      const t = b.tasks.find((x) => x.id === id);
      return { answers, asked: b.approvals.slice(before).map(question), log: plain(b.log.filter((e) => 'task' in e && e.task === id), [id]), cents: t?.costCents ?? -1 };
    },
    allow: async (item, on) => b.allow(item, on),
    limit: async (cents) => b.dailyLimit(cents ?? undefined),
    log: async () => b.log,
  };
}

/** A real box whose folder of apps is tracks/ here; core/ beside it is a link to the SDK. */
class TwinBox extends RunningBox {
  override env() {
    return { ...super.env(), BOX_TRACKS: join(import.meta.dirname, 'tracks') };
  }
}

function onReal(b: RunningBox): Twin {
  const d = kit(b, () => {});
  return {
    box: (what, ...args) => d.api('POST', '/t/twin/do', { do: what, with: args }),
    async request(request, body, stranger) {
      const [method = '', path = ''] = request.split(' ');
      const a = await fetch(`${b.url}/t/twin${path}`, { method, body: body ?? null, ...(stranger ? { headers: { 'x-forwarded-for': '192.0.2.9' } } : {}) });
      const text = await a.text();
      return [a.status, a.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : text, a.headers.get('set-cookie')];
    },
    async hook(name, body) {
      const a = await b.ask('POST', `/hook/twin/${name}`, body);
      return a.status < 300 ? a.body : { threw: a.body.error };
    },
    async calls(calls, spec = {}, owner = true) {
      const before = (await d.api<Approval[]>('GET', '/api/approvals')).length;
      const { id } = await d.api<Task>('POST', '/api/tasks', { title: 'Calls', prompt: calls.map(([tool, input]) => `trycall ${tool} ${JSON.stringify(input)}`).join('\n'), worker: 'fake', tools, ...spec });
      for (;;) {
        const t = await d.waitFor('the task', async () => {
          const now = await d.api<Task>('GET', `/api/tasks/${id}`);
          return ['done', 'failed', 'waiting'].includes(now.state) && now;
        }, 60_000);
        if (t.state !== 'waiting') {
          const answers = (await d.log(id)).flatMap((e) => (e.type === 'task.step' && (e.data as any)?.answer ? [(e.data as any).answer as CallAnswer] : []));
          const asked = (await d.api<Approval[]>('GET', '/api/approvals')).slice(before).map(question);
          return { answers, asked, log: plain(await d.log(id), [id]), cents: t.costCents };
        }
        for (const a of await d.api<Approval[]>('GET', '/api/approvals?state=pending')) await d.api('POST', `/api/approvals/${a.id}`, { approved: owner, reason: 'So be it.' });
      }
    },
    allow: async (item, on) => void (await d.api('PUT', '/api/permissions/twin', { [item]: on })),
    limit: async (cents) => void (await d.api('PUT', '/api/permissions/twin', { dailyLimitCents: cents })),
    log: () => d.log(),
  };
}

let real: RunningBox;
let pair: [Twin, Twin];

before(async () => {
  for (const need of ['bin/boxd', 'bin/box', '.cache/tasks']) assert(existsSync(join(root, need)), `there is no ${need}: run make build first`);
  real = new TwinBox();
  await real.start();
  const d = kit(real, () => {});
  await d.api('PUT', '/api/vault/TWIN_KEY', { value: key });
  await d.api('POST', '/api/workspaces', { name: 'work' });
  await d.api('PUT', '/api/apps/twin', { on: true });
  pair = [onTest(await testBox(twin, { secrets: { TWIN_KEY: key }, workspaces: { work: {} } })), onReal(real)];
});

after(async () => {
  await real?.stop();
  real?.remove();
});

/** Does the same on both, and holds what came of it against each other. What differs is told at the end of the test. */
async function same<T>(what: string, fn: (b: Twin) => Promise<T>): Promise<T> {
  const [mine, its] = [await fn(pair[0]), await fn(pair[1])];
  try {
    assert.deepEqual(JSON.parse(JSON.stringify(mine ?? null)), JSON.parse(JSON.stringify(its ?? null)));
  } catch (err) {
    differ.push(`${what}\n${(err as Error).message.split('\n').filter((l) => /^[+-]/.test(l)).join('\n')}`);
  }
  return mine;
}

let differ: string[] = [];
afterEach(() => {
  const all = differ.splice(0);
  assert.equal(all.length, 0, `the test box says what stands behind a +, the real one what stands behind a -:\n${all.join('\n')}`);
});

const order = { title: 'T', prompt: 'step x', worker: 'fake' };

test('a task that an app asks for is refused with the same sentence', async () => {
  for (const spec of [
    null, [], 'text', {}, { title: 'T' }, { ...order, title: '' }, { ...order, title: ' ' }, { ...order, title: 'x'.repeat(201) }, { ...order, prompt: 'x'.repeat(100_001) }, { ...order, title: 5 }, { ...order, title: null },
    { ...order, colour: 'red' }, { ...order, id: 't1' }, { ...order, app: 'other' }, { ...order, workspace: 'none' }, { ...order, workspace: '../x' }, { ...order, workspace: '' }, { ...order, worker: 'claude' },
    { title: 'T', prompt: 'step x' }, { title: 'T', prompt: '' }, { ...order, worker: 'droid' }, { ...order, worker: 'droid', model: 'gpt' }, { ...order, worker: 'droid', tools: ['twin.none'] }, { ...order, worker: 'droid', droid: { autonomy: 'full' } },
    { ...order, model: 'gpt' }, { ...order, model: 'claude-' }, { ...order, tools: ['twin.none'] }, { ...order, tools: 'twin.pay' }, { ...order, tools: [5] }, { ...order, tools: null }, { ...order, budgetCents: -1 }, { ...order, budgetCents: 0.5 },
    { ...order, budgetCents: 100_001 }, { ...order, budgetCents: '5' }, { ...order, source: '' }, { ...order, source: 'x'.repeat(201) }, { ...order, seat: 'x'.repeat(61) }, { ...order, folder: '/home' }, { ...order, folders: [] },
    { ...order, droid: 5 }, { ...order, droid: { plan: 'yes' } }, { ...order, droid: { autonomy: 'full' } }, { ...order, droid: { speed: 1 } }, { ...order, hosts: 'example.com' }, { ...order, hosts: Array(51).fill('example.com') },
    ...['', 'a b', 'http://example.com', 'example.com/x', 'u@example.com', '*', '*.com', '*.co.uk', '*.k12.ma.us', '*.any.ck', '*.x.kawasaki.jp', '*.github.io', '*.xn--55qx5d.cn', '*.公司.cn', 'a.*.com', 'localhost', 'x.localhost', '127.0.0.1:80', '0x7f.1:80', '10.1:80', '169.254.169.254:80', '192.0.2.1', '[::1]:80', '[2001:db8::1]', '224.0.0.1:5',
      'metadata.google.internal', 'a..b', '-a.com', 'a$.com', 'example.com:0', 'example.com:x', 'example.com:99999', `${'a'.repeat(64)}.com`, '[::ffff:127.0.0.1]:80', '198.18.0.1:80', '2001:db8::1'].map((host) => ({ ...order, hosts: [host] })),
  ]) {
    const gave = (await same(`createTask(${JSON.stringify(spec)?.slice(0, 100)})`, (b) => b.box('createTask', spec))) as { threw?: string };
    assert(gave.threw, `createTask(${JSON.stringify(spec)?.slice(0, 100)}) went through`);
  }
});

test('and made with the same defaults', async () => {
  const made = (t: any) => Object.fromEntries(Object.entries(t.gave ?? { threw: t.threw }).filter(([name]) => !['id', 'user', 'createdAt', 'updatedAt', 'layers'].includes(name)));
  for (const spec of [
    order, { ...order, hosts: ['EXAMPLE.com.', '*.Example.org:443', '192.0.2.34:443', '[2001:DB8::1]:22', 'bücher.example'] }, { ...order, tools: ['twin.pay', 'twin.pay'], budgetCents: 0, source: 'me', seat: 'Chief' },
    { ...order, workspace: 'work', model: 'opus', droid: { plan: true, autonomy: 'low' } }, { ...order, hosts: ['*.www.ck', '*.kawasaki.jp', '*.city.kawasaki.jp', '*.a.github.io'] },
  ]) {
    await same(`createTask(${JSON.stringify(spec)})`, async (b) => made(await b.box('createTask', spec)));
  }
});

test('every method of Box gives and refuses the same', async () => {
  for (const [what, ...args] of [
    ['secret', 'TWIN_KEY'], ['secret', 'TWIN_NONE'], ['secret', 'OTHER'], ['workspace', 'home'], ['workspace', '..'], ['workspace', ''], ['workspace', 'made'], ['linkWorkspace', 'x', '/y'], ['policy'], ['setPolicy', 'x', 'y'],
    ['task', 'tnone'], ['undo', 'tnone'], ['answer', 'none', true, 'twin'], ['answer', 'none', true, 'box screen'], ['answer', 'none', true, 'twinned'], ['answer', 'none', false, 'twin:ada'], ['answer', 'none', true, `twin:${'x'.repeat(100)}`],
    ['job', 'none', {}], ['job', 'twice', { a: 1 }], ['job', 'twice', null], ['job', 'twice', { a: 1 }, 'tnone'], ['job', 'twice', { do: 'secret', with: ['TWIN_KEY'] }], ['job', 'twice', { do: 'secret', with: ['TWIN_NONE'] }],
    ['job', 'twice', { do: 'ask', with: ['Really?'] }], ['job', 'twice', { do: 'log', with: ['to nobody'] }], ['job', 'twice', { do: 'cost', with: [0.25, 'a job'] }], ['job', 'twice', { do: 'cost', with: [-1, 'x'] }],
    ['note', { a: 1 }], ['note', 'text', 'tnone'], ['note', 'x'.repeat(70_000)], ['note', `the key: ${key}`],
    ['onWebhook', 'a/b'], ['onWebhook', ''], ['onWebhook', 'own'], ['onWebhook', 'own'], ['end'],
    ['watch', { kind: 'daily', name: 'w', at: '25:00' }], ['watch', { kind: 'every', name: 'w', ms: 10 }], ['watch', { kind: 'every', name: 'w', ms: 1000, weekdays: ['sunday'] }], ['watch', { kind: 'moon', name: 'w' }],
    ['watch', { kind: 'files', name: 'w', workspace: 'work', paths: ['/x'] }], ['watch', { kind: 'files', name: 'w', workspace: 'work', paths: ['a/../b'] }], ['watch', { kind: 'files', name: 'daily', workspace: 'work' }],
    ['watch', { kind: 'daily', name: 'w', at: '03:00' }], ['watch', { kind: 'daily', name: 'w', at: '04:00' }], ['end'],
  ]) {
    await same(`box.${what}(${JSON.stringify(args).slice(1, -1).slice(0, 100)})`, (b) => b.box(what as string, ...args));
  }
});

test('inputs are held to the schema with the same words', async () => {
  const wrong: unknown[] = [
    {}, { cents: '5' }, { cents: -1 }, { cents: 100_001 }, { cents: 1, name: 'x' }, { cents: 1, name: 'toolongname' }, { cents: 1, name: 'ABC' }, { cents: 1, kind: 'c' }, { cents: 1, list: ['x'] }, { cents: 1, list: [1, 2, 3] }, { cents: 1, list: [1, 1] },
    { cents: 1, list: [1.5] }, { cents: 1, more: 1 }, { cents: 1, one: 5 }, { cents: 1, deep: { deep: { deep: 5 } } }, { cents: 1, deep: { deep: { x: 5 } } }, { cents: null }, [], 'text', null,
  ];
  const { answers } = await same('wrong inputs', (b) => b.calls(wrong.map((input) => ['twin.pay', input])));
  assert(answers.every((a) => !a.ok), 'each is refused');
});

test('money: budget, threshold, yes and no, less than was approved', async () => {
  const pay = (cents: number, more: object = {}): [string, unknown] => ['twin.pay', { cents, ...more }];
  for (const [what, calls, spec, owner] of [
    ['within the budget', [pay(40), pay(60, { name: 'tea' })], {}, true],
    ['above it, yes', [pay(40), pay(61, { name: 'tea' }), pay(1)], {}, true],
    ['above it, no', [pay(101, { name: 'tea' }), pay(100)], {}, false],
    ['above the threshold', [pay(501)], { budgetCents: 5000 }, true],
    ['spends less', [pay(60, { spent: 10 }), pay(60, { spent: 0 }), pay(60, { spent: 61 }), pay(5, { spent: -1 })], { budgetCents: 500 }, true],
    ['parts of a cent', [pay(0.1), pay(0.2), pay(99.7), pay(0.05)], {}, true],
    ['no price', [pay(13)], {}, true],
    ['nothing', [pay(0)], { budgetCents: 0 }, true],
    ['no budget', [pay(1)], { budgetCents: 0 }, false],
  ] as [string, [string, unknown][], object, boolean][]) {
    await same(what, (b) => b.calls(calls, spec, owner));
  }
});

test('what the owner turns off', async () => {
  await same('off', async (b) => {
    await b.allow('money', false);
    await b.allow('key:TWIN_KEY', false);
    await b.allow('host:example.com', false);
    const out = [await b.calls([['twin.pay', { cents: 5 }], ['twin.do', { do: 'secret', with: ['TWIN_KEY'] }]]), await b.box('secret', 'TWIN_KEY'), await b.box('createTask', { ...order, hosts: ['example.com'] })];
    for (const item of ['money', 'key:TWIN_KEY', 'host:example.com']) await b.allow(item, true);
    return out;
  });
  await same('strangers', async (b) => {
    const out = [await b.request('GET /open', undefined, true)];
    await b.allow('strangers', false);
    out.push(await b.request('GET /open', undefined, true));
    await b.allow('strangers', true);
    return out;
  });
});

test('a Ctx gives and refuses the same, and every end of a tool is the same', async () => {
  const on = (what: string, ...args: unknown[]): [string, unknown] => ['twin.do', { do: what, with: args }];
  await same('ctx', (b) =>
    b.calls([
      on('secret', 'TWIN_KEY'), on('secret', 'TWIN_NONE'), on('secret', 'OTHER'), on('cost', 1.5, 'a fee'), on('cost', -1, 'x'), on('cost', 'x', 'x'), on('cost', 1, ''), on('log', 'a step'), on('log', `with ${key}`, { and: key }), on('log', ''), on('log', 'x'.repeat(4001)),
      on('ask', 'May I?', { purpose: 'to see' }), on('ask', 'May I?'), on('ask', ''), on('ask', `with ${key}?`),
    ]),
  );
  await same('ctx, no', (b) => b.calls([on('ask', 'May I?')], {}, false));
  await same('ends', (b) => b.calls(['throws', 'text', 'null', 'nothing', 'secret', 'plain'].map((how) => ['twin.end', { how }])));
  await same('not its tool', (b) => b.calls([['twin.pay', { cents: 1 }], ['hello.greet', {}], ['twin.none', {}]], { tools: ['twin.do'] }));
});

test('routes and webhooks', async () => {
  for (const [request, body, stranger] of [
    ['GET /throws'], ['GET /null'], ['GET /text'], ['GET /open'], ['HEAD /open'], ['GET /open', undefined, true], ['POST /echo?x=1', 'hello'],
    ['GET /none'], ['GET /echo'], ['DELETE /open'], ['POST /echo', 'x'.repeat((10 << 20) + 1)], ['POST /echo', 'x', true], ['GET /none', undefined, true],
  ] as [string, string?, boolean?][]) {
    await same(request, (b) => b.request(request, body, stranger));
  }
  await same('push', async (b) => Object.keys((await b.hook('push', { title: 'Pushed' })) as object));
  await same('push nothing', (b) => b.hook('push', {}));
  await same('no hook', (b) => b.hook('none', {}));
});

test('the day has a limit', async () => {
  await same('limit', async (b) => {
    await b.limit(0);
    const out = await b.calls([['twin.pay', { cents: 5 }]], {}, false);
    await b.limit(null);
    return { ...out, asked: out.asked.map((a) => a.question?.replace(/\$[\d.]+ today/, '$… today')), log: [] };
  });
});

test('triggers are armed with the same words', async () => {
  const armed = await same('armed', async (b) => plain((await b.log()).filter((e) => e.type === 'note' && e.track === 'box' && (e.data as any).what === 'trigger armed').slice(0, 2), []));
  assert.equal(armed.length, 2);
});
