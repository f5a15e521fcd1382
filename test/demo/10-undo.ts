// Two tasks work on the same project; the first is taken back, and what the second made stays.

import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  d.workspace('project', { 'README.md': 'A project\n', 'src/main.c': 'int main(void) { return 41; }\n', 'old.txt': 'old\n' });
  d.check(d.view('project', 'README.md') === 'A project\n', 'files that a person puts in are there');
  const [put] = await d.api('GET', '/api/tasks?workspace=project');
  d.check(put.title === 'Files put in' && put.state === 'done' && put.source === 'api', 'they are a finished task of their own');

  const a = await d.task('A builds', ['run gcc -o main src/main.c; ./main; test $? = 41', 'write notes.txt of A', 'write a.txt of A alone', 'delete old.txt'], { workspace: 'project' });
  const [doneA] = await d.settled([a.id]);
  d.check(doneA?.user === `box-${a.id}` && doneA.layers[0] === put.id, 'A ran as a user of its own and saw them');
  d.check(d.view('project', 'notes.txt')?.startsWith('of A') && d.view('project', 'old.txt') === undefined, "A's changes are part of the project once it is done");

  const b = await d.task('B goes on', ['run test -x main && cat a.txt', 'append notes.txt and of B', 'write b.txt of B alone'], { workspace: 'project' });
  const [doneB] = await d.settled([b.id]);
  d.check(doneB?.layers[0] === a.id, "B saw A's files");

  const changes = await d.api('GET', `/api/tasks/${a.id}/changes`);
  const by = Object.fromEntries(changes.map((c: any) => [c.path, c]));
  d.check(by['a.txt']?.change === 'added' && by['old.txt']?.change === 'deleted' && by['notes.txt']?.alsoChangedBy.includes(b.id), 'the box lists what A changed, and what B changed too');
  const diff: string = await d.api('GET', `/api/tasks/${b.id}/diff?path=notes.txt`);
  d.check(diff.includes('-of A') || diff.includes(' of A'), "B's diff is against what B saw");

  const preview = await d.api('GET', `/api/tasks/${a.id}/undo`);
  const outcome = Object.fromEntries(preview.paths.map((p: any) => [p.path, p.outcome]));
  d.check(outcome['a.txt'] === 'removed' && outcome['old.txt'] === 'restored', 'undo says beforehand what it will do');
  const before = d.view('project', 'notes.txt');
  await d.api('POST', `/api/tasks/${a.id}/undo`);
  d.check(d.view('project', 'a.txt') === undefined && d.view('project', 'main') === undefined, "after the undo A's files are gone");
  d.check(d.view('project', 'old.txt') === 'old\n', 'what A deleted is back');
  d.check(d.view('project', 'notes.txt') === before && d.view('project', 'b.txt')?.startsWith('of B alone'), 'what B made or changed is as B left it');
  const undone = await d.api('GET', `/api/tasks/${a.id}`);
  d.check(undone.state === 'undone', 'A is undone');
  await d.refused(410, '', 'GET', `/api/tasks/${a.id}/changes`);

  await d.api('POST', `/api/tasks/${put.id}/undo`);
  d.check(d.view('project', 'README.md') === undefined && d.view('project', 'b.txt') !== undefined, 'files put in can be undone too');

  const states = (await d.log(a.id)).flatMap((e) => (e.type === 'task.state' ? [e.state] : []));
  d.check(states.join(' ') === 'running done undone' || states.join(' ') === 'queued running done undone', 'the log tells it in order');
};
