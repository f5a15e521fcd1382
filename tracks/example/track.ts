// Every slot of an app, and every method of Box and Ctx, each used for something small. demo.ts tries all of it on a real box.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Box, LogEvent, Track } from '../../core/contract.ts';
import { onFileChange, schedule, webhook } from '../../core/triggers.ts';
import { html, module } from './page.ts';

/** What the app counts while it runs. What has to last goes into its store, which is the folder that it runs in. */
const seen = { beats: 0, greetings: 0, heard: 0 };

/** The store's file with what the tools of the box have spent, and the line of the log up to which that is so. */
const book = () => join(process.cwd(), 'spent.json');

function spent(): { cents: number; upTo: number } {
  try {
    return JSON.parse(readFileSync(book(), 'utf8')) as { cents: number; upTo: number };
  } catch {
    return { cents: 0, upTo: 0 }; // nothing was written yet
  }
}

/** A reader gets a line again when the app ended in the middle of it, so it keeps in mind which one it was done with. */
function enter(event: LogEvent): void {
  const sum = spent();
  if (event.seq <= sum.upTo || event.type !== 'tool.result' || !event.cents) return;
  writeFileSync(book(), JSON.stringify({ cents: sum.cents + event.cents, upTo: event.seq }));
}

/** Says something about a key without saying the key. */
const about = (key: string) => ({ letters: key.length, test: key.startsWith('test_') });

/** Makes the workspace that the app's tasks work on: a copy of files/ of this folder, once. */
const workspace = (box: Box) => box.workspace('example', join(import.meta.dirname, 'files'));

const message = (err: unknown) => (err instanceof Error ? err.message : String(err));

