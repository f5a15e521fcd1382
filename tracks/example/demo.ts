// All of the example on a real box.

import type { DemoKit, LogEvent, Task } from '../../core/contract.ts';

export default async (d: DemoKit) => {
  await d.api('PUT', '/api/vault/EXAMPLE_KEY', { value: 'test_0123456789' });
  await d.api('PUT', '/api/apps/example', { on: true });
  const app = (await d.api<any[]>('GET', '/api/apps?all=1')).find((a) => a.name === 'example');
  d.check(app?.on && app.test && !app.error, 'the app is on, and marked as a test');
  const key = app.secrets.find((s: any) => s.name === 'EXAMPLE_KEY');
  d.check(key?.set && !key.optional && app.secrets.find((s: any) => s.name === 'EXAMPLE_REGION')?.optional, 'its keys are told: one is set, one is optional');

  const t = (route: string) => `/t/example${route}`;
  const log = (task?: string) => d.api<LogEvent[]>('GET', `/api/log?after=0${task ? `&task=${task}` : ''}`);
  const mine = async () => (await d.api<Task[]>('GET', t('/tasks'))).reverse();
  const task = (prompt: string[], more: object = {}) =>
    d.api<Task>('POST', '/api/tasks', { title: 'Uses the example', prompt: prompt.join('\n'), worker: 'fake', tools: ['example.greet', 'example.spend', 'example.careful', 'example.count'], ...more });
  const answers = async (id: string) => (await log(id)).flatMap((e) => (e.type === 'task.step' ? [(e.data as any)?.answer] : [])).filter(Boolean);
  const question = (id: string) => d.waitFor('its question', async () => (await d.api<any[]>('GET', '/api/approvals?state=pending')).find((a) => a.task === id), 30_000);

  // Tools: input, cost, approval, ctx.
  const uses = await task(['call example.greet {"name":"Ada"}', 'trycall example.greet {}', 'call example.count {"text":"one two three"}', 'call example.spend {"cents":60,"discount":10,"item":"tea"}']);
  await d.settled([uses.id]);
  const [hello, wrong, count, paid] = await answers(uses.id);
  d.check(hello.output.greeting === 'Hello, Ada', 'a tool answers a task');
  d.check(!wrong.ok && wrong.error === "input: missing property 'name'", `a wrong input never runs: ${wrong.error}`);
  d.check(count.output.words === 3, 'a tool has a model job done');
  d.check(paid.output.key === `${uses.id}.4` && paid.output.spentCents === 50, 'a call has its key, and spends less than it might');
  const step = (await log(uses.id)).find((e) => e.type === 'task.step' && e.text === 'paying for tea');
  d.check(step?.type === 'task.step' && (step.data as any).with.test === true, 'a tool says what it does, and nothing of its key');
  const after = await d.api<Task>('GET', `/api/tasks/${uses.id}`);
  d.check(after.costCents === 50.03, `the task paid for the tool and the job: ${after.costCents} cents`);

  const dear = await task(['trycall example.spend {"cents":700,"item":"a kettle"}']);
  const ask = await question(dear.id);
  d.check(ask.id === `${dear.id}.budget.1` && ask.payee === 'Test shop' && ask.purpose === 'a kettle' && ask.costCents === 700, 'above the budget the owner is asked, with who is paid and what for');
  await d.api('POST', `/api/approvals/${ask.id}`, { approved: false });
  await d.settled([dear.id]);
  d.check((await answers(dear.id))[0].error === 'not approved', 'a no is a no');

  const careful = await task(['call example.careful {}']);
  const may = await question(careful.id);
  d.check(may.question === 'Shall the example go on?' && may.purpose === 'to show how a tool asks', 'a tool asks the owner itself');
  await d.api('POST', t('/answer'), { id: may.id, approved: true });
  await d.settled([careful.id]);
  const answered = (await log(careful.id)).find((e) => e.type === 'approval.answered');
  d.check(answered?.type === 'approval.answered' && answered.by === 'example:screen', 'an app answers in its own name');
  const pose = await d.api('POST', t('/answer'), { id: may.id, approved: true, by: 'box screen' }).catch((err) => err.message);
  d.check(String(pose).includes('500'), `and in nobody else's: ${pose}`);

  // Tasks of its own, in a workspace of its own.
  const form = await d.api<Task>('POST', t('/list'), 'item=rice');
  const [listed] = await d.settled([form.id]);
  d.check(listed?.app === 'example' && listed.summary === 'rice is on the list', 'a route starts a task');
  d.check(d.view('example', 'list.txt') === 'tea\nsalt\nrice\n', 'on a copy of a folder of the app');
  await d.api('POST', t('/undo'), { id: form.id });
  d.check(d.view('example', 'list.txt') === 'tea\nsalt\n' && (await d.api<Task>('GET', t(`/task?id=${form.id}`))).state === 'undone', 'and takes it back');

  // Triggers: clock, webhook, files, its own.
  const pushed = await d.api('POST', '/hook/example/push', { item: 'beans' });
  const [push] = await d.settled([pushed.task]);
  d.check(push?.source === 'push:somebody' && d.view('example', 'list.txt')?.includes('beans'), 'a webhook starts a task and says which');
  d.check((await d.api('POST', '/hook/example/ping', { a: 1 })).pong.a === 1, 'a webhook of its own answers');
  await d.api('PUT', '/api/workspaces/example/files?path=orders/1.txt', 'one\n');
  const order = await d.waitFor('a task for the new file', async () => (await mine()).find((x) => x.title === 'Look at 1 orders'), 30_000);
  await d.settled([order.id]);
  d.check(d.view('home', 'orders.txt') === 'added orders/1.txt\n', 'a file that comes in starts a task');
  await d.waitFor('a beat', async () => (await d.api('GET', t('/seen'))).beats > 0, 30_000);
  const beats = await d.api('GET', t('/seen?x=1'));
  d.check(beats.query === '?x=1' && beats.caller === 'screen', 'a schedule beats, and a route knows its query and its caller');
  const loud = await task(['call example.greet {"name":"Bob"}']);
  await d.settled([loud.id]);
  await d.waitFor('the listener', async () => (await d.api('GET', t('/seen'))).heard > beats.heard, 30_000);
  d.check(true, 'a listener hears what is written');
  const armed = (await log()).filter((e) => e.type === 'note' && e.track === 'box' && (e.data as any).what === 'trigger armed' && (e.data as any).app === 'example');
  d.check(armed.length === 3, 'the box watches the clock and files for it');

  // Reader, notes, keys, jobs.
  const all = (await log()).reduce((sum, e) => sum + (e.type === 'tool.result' ? (e.cents ?? 0) : 0), 0);
  const read = async () => Math.abs((await d.api('GET', t('/seen'))).spent - all) < 1e-6;
  await d.waitFor('the reader', read, 30_000);
  d.check(all >= 50, `a reader has had every line: tools have spent ${all} cents`);
  await d.api('POST', t('/note'), 'remember this');
  d.check((await log()).some((e) => e.type === 'note' && e.track === 'example' && (e.data as any).said === 'remember this'), 'a note stands in the log');
  d.check((await d.api('GET', t('/key'))).letters === 15, 'a route reads a key and tells a fact about it');
  const region = await d.api('GET', t('/region'));
  d.check(region.region === 'everywhere', `a key that is not set: ${region.because}`);
  d.check((await d.api('POST', t('/words'), 'a b')).words === 2, 'a route runs a job');
  d.check(!JSON.stringify(await log()).includes('test_0123456789'), 'the key is nowhere in the log');

  // Pages and routes.
  const page = await fetch(`${d.url}/t/example/`);
  d.check(page.headers.get('content-security-policy')?.includes('sandbox allow-scripts') && (await page.text()).includes('/kit/gurtos.js'), 'its page is sandboxed and has the kit');
  d.check(!(await fetch(`${d.url}/t/example/origin`)).headers.get('content-security-policy')?.includes('sandbox'), 'a page of ownOrigin is not');
  const stranger = (path: string) => fetch(`${d.url}${path}`, { headers: { 'x-forwarded-for': '192.0.2.9' } });
  d.check((await (await stranger(t('/open'))).json() as any).caller === 'none', 'an open route answers strangers');
  d.check((await stranger(t('/seen'))).status === 401, 'and no other does');
  await d.api('PUT', '/api/permissions/example', { strangers: false });
  d.check((await stranger(t('/open'))).status === 401, 'unless the owner turns that off');
  await d.api('PUT', '/api/permissions/example', { strangers: true });
  const fails = await fetch(`${d.url}${t('/throws')}`);
  d.check(fails.status === 500 && ((await fails.json()) as any).error === 'this route always fails', 'a route that throws says why');
  const editions = await d.api<string[]>('GET', t('/editions'));
  d.check(editions.length === 3 && editions.every((s) => /GurtOS (Personal|Business)/.test(s)), `what other editions bring says so: ${editions[0]}`);
  const live = await fetch(`${d.url}${t('/events')}`);
  const stream = live.body!.getReader();
  await stream.read();
  const passing = await task(['step passes']);
  const heard = await d.waitFor('a line of the stream', async () => new TextDecoder().decode((await stream.read()).value).includes(passing.id), 30_000);
  await stream.cancel();
  d.check(heard, 'a stream of the app tells what happens');
  await d.settled([passing.id]);

  // Off and on.
  await d.api('PUT', '/api/apps/example', { on: false });
  d.check((await fetch(`${d.url}/t/example/`)).status === 404, 'off, its page is gone');
  const gone = await d.api('POST', '/api/tasks', { title: 't', prompt: 'step x', worker: 'fake', tools: ['example.greet'] }).catch((err) => err.message);
  d.check(String(gone).includes('example.greet'), `and so are its tools: ${gone}`);
  await d.api('PUT', '/api/apps/example', { on: true });
  d.check(await read(), 'on again, it has what it had in its store');
  await d.api('PUT', '/api/apps/example', { on: false });
};
