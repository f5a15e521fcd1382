// The Anthropic Messages API, as far as this app uses it: one streamed answer, the check of a key, and every refusal as a sentence for people.

/** Where the API is, unless the owner says else. */
export const home = 'https://api.anthropic.com';

/** The version of the API that is spoken here. */
const version = '2023-06-01';

/** How long the API may say nothing before it is given up, in ms. It sends a ping more often than that. */
export const silence = 60_000;

/** Waits before the second and the third try, in ms; a `retry-after` goes before them. */
const waits = [500, 2_000];

/** The longest `retry-after` that is waited for, in ms; above it whoever asked is told how long it takes. */
const patience = 20_000;

/** The most of an answer that is kept, in characters. */
const longest = 4_000_000;

/** One turn of a conversation. */
export interface Turn {
  role: 'user' | 'assistant';
  content: string;
}

/** What is asked. */
export interface Question {
  model: string;
  maxTokens: number;
  messages: Turn[];
  system?: string | undefined;
  temperature?: number | undefined;
}

/** What a call took, as the API counts it. */
export interface Usage {
  input: number;
  output: number;
  cacheWrite: number;
  cacheRead: number;
}

/** An answer. */
export interface Answer {
  text: string;
  /** The exact model that answered. */
  model: string;
  /** Why it ended: `end_turn`, `max_tokens`, `stop_sequence`. */
  stop: string;
  usage: Usage;
}

/** A refusal, in a sentence for people. What was used until then has to be paid all the same. */
export class Refused extends Error {
  /** The HTTP status; 0 where there was no answer. */
  readonly status: number;
  /** Whether the same question may be answered a little later. */
  readonly passing: boolean;
  /** How long the API asked to wait, in ms. */
  readonly wait: number | undefined;
  /** What a stream that broke off had used. */
  used: { model: string; usage: Usage } | undefined;

  constructor(sentence: string, status = 0, passing = false, wait?: number) {
    super(sentence);
    this.status = status;
    this.passing = passing;
    this.wait = wait;
  }
}

/** How to reach the API. */
export interface Access {
  key: string;
  /** Without a slash at its end. */
  base: string;
  signal: AbortSignal;
}

/** Asks, and gives the answer once it is whole. Passing faults are tried again, unless part of an answer was there already. */
export async function ask(q: Question, access: Access): Promise<Answer> {
  for (let tries = 0; ; tries++) {
    try {
      return await once(q, access);
    } catch (err) {
      if (access.signal.aborted) throw access.signal.reason instanceof Error ? access.signal.reason : new Refused('The question was given up before its answer came.');
      const wait = waits[tries];
      if (!(err instanceof Refused) || !err.passing || err.used || wait === undefined || (err.wait ?? 0) > patience) throw err;
      await pause(err.wait ?? wait, access.signal);
    }
  }
}

/** Sees whether the key is good, by a call that costs nothing. Throws a Refused when it is not, or when that can't be known. */
export async function check(access: Access): Promise<void> {
  const watch = quiet(access.signal);
  try {
    const res = await send('GET', '/v1/models?limit=1', undefined, access, watch.signal);
    if (!res.ok) throw await refusal(res, '');
    await res.body?.cancel();
  } catch (err) {
    throw watch.why(err, unreached);
  } finally {
    watch.end();
  }
}

const unreached = "Anthropic can't be reached. Is the box online?";
const brokeOff = "Anthropic's answer broke off. Try again.";

async function once(q: Question, access: Access): Promise<Answer> {
  const watch = quiet(access.signal);
  const a: Answer = { text: '', model: q.model, stop: '', usage: { input: 0, output: 0, cacheWrite: 0, cacheRead: 0 } };
  let begun = false;
  let ended = false;
  try {
    const body = { model: q.model, max_tokens: q.maxTokens, stream: true, messages: q.messages, system: q.system, temperature: q.temperature };
    const res = await send('POST', '/v1/messages', JSON.stringify(body), access, watch.signal);
    if (!res.ok) throw await refusal(res, q.model);
    for await (const data of events(res.body, watch)) {
      const e = read(data);
      switch (e.type) {
        case 'message_start':
          begun = true;
          a.model = String(e.message?.model ?? q.model);
          count(a.usage, e.message?.usage);
          break;
        case 'content_block_delta':
          if (e.delta?.type === 'text_delta') a.text += String(e.delta.text ?? '');
          if (a.text.length > longest) throw new Refused(`${q.model} answered with more than ${longest} characters.`);
          break;
        case 'message_delta':
          a.stop = String(e.delta?.stop_reason ?? a.stop);
          count(a.usage, e.usage);
          break;
        case 'message_stop':
          ended = true;
          break;
        case 'error':
          throw sentence(statusOf(e.error?.type), e.error?.type, e.error?.message, q.model);
      }
    }
    if (!ended) throw new Refused(brokeOff, 0, true);
  } catch (err) {
    const why = watch.why(err, begun ? brokeOff : unreached);
    if (begun && why instanceof Refused) {
      // What was written until here is not told any more: four letters make about one token.
      a.usage.output = Math.max(a.usage.output, Math.ceil(a.text.length / 4));
      why.used = { model: a.model, usage: a.usage };
    }
    throw why;
  } finally {
    watch.end();
  }
  if (a.stop === 'refusal') {
    const no = new Refused(`${a.model} declined to answer this.`);
    no.used = { model: a.model, usage: a.usage };
    throw no;
  }
  return a;
}

