// Claude for the box itself: the model job `ask`, which every app can run with box.job(), the same as a tool for tasks, and the check of the key.

import type { Box, Ctx, LogEvent, Track } from '../../core/contract.ts';
import { type Access, type Question, type Turn, type Usage, Refused, ask, check, home } from './messages.ts';
import { cents } from './cost.ts';

const key = 'ANTHROPIC_API_KEY';
const base = 'ANTHROPIC_BASE_URL';
const secrets = [key, base];

/** The short names of models, the same as in a task's spec. */
const models: Record<string, string> = { haiku: 'claude-haiku-4-5-20251001', sonnet: 'claude-sonnet-5-5', opus: 'claude-opus-5' };

/** What an answer may have, in tokens: where nothing is said, and at most. */
const usualTokens = 4_096;
const mostTokens = 64_000;

const input = {
  type: 'object',
  properties: {
    prompt: { type: 'string', minLength: 1, description: 'The question.' },
    system: { type: 'string', description: 'Who the model is to be and how it is to answer.' },
    model: { type: 'string', description: 'haiku, sonnet, opus or an id that starts with claude-. Default sonnet.' },
    maxTokens: { type: 'integer', minimum: 1, maximum: mostTokens, description: `How long the answer may be, in tokens. Default ${usualTokens}.` },
  },
  required: ['prompt'],
  additionalProperties: false,
};

/** What the job takes: a prompt, or a whole conversation. */
interface Ask {
  prompt?: string;
  messages?: Turn[];
  system?: string;
  model?: string;
  maxTokens?: number;
  temperature?: number;
}

interface KeyState {
  set: boolean;
  accepted?: boolean;
  error?: string;
  at?: string;
}

/** What is known of the key: nothing before it was tried. */
let state: KeyState = { set: false };
/** Counts the tries, so that a slow one never takes the place of a later one. */
let latest = 0;

/** The sentence for a box without a key. */
const noKey = 'There is no Anthropic key yet. Add one in Settings, Accounts & Keys.';

function access(secret: (name: string) => string, signal: AbortSignal): Access {
  let value: string;
  try {
    value = secret(key);
  } catch (err) {
    // What the owner turned off says so itself.
    throw err instanceof Error && /isn't allowed to/.test(err.message) ? err : new Refused(noKey);
  }
  let at = home;
  try {
    at = secret(base);
  } catch {
    // it is not set, or may not be used: then the real one it is
  }
  const url = URL.canParse(at) ? new URL(at) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash) {
    throw new Refused(`${base} is no address such as ${home}. Change it in Settings, Accounts & Keys.`);
  }
  return { key: value, base: url.href.replace(/\/+$/, ''), signal };
}

/** Reads what is asked, or throws what is wrong with it. */
function question(given: unknown): Question {
  const wrong = (what: string) => new Error(`ask: ${what}`);
  if (given === null || typeof given !== 'object' || Array.isArray(given)) throw wrong('an object with a prompt is needed');
  const a = given as Ask;
  const known = ['prompt', 'messages', 'system', 'model', 'maxTokens', 'temperature'];
  for (const name of Object.keys(a)) if (!known.includes(name)) throw wrong(`there is no ${name}; there are ${known.join(', ')}`);
  if ((a.prompt === undefined) === (a.messages === undefined)) throw wrong('a prompt is needed, or messages, and not both');
  const messages: Turn[] = a.messages ?? [{ role: 'user', content: a.prompt as string }];
  if (!Array.isArray(messages) || messages.length === 0) throw wrong('messages: at least one is needed');
  messages.forEach((m, i) => {
    if (m === null || typeof m !== 'object' || (m.role !== 'user' && m.role !== 'assistant')) throw wrong(`messages[${i}].role: user or assistant is needed`);
    if (typeof m.content !== 'string' || m.content.trim() === '') throw wrong(a.messages ? `messages[${i}].content: a text is needed` : 'prompt: a text is needed');
  });
  if (messages[0]?.role !== 'user') throw wrong('messages: the first is the user');
  if (a.system !== undefined && typeof a.system !== 'string') throw wrong('system: a text is needed');
  const model = a.model === undefined ? 'sonnet' : a.model;
  const id = typeof model === 'string' ? (Object.hasOwn(models, model) ? models[model] : model) : undefined;
  if (id === undefined || !/^claude-[A-Za-z0-9._@:-]{1,93}$/.test(id)) throw wrong('model: haiku, sonnet, opus or an id that starts with claude- is needed');
  const maxTokens = a.maxTokens ?? usualTokens;
  if (!Number.isInteger(maxTokens) || maxTokens < 1 || maxTokens > mostTokens) throw wrong(`maxTokens: a whole number from 1 to ${mostTokens} is needed`);
  if (a.temperature !== undefined && !(typeof a.temperature === 'number' && a.temperature >= 0 && a.temperature <= 1)) throw wrong('temperature: a number from 0 to 1 is needed');
  return { model: id, maxTokens, messages, system: a.system, temperature: a.temperature };
}

