// What people write against the SDK, and what must not pass. The compiler holds it: a line under @ts-expect-error that it takes is an error too.

import type { Box, Ctx, Demo, LogEvent, LogReader, Route, TaskSpec, TaskState, Tool, Track, Trigger } from '../../core/contract.ts';
import { onFileChange, schedule, webhook } from '../../core/triggers.ts';

// The first app of the documentation.
export const hello = {
  name: 'hello',

  tools: [
    {
      name: 'hello.greet',
      description: 'Return a greeting for a name.',
      input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      async run(input: { name: string }) {
        return { greeting: `Hello, ${input.name}` };
      },
    },
  ],

  triggers: [
    schedule({
      name: 'morning',
      dailyAt: '08:00',
      task: () => ({ title: 'Morning note', prompt: 'Write today.md with three things to do.', tools: ['hello.greet'] }),
    }),
  ],

  routes: {
    'GET /': () => new Response('<h1>Hello</h1>', { headers: { 'content-type': 'text/html' } }),
  },

  apps: [{ name: 'hello', title: 'Hello', href: '/' }],
} satisfies Track;

// Every slot of an app.
export const whole = {
  name: 'whole',
  title: 'Whole',
  description: 'Uses each slot once.',
  secrets: ['SHOP_KEY', 'MAP_KEY'],
  optionalSecrets: ['MAP_KEY'],
  taskContext: (spec, box) => (spec.workspace === 'home' ? `There are ${box.tasks().length} tasks.` : undefined),
  triggers: [
    schedule({ name: 'hourly', every: '1h', weekdays: ['mon', 'fri'], task: { title: 'Look', prompt: 'Look around.' } }),
    webhook({ name: 'push', task: (body) => ({ title: 'Pushed', prompt: `Look at ${body.ref}.` }) }),
    onFileChange({ name: 'notes', paths: ['notes/**'], task: async (changes) => ({ title: 'Notes', prompt: changes.map((c) => c.path).join('\n') }) }),
    { name: 'own', start: (box) => box.on((event) => void event.seq) },
  ],
  tools: [
    {
      name: 'whole.pay',
      description: 'Pay.',
      secrets: ['SHOP_KEY'],
      hosts: ['shop.example.com'],
      cost: (input: { cents: number }) => input.cents,
      approval: () => ({ payee: 'Shop', purpose: 'Things' }),
      decides: () => 'pay',
      async run(input: { cents: number }, ctx) {
        if (!(await ctx.ask('Really?', { purpose: 'Things' }))) throw new Error('not wanted');
        ctx.cost(0.5, 'fee');
        ctx.log('paid', { key: ctx.key, with: ctx.secret('SHOP_KEY').length });
        return { spentCents: input.cents, by: ctx.task?.id, late: ctx.signal.aborted };
      },
    },
  ],
  logReaders: [{ name: 'all', read: async (event, box) => void (event.type === 'note' && event.track !== 'box' && box.note({ saw: event.seq }, event.task)) }],
  modelJobs: [{ name: 'sum', secrets: [], run: async (input: { text: string }) => input.text.length }],
  routes: {
    'GET /spend': (req, box) => Response.json({ query: new URL(req.url).search, who: req.headers.get('x-box-caller'), open: box.approvals().length }),
    'POST /start': async (req, box) => Response.json({ id: (await box.createTask((await req.json()) as TaskSpec)).id }),
  },
  openRoutes: ['GET /spend'],
  ownOrigin: [],
  apps: [{ name: 'whole', title: 'Whole', href: '/spend' }],
} satisfies Track;

// The event's type tells its fields.
export const spent = (event: LogEvent): number => (event.type === 'tool.result' ? (event.cents ?? 0) : event.type === 'cost' ? event.cents : 0);
export const reader: LogReader = { name: 'r', read: (event) => void (event.type === 'approval.asked' && event.approval.id) };

// A switch over states or types that leaves one out doesn't compile.
export function ended(state: TaskState): boolean {
  switch (state) {
    case 'queued':
    case 'running':
    case 'waiting':
      return false;
    case 'done':
    case 'failed':
    case 'undone':
      return true;
  }
}
// @ts-expect-error: waiting is left out
export function forgot(state: TaskState): boolean {
  switch (state) {
    case 'queued':
    case 'running':
      return false;
    case 'done':
    case 'failed':
    case 'undone':
      return true;
  }
}

