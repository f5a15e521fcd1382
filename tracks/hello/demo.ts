// Hello on a real box: its tool, its schedule, its page, its place in the grid, and off and on again without a restart.

import type { DemoKit, LogEvent } from '../../core/contract.ts';

export default async (d: DemoKit) => {
  // A box answers before it has read its apps.
  const app = await d.waitFor('hello in the list', async () => (await d.api<any[]>('GET', '/api/apps?all=1')).find((a) => a.name === 'hello'), 60_000);
  d.check(app.on === false, 'on a new box it is there, and off');
  const page = () => fetch(`${d.url}/t/hello/`);
  d.check((await page()).status === 404, 'so it has no page');

  await d.api('PUT', '/api/apps/hello', { on: true });
  const grid = (await d.api<any[]>('GET', '/api/apps')).find((a) => a.name === 'hello');
  d.check(grid?.apps[0]?.title === 'Hello' && grid.apps[0].href === '/', 'turned on, it is in the grid');
  const p = await page();
  d.check(p.status === 200 && (await p.text()).endsWith('<h1>Hello</h1>') && p.headers.get('content-security-policy')?.startsWith('sandbox '), 'and its page is there, in its sandbox');

  const task = await d.api('POST', '/api/tasks', { title: 'Greet', prompt: 'call hello.greet {"name":"Ada"}', worker: 'fake', tools: ['hello.greet'] });
  await d.settled([task.id]);
  const log = await d.api<LogEvent[]>('GET', `/api/log?after=0&task=${task.id}`);
  const result = log.find((e) => e.type === 'tool.result');
  d.check(result?.type === 'tool.result' && JSON.stringify(result.output) === '{"greeting":"Hello, Ada"}', 'a task is greeted by its tool');

  const all = await d.api<LogEvent[]>('GET', '/api/log?after=0');
  const armed = all.find((e) => e.type === 'note' && (e.data as any).what === 'trigger armed' && (e.data as any).app === 'hello');
  d.check(armed?.type === 'note' && (armed.data as any).watch.at === '08:00', 'the box watches the clock for its morning note');

  await d.api('PUT', '/api/apps/hello', { on: false });
  d.check((await page()).status === 404, 'off again, its page is gone');
  const refused = await d.api('POST', '/api/tasks', { title: 'Greet', prompt: 'step x', worker: 'fake', tools: ['hello.greet'] }).catch((err) => err.message);
  d.check(String(refused).includes('no app that is on has a tool named hello.greet'), 'and so is its tool');
  await d.api('PUT', '/api/apps/hello', { on: true });
  d.check((await page()).status === 200, 'and on again it is back, without a restart');
  await d.api('PUT', '/api/apps/hello', { on: false });
};