const told = (model: string, u: Usage) => `${model}: ${u.input + u.cacheWrite + u.cacheRead} tokens read, ${u.output} written`;

/** Asks, and tells what it cost, however it ended. */
async function answer(given: unknown, ctx: Ctx, spent: (cents: number, what: string) => void) {
  const q = question(given);
  try {
    const a = await ask(q, access((name) => ctx.secret(name), ctx.signal));
    const cost = cents(a.model, a.usage);
    spent(cost, told(a.model, a.usage));
    return { text: a.text, model: a.model, stop: a.stop, tokens: a.usage, cents: cost };
  } catch (err) {
    if (err instanceof Refused && err.used) spent(cents(err.used.model, err.used.usage), told(err.used.model, err.used.usage));
    throw err;
  }
}

/** Tries the key and notes what came of it; quietly only that it was refused. */
async function tryKey(box: Box, quiet = false): Promise<void> {
  const mine = ++latest;
  const found = await tried(box);
  if (mine !== latest) return;
  state = found;
  if (found.set && (!quiet || found.accepted === false)) box.note({ what: 'key', ...found });
}

async function tried(box: Box): Promise<KeyState> {
  let to: Access;
  try {
    to = access((name) => box.secret(name), AbortSignal.timeout(90_000));
  } catch (err) {
    return words(err) === noKey ? { set: false } : { set: true, error: words(err) };
  }
  const at = new Date().toISOString();
  try {
    await check(to);
    return { set: true, accepted: true, at };
  } catch (err) {
    // Only what the API itself says is about the key; a box that is offline knows no more than before.
    const known = err instanceof Refused && err.status > 0 && !err.passing;
    return { set: true, ...(known ? { accepted: false } : {}), error: words(err), at };
  }
}

const words = (err: unknown) => (err instanceof Error ? err.message : String(err));

/** Whether a line of the log says that the key, or where it is used, was changed. */
function changed(event: LogEvent): boolean {
  if (event.type !== 'note' || event.track !== 'box' || event.data === null || typeof event.data !== 'object' || Array.isArray(event.data)) return false;
  const { what, name } = event.data;
  return (what === 'vault key set' || what === 'vault key removed') && typeof name === 'string' && secrets.includes(name);
}

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Claude</title>
<link rel="stylesheet" href="/kit/gurtos.css">
<script src="/kit/gurtos.js"></script>
<main class="page">
  <h1>Claude</h1>
  <p id="state" role="status">Looking…</p>
  <div class="row"><button id="again">Check the key again</button></div>
</main>
<script>
const show = async (method) => {
  const said = document.getElementById('state');
  try {
    const k = await (await fetch('./key', { method })).json();
    said.textContent = !k.set ? ${JSON.stringify(noKey)} : k.error ?? (k.accepted ? 'Your Anthropic key works.' : 'Your Anthropic key was not tried yet.');
  } catch (err) {
    said.textContent = 'The box does not answer: ' + err.message;
  }
};
document.getElementById('again').onclick = () => show('POST');
show('GET');
</script>
</html>
`;

export default {
  name: 'anthropic',
  title: 'Claude',
  secrets,
  optionalSecrets: [base],

  modelJobs: [
    {
      name: 'ask',
      secrets,
      run: async (given: unknown, ctx) => await answer(given, ctx, (cost, what) => ctx.cost(cost, what)),
    },
  ],

  tools: [
    {
      name: 'anthropic.ask',
      description: 'Ask Claude a question that needs no tools and no files, and get its answer as text.',
      input,
      secrets,
      hosts: ['api.anthropic.com'],
      // The most that it can come to, in whole cents: every letter of the question a token, none of them in a cache yet, and the longest answer.
      cost: (given: Ask) => {
        const q = question(given);
        const letters = q.messages.reduce((sum, m) => sum + m.content.length, q.system?.length ?? 0);
        return Math.ceil(cents(q.model, { input: letters + 1_000, output: q.maxTokens, cacheWrite: 0, cacheRead: 0 }));
      },
      approval: (given: Ask) => ({ payee: 'Anthropic', purpose: `An answer of ${question(given).model}` }),
      async run(given: unknown, ctx) {
        // A call that fails is charged nothing, so what it used all the same is booked besides.
        const used: [number, string][] = [];
        try {
          const a = await answer(given, ctx, (cost, what) => used.push([cost, what]));
          return { text: a.text, model: a.model, stop: a.stop, spentCents: a.cents };
        } catch (err) {
          for (const [cost, what] of used) ctx.cost(cost, what);
          throw err;
        }
      },
    },
  ],

  triggers: [
    {
      name: 'key',
      start(box) {
        void tryKey(box, true);
        return box.on((event) => {
          if (changed(event)) void tryKey(box);
        });
      },
    },
  ],

  routes: {
    'GET /': () => new Response(page, { headers: { 'content-type': 'text/html; charset=utf-8' } }),
    'GET /key': () => Response.json(state),
    'POST /key': async (_req, box) => {
      await tryKey(box);
      return Response.json(state);
    },
  },

  apps: [{ name: 'anthropic', title: 'Claude', href: '/' }],
} satisfies Track;
