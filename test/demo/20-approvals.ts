// A task asks. The first answer holds, whoever gives it, and a task that waits costs nobody a place.

import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  const t = await d.task('Asks', ['tryask Which is it?', 'ask May I go on?', 'write asked.txt yes', 'summary asked twice']);
  const first = await d.question(t.id);
  d.check(first.id === `${t.id}.task.1` && first.question === 'Which is it?' && first.costCents === 0, 'a question names its task and key');
  d.check((await d.in(t.id, 'waiting')).state === 'waiting', 'the task waits meanwhile');
  const others = await d.task('Another', ['step passes by']);
  d.check((await d.settled([others.id]))[0]?.state === 'done', 'other tasks go on');

  const answers = await Promise.all([true, false, true, false].map((approved, i) => d.ask('POST', `/api/approvals/${first.id}`, { approved, by: `door ${i}` })));
  const held = new Set(answers.map((a) => `${a.status} ${a.body.state} by ${a.body.by}`));
  d.check(held.size === 1 && answers[0]?.status === 200, 'of four answers at once one holds, and all four are told it');
  const second = await d.waitFor('the next question', async () => (await d.api('GET', '/api/approvals?state=pending')).find((a: any) => a.id === `${t.id}.task.2`), 30_000);
  d.check((await d.steps(t.id))[1].approved === (answers[0]?.body.state === 'approved'), 'the task is told the same');
  await d.api('POST', `/api/approvals/${second.id}`, { approved: true, reason: 'Go on.' });
  await d.settled([t.id]);
  d.check(d.view('home', 'asked.txt')?.startsWith('yes'), 'a yes lets it go on');
  const yes = (await d.log(t.id)).find((e) => e.type === 'approval.answered' && e.id === second.id);
  d.check(yes?.type === 'approval.answered' && yes.approved && yes.by === 'box screen' && yes.reason === 'Go on.', 'the log has who answered and why');

  const no = await d.task('Is told no', ['write no.txt no', 'ask May I?']);
  await d.api('POST', `/api/approvals/${(await d.question(no.id)).id}`, { approved: false });
  const end = await d.in(no.id, 'failed', 'done');
  d.check(end.state === 'failed' && end.error?.includes('is no'), `a no fails a task that needs a yes: ${end.error}`);
  d.check(d.view('home', 'no.txt') === undefined, 'and what it wrote is not seen');
  const again = await d.ask('POST', `/api/approvals/${first.id}`, { approved: answers[0]?.body.state !== 'approved', by: 'later' });
  d.check(again.status === 200 && again.body.by === answers[0]?.body.by, 'a later answer changes nothing');

  // Longer than a client waits: the broker says that it is pending, and the same key gets the answer.
  const ask = (key: string) => `curl -s --unix-socket $BOX_SOCKET http://box/ask -d '{"question":"Slow?","key":"${key}"}'`;
  const slow = await d.task('Waits long', [`run ${ask('k')} > first.json`, `run until ${ask('k')} | tee last.json | grep -q approved; do :; done`]);
  const question = await d.question(slow.id);
  await d.waitFor('the pending answer', async () => (await d.log(slow.id)).some((e) => e.type === 'task.step'), 30_000);
  d.check((await d.in(slow.id, 'waiting')).state === 'waiting', 'a question outlasts the request that asked it');
  await d.api('POST', `/api/approvals/${question.id}`, { approved: true });
  await d.settled([slow.id]);
  d.check(d.view('home', 'first.json')?.trim() === '{"pending":true}', 'the task was told that it is pending');
  d.check(d.view('home', 'last.json')?.trim() === '{"approved":true}', 'and asking with the same key gave the answer');
  const asked = (await d.log(slow.id)).filter((e) => e.type === 'approval.asked');
  d.check(asked.length === 1 && question.id === `${slow.id}.task.k`, 'it was one question all the time');

  const stopped = await d.task('Is stopped', ['ask Still there?']);
  const open = await d.question(stopped.id);
  await d.api('POST', `/api/tasks/${stopped.id}/stop`);
  const closed = (await d.api('GET', '/api/approvals')).find((a: any) => a.id === open.id);
  d.check(closed.state === 'denied' && closed.by === 'task ended', "a stopped task's question falls away");
  await d.refused(404, '', 'POST', '/api/approvals/t0.task.none', { approved: true });
};
