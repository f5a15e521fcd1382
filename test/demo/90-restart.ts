// The box goes down, in order and not, and loses nothing of what it had said. Its log proves it, and betrays a single changed byte.

import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  const asks = await d.task('Asks over a restart', ['write r1.txt before', 'ask Still the same question?', 'write r2.txt after']);
  const question = await d.question(asks.id);
  const long = await d.task('Works over a restart', ['append count.txt 1', 'run until test -e /home/box/again; do touch /home/box/again; sleep 1h; done', 'append count.txt 2']);
  await d.waitFor('its second line', () => holds(join(d.home, 'tasks', long.id), 'again'), 30_000);
  const before = await d.log();

  await d.box.kill();
  await d.box.start();
  const after = await d.log();
  d.check(after.length > before.length && before.every((e, i) => JSON.stringify(e) === JSON.stringify(after[i])), 'a box that is killed has every line that it had shown');
  const [done] = await d.settled([long.id]);
  d.check(d.view('home', 'count.txt')?.replaceAll('\n', '') === '12' && done?.costCents === 0, 'a task goes on behind the last line it had told');
  const same = await d.question(asks.id);
  d.check(same.id === question.id, 'a question is still the same one');

  await d.box.stop();
  await d.box.start();
  await d.api('POST', `/api/approvals/${question.id}`, { approved: true });
  await d.settled([asks.id]);
  d.check(d.view('home', 'r1.txt')?.startsWith('before') && d.view('home', 'r2.txt')?.startsWith('after'), 'answered after a restart in order, it goes on');
  const asked = (await d.log(asks.id)).filter((e) => e.type === 'approval.asked');
  d.check(asked.length === 1, 'it was asked once');

  const ok = d.box.command('log', 'verify');
  d.check(ok.code === 0, `box log verify: ${ok.out.trim().split('\n')[0]}`);
  await d.box.stop();
  const head = /stopped at line (\d+) of the action log, ([0-9a-f]{64})/.exec(d.box.said().trim().split('\n').at(-1) ?? '');
  d.check(head, 'at its end the box says where its log stands');
  const log = join(d.home, 'log.jsonl');
  const text = readFileSync(log, 'utf8');
  d.check(text.trimEnd().split('\n').length === Number(head?.[1]), 'and so it does');
  const kept = join(d.home, 'kept.jsonl');
  copyFileSync(log, kept);
  const lines = text.split('\n');
  for (const [how, forged] of [
    ['a changed byte', text.replace('Still the same question?', 'Still the same questioN?')],
    ['a line left out', lines.toSpliced(4, 1).join('\n')],
    ['two lines the other way round', lines.toSpliced(4, 2, lines[5] ?? '', lines[4] ?? '').join('\n')],
    ['an end cut off', lines.slice(0, -3).join('\n') + '\n'],
  ] as const) {
    writeFileSync(log, forged);
    const found = d.box.command('log', 'verify');
    d.check(found.code === 1, `box log verify finds ${how}: ${found.out.trim().split('\n')[0]}`);
  }
  copyFileSync(kept, log);
  mkdirSync(join(d.home, 'again'), { recursive: true });
  d.check(d.box.command('log', 'verify').code === 0, 'put back, it is whole again');
  await d.box.start();
};

/** Whether a file of this name is somewhere in a folder that somebody is at work in. */
function holds(dir: string, name: string): boolean {
  try {
    return readdirSync(dir, { recursive: true, withFileTypes: true }).some((e) => e.name === name);
  } catch {
    return false; // a folder went away meanwhile
  }
}
