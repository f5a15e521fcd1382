// The app on a real box: DEMO_ONLY=NAME ./demo

import type { DemoKit } from '../../core/contract.ts';

export default async (d: DemoKit) => {
  await d.api('PUT', '/api/apps/NAME', { on: true });
  const task = await d.api('POST', '/api/tasks', { title: 'Write', prompt: 'call NAME.write {"text":"Buy tea"}', worker: 'fake', tools: ['NAME.write'] });
  await d.settled([task.id]);
  d.check((await d.api('GET', '/t/NAME/notes')).includes('Buy tea'), 'a task writes down a line, and the page shows it');
  await d.api('PUT', '/api/apps/NAME', { on: false });
};