export default {
  name: 'example',
  title: 'Example',
  description: 'Shows everything that an app can do, with test data.',

  // Keys that routes, triggers and readers may read. The app works without the second one.
  secrets: ['EXAMPLE_KEY', 'EXAMPLE_REGION'],
  optionalSecrets: ['EXAMPLE_REGION'],

  // Read by nothing any more; a new box turns on the model app alone.
  offByDefault: true,

  // Laid beside the prompt of Droid tasks on the app's own workspace.
  taskContext: (spec, box) => (spec.workspace === 'example' ? `The example has started ${box.tasks().filter((t) => t.app === 'example').length} tasks.` : undefined),

  triggers: [
    // At a time of the day. What makes the task may also decide that there is none.
    schedule({
      name: 'weekly',
      dailyAt: '06:30',
      weekdays: ['mon'],
      task: ({ late }) => ({ title: late ? 'Weekly list (late)' : 'Weekly list', prompt: 'append list.txt rice', worker: 'fake', workspace: 'example' }),
    }),
    // Again and again; here without a task.
    schedule({ name: 'beat', every: '2s', task: () => void seen.beats++ }),
    // POST /hook/example/push starts a task.
    webhook({
      name: 'push',
      task: (body: { item?: unknown }, headers) =>
        typeof body?.item === 'string' && /^[a-z]+$/.test(body.item)
          ? { title: `Put ${body.item} on the list`, prompt: `append list.txt ${body.item}`, worker: 'fake', workspace: 'example', source: `push:${headers['x-from'] ?? 'somebody'}` }
          : undefined,
    }),
    // Changed files start one, too. It writes to another workspace, so that its own change starts nothing.
    onFileChange({
      name: 'orders',
      workspace: 'example',
      paths: ['orders/**'],
      task: (changes) => ({ title: `Look at ${changes.length} orders`, prompt: changes.map((c) => `append orders.txt ${c.change} ${c.path}`).join('\n'), worker: 'fake' }),
    }),
    // A trigger of its own: what it begins, it can end.
    {
      name: 'greetings',
      start(box) {
        const quiet = box.on((event) => {
          if (event.type === 'tool.call' && event.tool === 'example.greet') seen.heard++;
        });
        const end = box.onWebhook('ping', (body, headers) => ({ pong: body, agent: headers['user-agent'] ?? '' }));
        return () => {
          quiet();
          end();
        };
      },
    },
  ],

  tools: [
    {
      name: 'example.greet',
      description: 'Greet somebody, and count the greetings.',
      input: { type: 'object', properties: { name: { type: 'string', minLength: 1, maxLength: 100 } }, required: ['name'], additionalProperties: false },
      async run({ name }: { name: string }) {
        return { greeting: `Hello, ${name}`, count: ++seen.greetings };
      },
    },
    {
      name: 'example.spend',
      description: 'Spend test money at the test shop. It never costs more than the price, and now and then less.',
      input: {
        type: 'object',
        properties: { cents: { type: 'integer', minimum: 1, maximum: 100_000 }, discount: { type: 'integer', minimum: 0 }, item: { type: 'string' } },
        required: ['cents'],
        additionalProperties: false,
      },
      secrets: ['EXAMPLE_KEY'],
      hosts: ['shop.example.com'],
      cost: ({ cents }: { cents: number }) => cents,
      approval: ({ item }: { item?: string }) => ({ payee: 'Test shop', purpose: item ?? 'test data' }),
      decides: ({ cents }: { cents: number }) => `spend ${cents} cents at the test shop`,
      async run({ cents, discount = 0, item }: { cents: number; discount?: number; item?: string }, ctx) {
        // A shop would take ctx.key as its idempotency key, so that a call that is cut off and comes again pays once.
        ctx.log(`paying for ${item ?? 'test data'}`, { with: about(ctx.secret('EXAMPLE_KEY')) });
        return { paid: item ?? 'test data', key: ctx.key, spentCents: Math.max(cents - discount, 0) };
      },
    },
    {
      name: 'example.careful',
      description: 'Do something only after the owner has said yes to it.',
      async run(_input: unknown, ctx) {
        const yes = await ctx.ask('Shall the example go on?', { purpose: 'to show how a tool asks' });
        if (!yes) throw new Error('the owner would rather not');
        ctx.cost(0.5, 'a fee that nobody knew before');
        return { went: 'on', for: ctx.task?.title, late: ctx.signal.aborted };
      },
    },
    {
      name: 'example.count',
      description: "Count a text's words, by a model job.",
      input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
      async run({ text }: { text: string }, ctx) {
        return { words: await ctx.box.job('words', { text }, ctx.task?.id) };
      },
    },
    {
      name: 'example.wait',
      description: 'Do nothing until nobody waits for it any more.',
      run: (_input: unknown, ctx) =>
        new Promise((_, no) => {
          ctx.signal.addEventListener('abort', () => no(ctx.signal.reason as Error), { once: true });
        }),
    },
  ],

  logReaders: [{ name: 'spent', read: (event) => enter(event) }],

  // Every app can run it with box.job('words', …). A real one asks a model: see tracks/anthropic.
  modelJobs: [
    {
      name: 'words',
      secrets: ['EXAMPLE_REGION'],
      async run({ text }: { text: string }, ctx) {
        const words = text.split(/\s+/).filter(Boolean).length;
        ctx.cost(words / 100, 'counting');
        ctx.log(`counted ${words} words`);
        return words;
      },
    },
  ],

  routes: {
    'GET /': () => new Response(html, { headers: { 'content-type': 'text/html; charset=utf-8' } }),
    'GET /page.js': () => new Response(module, { headers: { 'content-type': 'text/javascript; charset=utf-8' } }),

    // Everybody may read this one, without a token.
    'GET /open': (req) => Response.json({ hello: 'world', caller: req.headers.get('x-box-caller') }),
    // A page with the box's own origin: only for what no other page can do, such as a passkey.
    'GET /origin': () => new Response('<!doctype html><title>Origin</title><p id="origin"></p><script>document.getElementById("origin").textContent = origin</script>', { headers: { 'content-type': 'text/html' } }),

    'GET /seen': (req) => Response.json({ ...seen, spent: spent().cents, query: new URL(req.url).search, caller: req.headers.get('x-box-caller') }),
    'GET /key': (_req, box) => Response.json(about(box.secret('EXAMPLE_KEY'))),
    'GET /region': (_req, box) => {
      try {
        return Response.json({ region: box.secret('EXAMPLE_REGION').slice(0, 2) });
      } catch (err) {
        return Response.json({ region: 'everywhere', because: message(err) });
      }
    },

    'POST /list': async (req, box) => {
      const { item = '' } = Object.fromEntries(new URLSearchParams(await req.text()));
      // What somebody typed becomes part of a task's orders, so it is held to what it may be.
      if (!/^[a-z]{1,40}$/.test(item)) return Response.json({ error: 'item: one word of small letters is needed' }, { status: 400 });
      await workspace(box);
      const task = await box.createTask({ title: `Put ${item} on the list`, prompt: `append list.txt ${item}\nsummary ${item} is on the list`, worker: 'fake', workspace: 'example', tools: ['example.greet'] });
      // A form is answered with the way back to the page.
      return req.headers.get('accept')?.includes('text/html') ? new Response(null, { status: 303, headers: { location: './' } }) : Response.json(task, { status: 201 });
    },
    'GET /task': (req, box) => {
      const task = box.task(new URL(req.url).searchParams.get('id') ?? '');
      return task ? Response.json(task) : Response.json({ error: 'there is no such task' }, { status: 404 });
    },
    'GET /tasks': (_req, box) => Response.json(box.tasks().filter((t) => t.app === 'example')),
    'POST /undo': async (req, box) => {
      await box.undo(((await req.json()) as { id: string }).id);
      return Response.json({ ok: true });
    },
    'GET /questions': (_req, box) => Response.json(box.approvals().filter((a) => a.state === 'pending')),
    'POST /answer': async (req, box) => {
      const { id, approved, by } = (await req.json()) as { id: string; approved: boolean; by?: string };
      return Response.json(await box.answer(id, approved, by ?? `example:${req.headers.get('x-box-caller')}`));
    },
    'POST /note': async (req, box) => {
      box.note({ said: await req.text() });
      return Response.json({ ok: true });
    },
    'POST /words': async (req, box) => Response.json({ words: await box.job('words', { text: await req.text() }) }),

    // Live, as a page's EventSource wants it.
    'GET /events': (req, box) => {
      const text = new TextEncoder();
      let quiet = () => {};
      const body = new ReadableStream<Uint8Array>({
        start(c) {
          c.enqueue(text.encode(': here\n\n'));
          quiet = box.on((event) => {
            if (event.type === 'task.state') c.enqueue(text.encode(`data: ${JSON.stringify({ task: event.task, state: event.state })}\n\n`));
          });
          req.signal.addEventListener('abort', () => {
            quiet();
            c.close();
          });
        },
        cancel: () => quiet(),
      });
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
    },

    // What other editions bring says so in a sentence.
    'GET /editions': async (_req, box) => {
      const said: string[] = [];
      for (const use of [() => box.linkWorkspace('mine', '/home/me'), () => box.policy(), () => box.setPolicy('', '')]) {
        try {
          await use();
        } catch (err) {
          said.push(message(err));
        }
      }
      return Response.json(said);
    },
    'GET /throws': () => {
      throw new Error('this route always fails');
    },
  },
  openRoutes: ['GET /open'],
  ownOrigin: ['GET /origin'],

  apps: [{ name: 'example', title: 'Example', href: '/' }],
} satisfies Track;
