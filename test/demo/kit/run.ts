// Runs the demo: a fresh box, then every step against it, in the order of their names: the core's in test/demo/, then each app's tracks/<name>/demo.ts.
// One line a check. The first check that does not hold ends the run with exit code 1, and what the box said is kept.

import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RunningBox, root } from './box.ts';
import { kit } from './kit.ts';

interface Step {
  name: string;
  file: string;
}

/** What a step's file exports. */
interface StepModule {
  /** The step. */
  default?: unknown;
  /** Builds what the step needs, before its time begins. */
  prepare?: () => void;
}

/** What a step may take, in ms. A longer one is said to be; on a busy machine it is not wrong. */
const most = 10_000;
/** What ends a step that hangs, in ms. */
const limit = 120_000;

const only = process.env['DEMO_ONLY'] ?? '';
const steps = found().filter((s) => only === '' || s.name === only || s.name === `track ${only}`);
if (steps.length === 0) {
  console.error(`demo: there is no step ${only}; there are ${found().map((s) => s.name).join(', ')}.`);
  process.exit(1);
}

const box = new RunningBox();
let ending = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (ending) return;
    ending = true;
    void Promise.allSettled([...RunningBox.all].map((b) => b.stop())).then(() => {
      for (const b of RunningBox.all) b.remove();
      process.exit(signal === 'SIGINT' ? 130 : 143);
    });
  });
}
process.exit(await run());

async function run(): Promise<number> {
  const began = performance.now();
  let checks = 0;
  let now = 'start';
  try {
    await box.start();
    for (const step of steps) {
      now = step.name;
      const told = checks;
      const { default: run, prepare } = (await import(pathToFileURL(step.file).href)) as StepModule;
      if (typeof run !== 'function') throw new Error(`${step.file} has no function as its default export`);
      prepare?.();
      const from = performance.now();
      await inTime(step.name, run(kit(box, (what) => (checks++, console.log(`ok   ${step.name}: ${what}`)))));
      if (checks === told) throw new Error('it checks nothing');
      const took = performance.now() - from;
      if (took > most) console.log(`     ${step.name} took ${seconds(took)}, and a step is to take at most ${seconds(most)}`);
    }
    now = 'end';
    await box.stop();
    console.log(`${checks} checks hold, ${seconds(performance.now() - began)}`);
    return 0;
  } catch (err) {
    if (ending) await new Promise(() => undefined); // the box was ended under the step
    console.log(`FAIL ${now}: ${err instanceof Error ? err.message : String(err)}`);
    if (err instanceof Error && err.stack) console.log(err.stack.split('\n').filter((l) => l.includes('test/demo/') || l.includes('tracks/')).slice(0, 4).join('\n'));
    const kept = join(root, '.cache', 'demo', new Date().toISOString().replaceAll(/[-:]|\.\d+/g, ''));
    mkdirSync(kept, { recursive: true });
    await box.stop().catch(() => box.kill());
    writeFileSync(join(kept, 'boxd.log'), box.said());
    box.keep(kept);
    console.log(box.said().split('\n').slice(-12).map((l) => `     | ${l}`).join('\n'));
    console.log(`     what the box said and its action log are kept in ${kept}`);
    return 1;
  } finally {
    box.remove();
  }
}

function found(): Step[] {
  const dir = join(root, 'test', 'demo');
  const steps = readdirSync(dir)
    .filter((f) => f.endsWith('.ts'))
    .sort()
    .map((f) => ({ name: basename(f, '.ts').replace(/^\d+-/, ''), file: join(dir, f) }));
  const tracks = process.env['BOX_TRACKS'] ?? join(root, 'tracks');
  for (const app of existsSync(tracks) ? readdirSync(tracks).sort() : []) {
    const file = join(tracks, app, 'demo.ts');
    if (existsSync(file)) steps.push({ name: `track ${app}`, file });
  }
  return steps;
}

async function inTime(name: string, run: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, no) => {
    timer = setTimeout(() => no(new Error(`${name} is not through after ${seconds(limit)}`)), limit);
  });
  try {
    await Promise.race([run, late]);
  } finally {
    clearTimeout(timer);
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
