// The model app on a real box, against a stand-in for Anthropic that is on another machine as far as the app can tell. With DEMO_LIVE=anthropic and a key in
// ANTHROPIC_API_KEY it asks Anthropic itself, for a fraction of a cent.

import type { DemoKit, LogEvent, Task } from '../../core/contract.ts';
import { build, messages } from '../../test/fixtures/messages/client.ts';

const live = process.env['DEMO_LIVE'] === 'anthropic';
const key = live ? (process.env['ANTHROPIC_API_KEY'] ?? '') : 'sk-ant-demo-0123456789';

export const prepare = () => {
  if (!live) build();
  else if (key.length < 8) throw new Error('DEMO_LIVE=anthropic asks Anthropic itself: put your key into ANTHROPIC_API_KEY, or leave DEMO_LIVE out');
};

export default async (d: DemoKit) => {
  // A box answers before it has read its apps.
  await d.waitFor('the model app', async () => (await d.api<any[]>('GET', '/api/apps')).some((a) => a.name === 'anthropic'), 60_000);
  d.check(true, 'the model app is on from the first boot');
  const log = (task?: string) => d.api<LogEvent[]>('GET', `/api/log?after=0${task ? `&task=${task}` : ''}`);
  /** Has a task ask, one after the other, and gives the answers and the task. */
  const ask = async (...prompts: string[]): Promise<[any[], Task]> => {
    const lines = prompts.map((prompt) => `trycall anthropic.ask ${JSON.stringify({ prompt, maxTokens: 60 })}`);
    const { id } = await d.api('POST', '/api/tasks', { title: 'Asks Claude', prompt: lines.join('\n'), worker: 'fake', tools: ['anthropic.ask'] });
    const [task] = await d.settled([id]);
    return [(await log(id)).flatMap((e) => (e.type === 'task.step' && (e.data as any)?.answer ? [(e.data as any).answer] : [])), task as Task];
  };
  const noted = async () => (await log()).filter((e) => e.type === 'note' && e.track === 'anthropic').map((e) => (e as any).data).at(-1);

  const [[none]] = await ask('Are you there?');
  d.check(!none.ok && none.error === 'There is no Anthropic key yet. Add one in Settings, Accounts & Keys.', `without a key: ${none.error}`);

  const api = live ? undefined : await messages(key, 'outside');
  try {
    if (api) await d.api('PUT', '/api/vault/ANTHROPIC_BASE_URL', { value: api.url });
    /** What came of trying the key, once it was; ends the step where nobody could be asked. */
    const tried = (what: string, accepted: boolean) =>
      d.waitFor(what, async () => {
        const now = await noted();
        if (now && now.accepted === undefined) throw new Error(`${what}: ${now.error}`);
        return now?.accepted === accepted && now;
      }, 30_000);
    await d.api('PUT', '/api/vault/ANTHROPIC_API_KEY', { value: 'sk-ant-somebody-elses' });
    const no = await tried('the key is tried', false);
    d.check(no.error === 'Your Anthropic key was not accepted. Change it in Settings, Accounts & Keys.', `a key is tried when it is set: ${no.error}`);
    await d.api('PUT', '/api/vault/ANTHROPIC_API_KEY', { value: key });
    await tried('the other key is tried', true);
    d.check((await d.api('GET', '/t/anthropic/key')).accepted === true, 'a good one is known to be good');

    const [[hello], task] = await ask('Say hello in one word.');
    d.check(hello.ok && hello.output.text.length > 0, `Claude answers: ${hello.output?.text}`);
    d.check(task.costCents === hello.output.spentCents && task.costCents > 0, `the task pays what it took: ${task.costCents} cents`);
    const spend = (await d.api<any[]>('GET', '/api/spend')).find((s) => s.app === 'anthropic');
    d.check(spend?.cents >= task.costCents, 'and the box shows it');

    if (api) {
      d.check(hello.output.text === 'You said: Say hello in one word.' && hello.output.spentCents === 0.01975, 'streamed as it was sent, priced with what the cache gave');
      const sent = api.seen.find((s) => s.method === 'POST');
      d.check(sent?.key === key && sent.body.stream === true && sent.body.max_tokens === 60, 'asked with the key from the vault');
      const wishes = {
        '[[status 529 0]]': 'Anthropic is overloaded. Try again in 0 s.',
        '[[status 429 90]]': 'Anthropic limits how much your key may ask, and it asked more. Try again in 90 s.',
        '[[break]]': "Anthropic's answer broke off. Try again.",
        '[[refuse]]': 'claude-sonnet-5-5 declined to answer this.',
      };
      const [said, refused] = await ask(...Object.keys(wishes));
      Object.values(wishes).forEach((sentence, i) => d.check(!said[i].ok && said[i].error === sentence, said[i].error));
      const spent = (await log(refused.id)).flatMap((e) => (e.type === 'cost' ? [e.cents] : []));
      d.check(spent.length === 2 && spent[1] === 0.01975, 'what a broken answer and a refusal took is paid, too');
      await d.api('PUT', '/api/vault/ANTHROPIC_BASE_URL', { value: api.url.replace(/:80$/, ':81') });
      const gone = await d.waitFor('the key is tried where nobody answers', async () => {
        const now = await noted();
        return now?.accepted === undefined && now;
      }, 30_000);
      d.check(gone.error === "Anthropic can't be reached. Is the box online?", `of a key that nobody could be asked about it says only: ${gone.error}`);
      await d.api('DELETE', '/api/vault/ANTHROPIC_BASE_URL');
    }
  } finally {
    await api?.stop();
  }
  await d.api('DELETE', '/api/vault/ANTHROPIC_API_KEY');
  d.check(!JSON.stringify(await log()).includes(key), 'the key is nowhere in the log');
};