export const demo: Demo = async (d) => {
  d.workspace('notes', { 'a.txt': 'a' });
  const task = await d.api('POST', '/api/tasks', { title: 't', prompt: 'append a.txt b', worker: 'fake', workspace: 'notes' });
  const [done] = await d.settled([task.id]);
  d.check(done?.state === 'done', 'it is done');
  d.check(d.view('notes', 'a.txt') === 'ab', 'and seen');
};

// @ts-expect-error: an app has a name
({ tools: [] }) satisfies Track;
// @ts-expect-error: there is no such slot
({ name: 'x', tool: [] }) satisfies Track;
// @ts-expect-error: a tool says what it does
({ name: 'x.y', run: async () => 1 }) satisfies Tool;
// @ts-expect-error: run gives a promise
({ name: 'x.y', description: 'd', run: () => 1 }) satisfies Tool;
// @ts-expect-error: a price is a number
({ name: 'x.y', description: 'd', cost: () => '5', run: async () => 1 }) satisfies Tool;
// @ts-expect-error: secrets are a list
({ name: 'x', secrets: 'KEY' }) satisfies Track;
// @ts-expect-error: a route answers with a Response
((_req) => ({ ok: true })) satisfies Route;
// @ts-expect-error: a prompt is needed
({ title: 't' }) satisfies TaskSpec;
// @ts-expect-error: there is no such worker
({ title: 't', prompt: 'p', worker: 'claude' }) satisfies TaskSpec;
// @ts-expect-error: the box sets the state
({ title: 't', prompt: 'p', state: 'done' }) satisfies TaskSpec;
// @ts-expect-error: a budget is a number
({ title: 't', prompt: 'p', budgetCents: '100' }) satisfies TaskSpec;
// @ts-expect-error: no such level
({ title: 't', prompt: 'p', droid: { autonomy: 'full' } }) satisfies TaskSpec;
// @ts-expect-error: there is no such state
'paused' satisfies TaskState;
// @ts-expect-error: what stops a trigger is a function
({ name: 'x', start: () => 5 }) satisfies Trigger;
// @ts-expect-error: a schedule has a time
schedule({ name: 'x', task: { title: 't', prompt: 'p' } });
// @ts-expect-error: and not two
schedule({ name: 'x', dailyAt: '08:00', every: '1h', task: { title: 't', prompt: 'p' } });
// @ts-expect-error: no such day
schedule({ name: 'x', dailyAt: '08:00', weekdays: ['sunday'], task: { title: 't', prompt: 'p' } });
// @ts-expect-error: a time is text
schedule({ name: 'x', dailyAt: 800, task: { title: 't', prompt: 'p' } });
// @ts-expect-error: a span is text with its unit
schedule({ name: 'x', every: 60, task: { title: 't', prompt: 'p' } });
// @ts-expect-error: a schedule has a task
schedule({ name: 'x', dailyAt: '08:00' });
// @ts-expect-error: a task has a prompt here too
schedule({ name: 'x', dailyAt: '08:00', task: () => ({ title: 't' }) });
// @ts-expect-error: paths are a list
onFileChange({ name: 'x', paths: 'notes/**', task: () => null });
// @ts-expect-error: a change has no bytes
onFileChange({ name: 'x', task: (changes) => ({ title: 't', prompt: changes[0]?.text ?? '' }) });
// @ts-expect-error: a webhook has a name
webhook({ task: () => null });
// @ts-expect-error: a webhook makes a task of its request
webhook({ name: 'x', task: () => 'do it' });

export async function wrong(box: Box, ctx: Ctx, event: LogEvent) {
  // @ts-expect-error: the box watches no such thing
  box.watch({ kind: 'hourly', name: 'x' }, () => {});
  // @ts-expect-error: a watch of files names its workspace
  box.watch({ kind: 'files', name: 'x' }, () => {});
  // @ts-expect-error: a webhook answers with JSON
  box.onWebhook('x', () => new Response('hello'));
  // @ts-expect-error: a task may not be there
  box.task('t1').state;
  // @ts-expect-error: a step has no cents
  if (event.type === 'task.step') event.cents;
  // @ts-expect-error: a note may have no task
  if (event.type === 'note') event.task.length;
  // @ts-expect-error: an answer says who gives it
  await box.answer('a', true);
  // @ts-expect-error: the question's answer is awaited
  if (ctx.ask('Really?') === true) return;
  // @ts-expect-error: a call without a task has none
  ctx.task.id;
  // @ts-expect-error: nobody changes a list of unchecked length blindly
  box.tasks()[0].id;
}
