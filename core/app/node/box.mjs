// The Box and the Ctx that the app's functions get. What they do, the box does: here are the calls.

const later = (edition, what) => new Error(`${what} belongs to GurtOS ${edition}, which is not this box`);

/** A value as it comes out of JSON; undefined where JSON has nothing for it. */
function plain(value, what) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (thrown) {
    throw new Error(`${what} can't be written as JSON: ${thrown.message}`);
  }
  return text === undefined ? undefined : JSON.parse(text);
}

function* pages(blocking, method) {
  for (let after; ; ) {
    const page = blocking.call(method, { after });
    yield* page.list;
    if (page.next === undefined) return;
    after = page.next;
  }
}

export function makeBox(world, name) {
  const { wire, blocking } = world;
  let watches = 0;
  return Object.freeze({
    createTask: async (spec) => wire.call('createTask', { spec: plain(spec, 'the task') }),
    workspace: async (workspace, fromDir) => void (await wire.call('workspace', { name: workspace, from: place(fromDir) })),
    linkWorkspace: async () => {
      throw later('Personal', 'box.linkWorkspace()');
    },
    task: (id) => blocking.call('task', { id }) ?? undefined,
    tasks: () => [...pages(blocking, 'tasks')],
    undo: async (id) => void (await wire.call('undo', { id })),
    approvals: () => [...pages(blocking, 'approvals')],
    answer: async (id, approved, by) => wire.call('answer', { id, approved, by }),
    on(listener) {
      if (typeof listener !== 'function') throw new Error('box.on() needs a function');
      const mine = (event) => listener(event); // the same function twice is two listeners
      if (world.listeners.size === 0) blocking.call('listen', { on: true });
      world.listeners.add(mine);
      return () => {
        if (world.listeners.delete(mine) && world.listeners.size === 0) blocking.call('listen', { on: false });
      };
    },
    job: async (job, input, task) => wire.call('job', { name: job, input: plain(input, 'the input') ?? null, task }),
    note: (data, task) => void blocking.call('note', { data: plain(data, 'the note') ?? null, task }),
    onWebhook(hook, handler) {
      if (typeof handler !== 'function') throw new Error('box.onWebhook() needs a function');
      blocking.call('hook', { name: hook, on: true });
      world.hooks.set(hook, handler);
      return () => {
        if (world.hooks.get(hook) !== handler) return;
        world.hooks.delete(hook);
        blocking.call('hook', { name: hook, on: false });
      };
    },
    secret: (key) => blocking.call('secret', { name: key }),
    policy() {
      throw later('Business', 'box.policy()');
    },
    setPolicy: async () => {
      throw later('Business', 'box.setPolicy()');
    },
    watch(watch, fire) {
      if (typeof fire !== 'function') throw new Error('box.watch() needs a function');
      const id = ++watches;
      world.watches.set(id, fire);
      try {
        blocking.call('watch', { id, watch: plain(watch, 'the watch') ?? null });
      } catch (thrown) {
        world.watches.delete(id);
        throw thrown;
      }
      return () => {
        if (world.watches.delete(id)) wire.call('unwatch', { id }).catch(() => {});
      };
    },
    [Symbol.toStringTag]: `Box of ${name}`,
  });
}

/** A folder as the app sees it: a path, or the file: address that import.meta.url gives. */
function place(dir) {
  if (dir === undefined || dir === null) return undefined;
  const text = String(dir);
  if (text.startsWith('file:')) return decodeURIComponent(new URL(text).pathname);
  return text.startsWith('/') ? text : `${process.cwd()}/${text}`;
}

export function makeCtx(world, { call, key, task, end }) {
  const { wire, blocking } = world;
  return Object.freeze({
    box: world.box,
    task: task ?? undefined,
    key,
    get signal() {
      return end.signal;
    },
    secret: (name) => blocking.call('secret', { call, name }),
    cost: (cents, what) => void blocking.call('cost', { call, cents: plain(cents, 'the cost'), what }),
    log: (text, data) => void blocking.call('log', { call, text, data: plain(data, 'the data') }),
    ask: async (question, opts) => (await wire.call('ask', { call, question, purpose: opts?.purpose })) === true,
  });
}
