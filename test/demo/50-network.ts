// A task reaches what it names and nothing else, and never the box.

import type { CoreKit } from './kit/kit.ts';

export default async (d: CoreKit) => {
  for (const [host, words] of [['localhost', 'hosts'], ['*.com', 'hosts'], ['127.0.0.1:80', 'hosts'], ['169.254.169.254:80', 'hosts'], ['0x7f000001:80', 'hosts'], ['example.com:70000', 'hosts'], ['user@example.com', 'hosts']]) {
    await d.refused(400, words ?? '', 'POST', '/api/tasks', { title: 't', prompt: 'step x', worker: 'fake', hosts: [host] });
  }
  const t = await d.task('Tries to get out', ['tryfetch http://example.com/', `tryfetch http://127.0.0.1:${d.port}/api/health`, `try curl -s -m 5 http://192.0.2.7:${d.port}/`, 'run cut -d: -s -f1 /proc/net/dev | tr -d " \\n"']);
  await d.settled([t.id]);
  const steps = await d.steps(t.id);
  d.check(steps[1].error && steps[2].error, 'a task without hosts reaches no name, nor the box');
  d.check(steps[3].output.includes(`This task may not reach 192.0.2.7:${d.port}`), `a program that speaks HTTP is told why: ${steps[3].output.trim()}`);
  d.check(steps[4].output === 'lo', 'it has a loopback and no other interface');
  const blocked = (await d.log(t.id)).flatMap((e) => (e.type === 'net.blocked' ? [e.host] : []));
  d.check(blocked.some((h) => h === 'example.com:53') && blocked.includes(`192.0.2.7:${d.port}`), `the log has what it reached for: ${blocked.join(', ')}`);

  const own = await d.task('Talks to itself', ['run python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 & sleep 0.1; for i in 1 2 3 4 5 6 7 8 9 10; do curl -sf http://127.0.0.1:8000/ >/dev/null && exit 0; sleep 0.3; done; exit 1']);
  d.check((await d.settled([own.id]))[0]?.state === 'done', 'its own loopback is its own');
};
