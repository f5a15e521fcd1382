// Runs one app: loads it, says what it declares, and calls its functions when the box asks for them.

import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Blocking, said, Wire } from './wire.mjs';
import { describe } from './describe.mjs';
import { makeBox, makeCtx } from './box.mjs';
import { guardImports } from './imports.mjs';
import { chunk, closeStream, route } from './route.mjs';
import { End } from './end.mjs';

const blocking = new Blocking(4);

/** What the box started and has not yet the end of, by its number. */
const calls = new Map();

/** What the app declares, by the names that the box calls it by. */
const made = { tools: new Map(), jobs: new Map(), routes: new Map(), triggers: new Map(), readers: new Map(), context: undefined };

const stops = new Map(); // what ends a trigger, by its name

const wire = new Wire(3, {
  load,
  ping: () => true,
  'tool.cost': ({ tool, input }) => part('tools', tool).cost(input),
  'tool.card': async ({ tool, input }) => (await part('tools', tool).approval(input)) ?? {},
  'tool.run': ({ tool, input, call, key, task }) => during(call, (end) => part('tools', tool).run(input, makeCtx(world, { call, key, task, end }))),
  'job.run': ({ job, input, call, key, task }) => during(call, (end) => part('jobs', job).run(input, makeCtx(world, { call, key, task, end }))),
  route: (request) => during(request.call, (end) => route(world, part('routes', request.key), request, end.signal)),
  chunk,
  hook: ({ name, body, headers, call }) => during(call, async () => (await world.hooks.get(name)(body, headers)) ?? {}),
  'trigger.start': startTrigger,
  'trigger.stop': ({ name }) => stops.get(name)?.(),
  read: ({ reader, event, call }) => during(call, async () => void (await part('readers', reader).read(event, world.box))),
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
  const { default: track } = await imported(`file:///opt/app/tracks/${name}/`);
  const declared = describe(track);
  world.box = makeBox(world, name);
  for (const [list, by] of [['tools', made.tools], ['modelJobs', made.jobs], ['triggers', made.triggers], ['logReaders', made.readers]]) {
    for (const part of Array.isArray(track?.[list]) ? track[list] : []) if (part) by.set(part.name, part);
  }
  for (const [key, answer] of Object.entries(track?.routes ?? {})) made.routes.set(key, answer);
  if (typeof track?.taskContext === 'function') made.context = (spec, box) => track.taskContext(spec, box);
  return declared;
}

/** The app's module. */
async function imported(own) {
  let over = false;
  const stuck = new Promise((_, no) => {
    // Nothing is left to happen: the app is the only one who keeps the process from its end.
    process.once('beforeExit', () => {
      if (over) return;
      wire.keep(true);
      no(new Error('track.ts, or what it imports, awaits something outside of its functions that never comes'));
    });
  });
  wire.keep(false);
  try {
    return await Promise.race([import(`${own}track.ts`), stuck]);
  } catch (thrown) {
    throw placed(thrown, own);
  } finally {
    over = true;
    wire.keep(true);
  }
}

/** An error with the place in the app that it comes from. */
function placed(thrown, own) {
  if (!(thrown instanceof Error) || typeof thrown.stack !== 'string') return thrown;
  const at = thrown.stack.indexOf(own);
  const [, file, line] = at < 0 ? [] : (/^([^\s:]+):(\d+)/.exec(thrown.stack.slice(at + own.length)) ?? []);
  let text = said(thrown);
  if (file && !text.startsWith(file)) text += ` (${file}, line ${line})`;
  else if (thrown instanceof SyntaxError && text === 'Invalid or unexpected token') text += decorators(own);
  if (/contract\.ts.*does not provide an export/.test(text)) text += '. What is a type is imported by `import type`';
  return Object.assign(new Error(text), { code: thrown.code });
}

/** A guess at what Node's parser stumbled over, for which it names no place: decorators are no types, and no JavaScript yet. */
function decorators(own) {
  const dir = fileURLToPath(own);
  for (const file of fs.readdirSync(dir, { recursive: true })) {
    if (!/\.[cm]?ts$/.test(file)) continue;
    const at = fs.readFileSync(dir + file, 'utf8').split('\n').findIndex((text) => /^\s*@[A-Za-z_$]/.test(text));
    if (at >= 0) return ` (perhaps ${file}, line ${at + 1}: Node can't run decorators)`;
  }
  return '';
}

/** A part of the app, which it declared when it was read. */
function part(list, name) {
  const found = made[list].get(name);
  if (!found) throw new Error(`the app declared ${name} when it was read, and now it does not`);
  return found;
}

/** Runs fn, which can tell when nobody waits for it any more. */
async function during(call, fn) {
  const end = new End();
  calls.set(call, end);
  try {
    return await fn(end);
  } finally {
    calls.delete(call);
  }
}

async function startTrigger({ name }) {
  const stop = await part('triggers', name).start(world.box);
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
