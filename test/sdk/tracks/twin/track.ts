// An app that does with its Box and Ctx whatever it is told, for the test that a test box says what a real one says.

import type { Box, Ctx, Json, Track } from '../../core/contract.ts';
import { onFileChange, schedule, webhook } from '../../core/triggers.ts';

interface Order {
  do: string;
  with?: any[];
}

const done = async (fn: () => unknown): Promise<Json> => {
  try {
    const out = await fn();
    return { gave: out === undefined ? null : (JSON.parse(JSON.stringify(out)) as Json) };
  } catch (err) {
    return { threw: err instanceof Error ? err.message : String(err) };
  }
};

let ends: (() => void)[] = [];

const byBox = (box: Box, { do: what, with: args = [] }: Order) =>
  done(async () => {
    if (what === 'onWebhook') return void ends.push(box.onWebhook(args[0], () => ({ hooked: args[0] })));
    if (what === 'watch') return void ends.push(box.watch(args[0], () => {}));
    if (what === 'end') return void ends.splice(0).forEach((end) => end());
    if (what === 'tasks') return box.tasks().map((t) => [t.title, t.state]);
    if (what === 'approvals') return box.approvals().map((a) => [a.question, a.state, a.by]);
    return await (box as any)[what](...args);
  });

const byCtx = (ctx: Ctx, { do: what, with: args = [] }: Order) => done(async () => await (ctx as any)[what](...args));

const input = {
  type: 'object',
  properties: {
    cents: { type: 'number', minimum: 0, maximum: 100_000 }, spent: {}, name: { type: 'string', minLength: 2, maxLength: 8, pattern: '^[a-z]+$' }, kind: { enum: ['a', 'b', 3] },
    list: { type: 'array', items: { type: 'integer' }, maxItems: 2, uniqueItems: true }, one: { oneOf: [{ type: 'string' }, { type: 'boolean' }] }, deep: { $ref: '#/$defs/deep' },
  },
  required: ['cents'],
  additionalProperties: false,
  $defs: { deep: { type: 'object', properties: { deep: { $ref: '#/$defs/deep' } }, additionalProperties: false } },
};

export default {
  name: 'twin',
  title: 'The twin',
  description: 'Does what it is told.',
  secrets: ['TWIN_KEY', 'TWIN_NONE'],
  taskContext: (spec) => `about ${spec.title}`,
  triggers: [
    schedule({ name: 'daily', dailyAt: '03:00', task: { title: 'Daily', prompt: 'step x', worker: 'fake' } }),
    onFileChange({ name: 'files', paths: ['in/*'], task: (changes) => ({ title: changes.map((c) => `${c.change} ${c.path}`).join(), prompt: 'step seen', worker: 'fake', workspace: 'work' }) }),
    webhook({ name: 'push', task: (body) => (body.title ? { title: body.title, prompt: 'step pushed', worker: 'fake' } : null) }),
  ],
  tools: [
    {
      name: 'twin.pay', description: 'Pay.', input, secrets: ['TWIN_KEY'],
      cost: ({ cents }: { cents: number }) => (cents === 13 ? Number.NaN : cents),
      approval: ({ name }: { name?: string }) => ({ payee: 'Shop', ...(name ? { purpose: name } : {}) }),
      run: async ({ spent, name }: { spent?: number; name?: string }, ctx) => ({ ...(spent === undefined ? {} : { spentCents: spent }), name: name ?? null, key: ctx.key.split('.')[1] }),
    },
    { name: 'twin.do', description: 'Do what is told.', secrets: ['TWIN_KEY'], run: async (order: Order, ctx) => await byCtx(ctx, order) },
    {
      name: 'twin.end', description: 'End in some way.',
      async run({ how }: { how: string }, ctx) {
        switch (how) {
          case 'throws': throw new Error('it was to throw');
          case 'text': throw 'a text';
          case 'null': throw null;
          case 'nothing': return undefined;
          case 'secret': return { all: `the key is ${ctx.secret('TWIN_KEY')}.`, coded: Buffer.from(`x${ctx.secret('TWIN_KEY')}`).toString('base64') };
          default: return how;
        }
      },
    },
  ],
  modelJobs: [{ name: 'twice', secrets: ['TWIN_KEY'], run: async (given: Order, ctx) => (given.do ? await byCtx(ctx, given) : [given, given]) }],
  routes: {
    'POST /do': async (req, box) => Response.json(await byBox(box, (await req.json()) as Order)),
    'GET /throws': () => { throw new Error('it was to throw'); },
    'GET /null': () => null as unknown as Response,
    'GET /text': () => 'text' as unknown as Response,
    'POST /echo': async (req) => Response.json({ caller: req.headers.get('x-box-caller'), token: req.headers.get('authorization'), body: await req.text(), at: new URL(req.url).pathname + new URL(req.url).search }),
    'GET /open': () => new Response('open', { status: 203, headers: { 'x-own': 'yes', 'set-cookie': 'a=b' } }),
  },
  openRoutes: ['GET /open'],
} satisfies Track;