async function send(method: string, path: string, body: string | undefined, access: Access, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { 'x-api-key': access.key, 'anthropic-version': version };
  if (body !== undefined) headers['content-type'] = 'application/json';
  // A redirect would take the key to wherever it leads.
  return await fetch(access.base + path, { method, headers, body, signal, redirect: 'error' });
}

/** The data of each server-sent event, as they come. */
async function* events(body: ReadableStream<Uint8Array> | null, watch: { heard(): void }): AsyncGenerator<string> {
  const text = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  for await (const bytes of body ?? []) {
    watch.heard();
    rest += text.decode(bytes, { stream: true });
    if (rest.length > longest) throw new Refused('Anthropic sent a line that has no end.');
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
      else if (line === '' && data.length > 0) {
        yield data.join('\n');
        data = [];
      }
    }
  }
}

interface StreamEvent {
  type?: unknown;
  message?: { model?: unknown; usage?: unknown };
  delta?: { type?: unknown; text?: unknown; stop_reason?: unknown };
  usage?: unknown;
  error?: { type?: string; message?: string };
}

function read(data: string): StreamEvent {
  try {
    const e: unknown = JSON.parse(data);
    if (e !== null && typeof e === 'object') return e;
  } catch {
    // said below
  }
  throw new Refused("Anthropic's answer can't be read. Is ANTHROPIC_BASE_URL the address of its API?", 0, true);
}

/** Takes over the counts that are there: each one stands for the whole answer so far. */
function count(into: Usage, from: unknown): void {
  const u = (from ?? {}) as Record<string, unknown>;
  const take = (name: string, now: number) => (typeof u[name] === 'number' && u[name] >= 0 ? Math.ceil(u[name]) : now);
  into.input = take('input_tokens', into.input);
  into.output = take('output_tokens', into.output);
  into.cacheWrite = take('cache_creation_input_tokens', into.cacheWrite);
  into.cacheRead = take('cache_read_input_tokens', into.cacheRead);
}

/** The status that an error in the middle of a stream would have had. */
function statusOf(type: string | undefined): number {
  const by: Record<string, number> = {
    invalid_request_error: 400, authentication_error: 401, billing_error: 402, permission_error: 403, not_found_error: 404,
    request_too_large: 413, rate_limit_error: 429, timeout_error: 504, overloaded_error: 529,
  };
  return by[type ?? ''] ?? 500;
}

async function refusal(res: Response, model: string): Promise<Refused> {
  let type: string | undefined;
  let message: string | undefined;
  try {
    const body = JSON.parse((await res.text()).slice(0, 100_000)) as StreamEvent;
    ({ type, message } = body.error ?? {});
  } catch {
    // an answer of something that stands before the API: its status says enough
  }
  const seconds = Number(res.headers.get('retry-after') ?? Number.NaN);
  return sentence(res.status, type, message, model, Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined);
}

/** The sentence for an error of the API. */
function sentence(status: number, type: string | undefined, message: string | undefined, model: string, wait?: number): Refused {
  const said = (message ?? '').slice(0, 300).trim();
  const later = wait === undefined ? 'Try again in a few minutes.' : `Try again in ${Math.ceil(wait / 1000)} s.`;
  switch (true) {
    case status === 401 || type === 'authentication_error':
      return new Refused('Your Anthropic key was not accepted. Change it in Settings, Accounts & Keys.', status);
    case status === 402 || type === 'billing_error' || /credit balance/i.test(said):
      return new Refused('Your Anthropic account has no credit left. Add some at Anthropic, then try again.', status);
    case status === 403:
      return new Refused(`Your Anthropic key may not be used for ${model || 'this'}. Give it more rights at Anthropic, or set another one in Settings, Accounts & Keys.`, status);
    case status === 404:
      return new Refused(model ? `Anthropic has no model named ${model}.` : 'This is not the address of the Anthropic API. Check ANTHROPIC_BASE_URL in Settings, Accounts & Keys.', status);
    case status === 413 || /prompt is too long/i.test(said):
      return new Refused(`The question is too long for ${model || 'Anthropic'}.`, status);
    case status === 429:
      return new Refused(`Anthropic limits how much your key may ask, and it asked more. ${later}`, status, true, wait);
    case status === 529 || type === 'overloaded_error':
      return new Refused(`Anthropic is overloaded. ${later}`, status, true, wait);
    case status >= 500:
      return new Refused(`Anthropic has a fault of its own (${status}). ${later}`, status, true, wait);
  }
  return new Refused(`Anthropic did not take the question (${status})${said ? `: ${said}` : ''}`, status);
}

/** Gives up when nothing was heard for too long, and tells that apart from the other ends. */
function quiet(outer: AbortSignal) {
  const c = new AbortController();
  const give = () => c.abort(new Refused(`Anthropic said nothing for ${silence / 1000} s. Try again.`, 0, true));
  let timer = setTimeout(give, silence);
  return {
    signal: AbortSignal.any([outer, c.signal]),
    heard() {
      clearTimeout(timer);
      timer = setTimeout(give, silence);
    },
    why(err: unknown, otherwise: string): unknown {
      if (c.signal.aborted) return c.signal.reason;
      if (err instanceof Refused || outer.aborted) return err;
      return new Refused(otherwise, 0, true);
    },
    end: () => clearTimeout(timer),
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, no) => {
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      done();
    }, ms);
    const stop = () => {
      clearTimeout(timer);
      no(signal.reason as Error);
    };
    signal.addEventListener('abort', stop, { once: true });
  });
}
