// Runs one app: loads it, says what it declares, and calls its functions when the box asks for them.

import { Blocking, said, Wire } from './wire.mjs';
import { describe } from './describe.mjs';
import { makeBox, makeCtx } from './box.mjs';
import { guardImports } from './imports.mjs';
import { chunk, closeStream, route } from './route.mjs';

const blocking = new Blocking(4);

/** What the box started and has not yet the end of, by its number: the controller of its signal. */
const calls = new Map();

/** What the app declares, by the names that the box calls it by. */
const made = { tools: new Map(), jobs: new Map(), routes: new Map(), triggers: new Map(), readers: new Map(), context: undefined };

const stops = new Map(); // what ends a trigger, by its name

const wire = new Wire(3, {
  load,
  ping: () => true,
  'tool.cost': ({ tool, input }) => made.tools.get(tool).cost(input),
  'tool.card': async ({ tool, input }) => (await made.tools.get(tool).approval(input)) ?? {},
  'tool.run': ({ tool, input, call, key, task }) => during(call, (signal) => made.tools.get(tool).run(input, makeCtx(world, { call, key, task, signal }))),
  'job.run': ({ job, input, call, key, task }) => during(call, (signal) => made.jobs.get(job).run(input, makeCtx(world, { call, key, task, signal }))),
  route: (request) => during(request.call, (signal) => route(world, made.routes.get(request.key), request, signal)),
  chunk,
  hook: ({ name, body, headers, call }) => during(call, async () => (await world.hooks.get(name)(body, headers)) ?? {}),
  'trigger.start': startTrigger,
  'trigger.stop': ({ name }) => stops.get(name)?.(),
  read: ({ reader, event, call }) => during(call, async () => void (await made.readers.get(reader).read(event, world.box))),
  context: ({ spec, call }) => during(call, () => made.context(spec, world.box)),
  fire: ({ watch, fired, call }) => during(call, async () => void (await world.watches.get(watch)?.(fired))),
  event: ({ event }) => world.hear(event),
  abort: ({ call, why }) => {
    closeStream(call);
    calls.get(call)?.abort(new Error(why));
  },
});

const world = { wire, blocking, hooks: new Map(), watches: new Map(), listeners: new Set(), box: undefined, hear };

process.on('uncaughtException', (thrown) => {
  console.error(thrown);
  try {
    blocking.call('broke', { error: said(thrown).slice(0, 4000) });
  } finally {
    process.exit(1);
  }
});

async function load({ name }) {
  guardImports(name);
  const { default: track } = await import(`file:///opt/app/tracks/${name}/track.ts`);
  const declared = describe(track);
  world.box = makeBox(world, name);
  for (const [list, by] of [['tools', made.tools], ['modelJobs', made.jobs], ['triggers', made.triggers], ['logReaders', made.readers]]) {
    for (const part of Array.isArray(track?.[list]) ? track[list] : []) if (part) by.set(part.name, part);
  }
  for (const [key, answer] of Object.entries(track?.routes ?? {})) made.routes.set(key, answer);
  if (typeof track?.taskContext === 'function') made.context = (spec, box) => track.taskContext(spec, box);
  return declared;
}

/** Runs fn with the signal of a call. */
async function during(call, fn) {
  const controller = new AbortController();
  calls.set(call, controller);
  try {
    return await fn(controller.signal);
  } finally {
    calls.delete(call);
  }
}

async function startTrigger({ name }) {
  const stop = await made.triggers.get(name).start(world.box);
  if (typeof stop === 'function') stops.set(name, stop);
  return { stops: typeof stop === 'function' };
}

function hear(event) {
  for (const listener of [...world.listeners]) {
    try {
      listener(event);
    } catch (thrown) {
      console.error(thrown);
    }
  }
}
