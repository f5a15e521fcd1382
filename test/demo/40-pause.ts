// The owner holds everything, lets it go on, and ends what is not wanted.

import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  const busy = await d.task('Counts', ['run i=0; while test $i -lt 100000; do i=$((i+1)); echo $i > n; test -e stop && break; sleep 0.02; done', 'step never']);
  await d.in(busy.id, 'running');
  const held = await d.api('POST', '/api/pause', { paused: true });
  d.check(held.paused === true && (await d.api('GET', '/api/health')).paused === true, 'all agents are paused');
  const late = await d.task('Comes meanwhile', ['write late.txt late']);
  d.check(late.state === 'queued', 'a task that comes meanwhile is queued');
  const frozen = await d.api('GET', `/api/tasks/${busy.id}`);
  d.check(frozen.state === 'running', 'one that runs keeps its state');
  await d.api('POST', `/api/tasks/${busy.id}/stop`);
  const stopped = await d.in(busy.id, 'failed');
  d.check(stopped.error === 'Stopped by box screen.', 'and can be stopped all the same');
  d.check((await d.api('GET', `/api/tasks/${late.id}`)).state === 'queued', 'the queue still stands');
  await d.api('POST', '/api/pause', { paused: false });
  await d.settled([late.id]);
  d.check(d.view('home', 'late.txt')?.startsWith('late'), 'afterwards it runs');
  d.check(d.view('home', 'n') === undefined, "nothing of the stopped one is in anybody's view");

  const going = await d.task('Is undone while it runs', ['write going.txt x', 'sleep 1h']);
  await d.waitFor('its first line', async () => (await d.steps(going.id))[1], 30_000);
  await d.api('POST', `/api/tasks/${going.id}/undo`);
  d.check((await d.in(going.id, 'undone')).state === 'undone', 'undo ends a task that runs');
  await d.refused(400, '', 'POST', `/api/tasks/${going.id}/stop`);
};
