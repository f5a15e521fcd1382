// What things cost, to the last digit, whichever way a task says it.

import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  const t = await d.task('Costs', ['cost 0.1 a', 'cost 0.2 b', ...Array.from({ length: 7 }, (_, i) => `cost 0.1 ${i}`), 'cost 1e-3 little'], { budgetCents: 5 });
  const [done] = await d.settled([t.id]);
  d.check(done?.costCents === 1.001, 'nine tenths and a bit of a cent add up exactly, where floating point would not');
  const costs = (await d.log(t.id)).filter((e) => e.type === 'cost');
  d.check(costs.length === 10 && costs.every((e) => e.task === t.id), 'each is a line of the log');

  const usage = (model: string, tokens: object) => `curl -s --unix-socket $BOX_SOCKET http://box/usage -d '${JSON.stringify({ model, tokens })}'`;
  const sonnet = { input: 12000, output: 900, cacheWrite: 0, cacheRead: 48000 };
  const m = await d.task('A model', [`run ${usage('claude-sonnet-5-5', sonnet)}`, `run ${usage('nobody-knows-it', sonnet)}`, `run ${usage('claude-sonnet-5-5', { input: -1 })} | grep -q '"error"'`]);
  await d.settled([m.id]);
  const priced = (await d.log(m.id)).flatMap((e) => (e.type === 'cost' ? [e] : []));
  const want = (12000 * 200 + 900 * 1000 + 48000 * 10) / 1e6;
  d.check(priced.length === 2 && priced[0]?.cents === want && priced[0].tokens?.cacheRead === 48000, `tokens are priced by the list: ${want} cents`);
  d.check(priced[1]?.cents === want, 'a model that nobody knows is priced as claude-sonnet-5-5');
  const spend = await d.api('GET', '/api/spend');
  const sum = (model?: string) => spend.filter((s: any) => (s.model || undefined) === model).reduce((n: number, s: any) => n + s.cents, 0);
  d.check(sum('claude-sonnet-5-5') === want, 'spending is told by day, app and model');

  const less = await d.task('Less than nothing', ['cost -1 back']);
  const end = await d.in(less.id, 'failed', 'done');
  d.check(end.state === 'failed' && end.error?.includes('cents: a cost of 0 or more') && end.costCents === 0, 'nobody lowers what a task has cost');
  for (const budgetCents of [-1, 0.5, 100_001, '100']) await d.refused(400, 'budgetCents', 'POST', '/api/tasks', { title: 't', prompt: 'step x', worker: 'fake', budgetCents });
};
