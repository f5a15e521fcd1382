// What an app's page can do in a real browser, and what it can't. The browser runs as the user whose connections are the box's own screen: there a page has
// the most to gain.

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { after, before, test } from 'node:test';
import type { Browser, Frame, Page } from 'playwright-core';
import { at, browser, desk, type Desk, PagesBox, secret } from './box.ts';

let box: PagesBox;
let chrome: Browser;

before(async () => {
  box = new PagesBox();
  await box.start();
  chrome = await browser();
});

after(async () => {
  await chrome?.close();
  const leaks = (await box?.leaks()) ?? [];
  await box?.stop();
  box?.remove();
  assert.deepEqual(leaks, [], "a key's value is outside the vault");
});

/** A window on the probe, closed when the test ends. */
async function open(t: { after(fn: () => Promise<void>): void }, path = '/t/probe/', token?: string): Promise<Desk & { token: string }> {
  token ??= await box.window();
  const d = await desk(chrome, box, path, token);
  t.after(() => d.context.close());
  return { ...d, token };
}

/** What the page that a frame or popup came to says that its route was called with. */
const shown = async (f: Frame | Page) => JSON.parse((await f.locator('#told').textContent()) ?? '');

/** Waits until the desktop has heard something. */
async function hears(d: Desk, what: (m: any) => boolean): Promise<any> {
  await d.page.waitForFunction(`heard.some(${what})`);
  return (await d.heard()).find(what);
}

test('a page works without a word about tokens', async (t) => {
  const { frame } = await open(t);
  const told = (path: string, init?: { method?: string; body?: string; headers?: Record<string, string> }) => frame.evaluate(async ({ path, init }) => (await fetch(path, init)).json(), { path, init });

  const own = await told('./told?a=%20b');
  assert.deepEqual([own.caller, own.query, own.authorization, own.cookie, own.referer], ['screen', '?a=%20b', null, null, null]);
  assert.equal((await told('./told', { method: 'POST', body: JSON.stringify({ name: 'Ada' }), headers: { 'content-type': 'application/json', 'x-own': '1' } })).body, '{"name":"Ada"}');
  assert.equal((await told('./told', { method: 'DELETE' })).method, 'DELETE');
  assert.deepEqual(await told('/api/tasks'), []);
  assert.deepEqual(await told('/api/approvals'), []);
  assert.equal(await frame.evaluate(async () => (await fetch(new Request('./told', { method: 'POST', body: 'x' }))).status), 200, 'a Request');
  assert.equal(await frame.evaluate(async () => (await fetch(new URL('./told', document.baseURI))).status), 200, 'a URL');

  const vault = await frame.evaluate(async () => {
    const a = await fetch('/api/vault');
    return { status: a.status, error: (await a.json()).error };
  });
  assert.deepEqual(vault, { status: 403, error: "an app's window may use only its own routes" });

  const old = await frame.evaluate(
    () =>
      new Promise<any>((done, no) => {
        const x = new XMLHttpRequest();
        x.open('POST', './told');
        x.onload = () => done(JSON.parse(x.responseText));
        x.onerror = no;
        x.send('by hand');
      }),
  );
  assert.deepEqual([old.caller, old.body], ['screen', 'by hand']);
});

test('what the browser loads by itself carries the token', async (t) => {
  const { frame } = await open(t);
  await frame.waitForSelector('body[data-more=came]', { state: 'attached' });
  assert.equal(await frame.getAttribute('body', 'data-module'), 'null', 'a module with location.search');

  const events = await frame.evaluate(
    () =>
      new Promise<string[]>((done, no) => {
        const got: string[] = [];
        const es = new EventSource('./events');
        es.onmessage = (e) => {
          if (got.push(e.data) < 3) return;
          es.close();
          done(got);
        };
        es.onerror = () => no(new Error(`broken off after ${got.length}`));
      }),
  );
  assert.deepEqual(events, ['0', '1', '2']);

  const late = await frame.evaluate(async () => {
    await import((window as any).gurtos.url('./more.js'));
    return document.body.dataset['more'];
  });
  assert.equal(late, 'came', 'gurtos.url after the page has loaded');
});

test('links and forms carry the token, and so do the pages that they lead to', async (t) => {
  const d = await open(t);
  const { frame } = d;
  await frame.click('#link');
  await frame.waitForURL('**/shown**');
  assert.deepEqual([(await shown(frame)).caller, (await shown(frame)).query], ['screen', '?a=%20b']);
  await frame.click('#back');
  await frame.waitForSelector('#posts');

  await frame.click('#posts');
  await frame.waitForURL('**/form**');
  assert.deepEqual([(await shown(frame)).method, (await shown(frame)).body], ['POST', 'a=1']);
  await frame.click('#back');

  await frame.click('#redirects');
  await frame.waitForURL('**/shown**');
  assert.deepEqual([(await shown(frame)).method, (await shown(frame)).query], ['GET', '?after=post']);
  await frame.click('#back');

  await frame.click('#gets');
  await frame.waitForURL('**/shown**');
  assert.equal((await shown(frame)).query, '?a=2');
  await frame.click('#back');

  await frame.waitForSelector('#posts');
  await frame.evaluate(() => (document.getElementById('post') as HTMLFormElement).submit());
  await frame.waitForURL('**/form**');
  assert.equal((await shown(frame)).body, 'a=1', 'submitted by a script');
  await frame.click('#back');

  await frame.waitForSelector('#blank');
  const [popup] = await Promise.all([d.context.waitForEvent('page'), frame.click('#blank')]);
  await popup.waitForSelector('#told', { state: 'attached' });
  assert.equal((await shown(popup)).caller, 'screen');
  assert.equal(await popup.evaluate(() => self.origin), 'null');
  const [other] = await Promise.all([d.context.waitForEvent('page'), frame.evaluate(() => void window.open((window as any).gurtos.url('./shown')))]);
  await other.waitForSelector('#told', { state: 'attached' });
  assert.equal((await shown(other)).caller, 'screen');

  for (const id of ['link', 'blank']) assert.ok(!(await frame.getAttribute(`#${id}`, 'href'))?.includes('access_token'), 'an address is lent the token for the click alone');
  assert.equal(await frame.locator('input[name=access_token]').count(), 0);
});

test('the token leaves the address, and a reload and the way back work', async (t) => {
  const d = await open(t, '/t/probe/?a=%20b');
  const { frame, token } = d;
  const bare = () => frame.waitForFunction(() => !location.href.includes('access_token'));
  await bare();
  assert.equal(await frame.evaluate(() => location.search), '?a=%20b');
  assert.equal(await frame.evaluate(async () => (await fetch('./told')).status), 200);

  await frame.evaluate(() => {
    (window as any).before = true;
    location.reload();
  });
  await frame.waitForFunction(() => (window as any).before === undefined && document.title === 'Probe');
  assert.equal((await d.heard()).find((m) => m.gurtos === 'expired').path, '/t/probe/?a=%20b', 'the desktop opens it anew');
  await bare();
  assert.equal(await frame.evaluate(async () => (await fetch('./told')).status), 200, 'after a reload');

  await frame.click('#link');
  await frame.waitForURL('**/shown**');
  await bare();
  await frame.evaluate(() => history.back());
  await frame.waitForFunction(() => document.title === 'Probe');
  await bare();
  assert.equal(await frame.evaluate(async () => (await fetch('./told')).status), 200, 'after going back');

  assert.ok(!box.said().includes(token), 'the box printed the token');
  assert.ok(!JSON.stringify(await box.need('GET', '/api/log')).includes(token), 'the log has the token');
});

test('no address with the token goes anywhere as a Referer', async (t) => {
  const seen: IncomingMessage[] = [];
  const server: Server = createServer((req, res) => {
    seen.push(req);
    res.setHeader('access-control-allow-origin', '*').end('x');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => new Promise<void>((done) => void server.close(() => done())));
  const elsewhere = `http://127.0.0.1:${(server.address() as { port: number }).port}/`;
  const { frame, context, token } = await open(t);
  await frame.evaluate(async (to) => {
    await fetch(to);
    await new Promise((done) => {
      const img = document.getElementById('image') as HTMLImageElement;
      img.onload = img.onerror = done;
      img.src = `${to}image`;
    });
    (document.getElementById('elsewhere') as HTMLAnchorElement).href = `${to}link`;
  }, elsewhere);
  const [popup] = await Promise.all([context.waitForEvent('page'), frame.click('#elsewhere', { modifiers: ['Control'] })]);
  await popup.waitForLoadState('load');
  for (const path of ['/', '/image', '/link']) assert.ok(seen.some((req) => req.url === path), `${path} was asked for`);
  for (const req of seen) {
    // The page elsewhere asks for its icon by itself, and names itself.
    if (req.url !== '/favicon.ico') assert.equal(req.headers.referer, undefined, req.url);
    assert.ok(!req.headers.referer?.includes(token), req.url);
    assert.equal(req.headers.authorization, undefined, req.url);
    assert.ok(!req.url?.includes(token), req.url);
  }
});

test('a page sees nothing of what is around it', async (t) => {
  const { frame, page, heard } = await open(t);
  const tried = await frame.evaluate(async (secret) => {
    const out: Record<string, string> = {};
    const attempt = async (what: string, fn: () => unknown) => {
      try {
        const got = await Promise.race([fn(), new Promise((done) => setTimeout(done, 3000, 'nothing came'))]);
        const text = typeof got === 'string' ? got : JSON.stringify(got);
        out[what] = text?.includes(secret) ? `SAW ${text}` : `got ${text}`;
      } catch (err) {
        out[what] = (err as Error).name;
      }
    };
    await attempt('origin', () => self.origin);
    await attempt('localStorage', () => localStorage.getItem('token'));
    await attempt('sessionStorage', () => sessionStorage.getItem('token'));
    await attempt('cookie', () => document.cookie);
    await attempt('set cookie', () => (document.cookie = 'a=b'));
    await attempt('parent document', () => parent.document.title);
    await attempt('parent variable', () => (parent as any).token);
    await attempt('top address', () => top?.location.href);
    await attempt('frameElement', () => String(window.frameElement));
    await attempt('indexedDB', () => new Promise((done, no) => {
      const r = indexedDB.open('x');
      r.onsuccess = () => done('opened');
      r.onerror = () => no(r.error);
    }));
    await attempt('caches', () => caches.keys());
    await attempt('serviceWorker', () => navigator.serviceWorker.register('/t/probe/worker.js' + location.search));
    await attempt('worker', () => new Promise((done, no) => {
      const w = new Worker('/t/probe/worker.js');
      w.onerror = () => no(new DOMException('', 'WorkerError'));
      w.onmessage = () => done('runs');
    }));
    await attempt('locks', () => navigator.locks.request('x', () => 'held'));
    await attempt('storage', () => navigator.storage.getDirectory());
    await attempt('cookieStore', () => (window as any).cookieStore.getAll());
    await attempt('passkey', () => navigator.credentials.create({ publicKey: { challenge: new Uint8Array(16), rp: { name: 'x' }, user: { id: new Uint8Array(16), name: 'x', displayName: 'x' }, pubKeyCredParams: [{ type: 'public-key', alg: -7 }] } }));
    await attempt('channel', () => {
      new BroadcastChannel('box').postMessage('from the page');
      return 'sent';
    });
    return out;
  }, secret);
  for (const [what, came] of Object.entries(tried)) assert.ok(!came.startsWith('SAW'), `${what}: ${came}`);
  assert.equal(tried['origin'], 'got null');
  for (const what of ['localStorage', 'sessionStorage', 'cookie', 'set cookie', 'parent document', 'parent variable', 'top address', 'indexedDB', 'caches', 'serviceWorker', 'locks', 'storage']) {
    assert.match(tried[what] ?? '', /^(SecurityError|TypeError|InvalidStateError|UnknownError)$/, `${what}: ${tried[what]}`);
  }
  for (const what of ['frameElement', 'worker', 'passkey', 'cookieStore']) assert.doesNotMatch(tried[what] ?? '', /runs|id|token/, `${what}: ${tried[what]}`);
  assert.equal(await frame.evaluate(async () => (await fetch('./cookie')).status), 200);
  assert.equal(await page.evaluate(() => document.cookie), `token=${secret}`, 'an answer planted a cookie');
  assert.equal(await page.evaluate(() => localStorage.getItem('token')), secret, 'an answer cleared the storage');
  assert.equal((await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length)) as number, 0);
  assert.ok(!(await heard()).some((m) => 'channel' in m), 'a page spoke on a channel of the box');
});

test('a page reaches nothing of the box but its list', async (t) => {
  const before = await state();
  const { frame } = await open(t);
  const doc = await box.need('GET', '/api/openapi.json');
  const may = new Set([
    'get /', 'get /api/health', 'get /api/openapi.json', 'get /kit/{file}', 'post /api/pair',
    'get /api/tasks', 'get /api/tasks/{id}', 'get /api/approvals', 'post /api/approvals/{id}',
    'get /t/{app}/{path}', 'post /t/{app}/{path}', 'put /t/{app}/{path}', 'patch /t/{app}/{path}', 'delete /t/{app}/{path}',
  ]);
  let tried = 0;
  for (const [path, item] of Object.entries(doc.paths as Record<string, object>)) {
    for (const method of Object.keys(item)) {
      const to = path.replace('{app}', 'probe').replace('{path}', 'told').replace('{file}', 'page.js').replace('{name}', 'home').replace('{id}', 'x');
      const got = await frame.evaluate(
        async ({ to, method }) => {
          const ask = async (fn: () => Promise<Response>) => {
            try {
              const a = await fn();
              return a.type === 'opaque' ? 'opaque' : a.status;
            } catch {
              return 'refused';
            }
          };
          const body = method === 'get' ? undefined : '{"paused":true,"on":false,"role":"owner","value":"planted-by-a-page","title":"t","prompt":"step x","worker":"fake","name":"planted"}';
          // The same box by another name: the script of the box knows it for another site and adds no token.
          const other = to.startsWith('/') ? `http://localhost:${location.port}${to}` : to;
          const verb = method.toUpperCase();
          return {
            withToken: await ask(() => fetch(to, { method: verb, body })),
            without: await ask(() => fetch(other, { method: verb, body })),
            blind: method === 'get' || method === 'post' ? await ask(() => fetch(other, { method: verb, body, mode: 'no-cors', credentials: 'include', headers: { 'content-type': 'text/plain' } })) : 'refused',
          };
        },
        { to, method },
      );
      const name = `${method} ${path}`;
      tried++;
      if (may.has(name)) assert.ok(got.withToken !== 403 && got.withToken !== 401 && got.withToken !== 'refused', `${name}: ${got.withToken}`);
      else assert.equal(got.withToken, 403, name);
      // Without its token a page reads nothing but what is meant for anybody's page.
      if (path.startsWith('/t/')) assert.equal(got.without, 401, name);
      else if (path.startsWith('/kit/')) assert.equal(got.without, 200, name);
      else assert.equal(got.without, 'refused', name);
    }
  }
  assert.ok(tried > 40, `only ${tried} routes were tried`);
  for (const path of ['/t/other/', '/t/none/', '/t/probe/../other/', '/hook/probe/x', '/api/apps/other/window']) {
    const status = await frame.evaluate(async (to) => (await fetch(to, { method: 'POST', body: '{}' })).status, path);
    assert.equal(status, 403, path);
  }
  // Forms need no leave to be sent, and go out with no token here.
  for (const to of ['/api/pause', '/api/tasks', '/api/pair/code', '/api/apps/probe/window', '/api/workspaces', '/t/other/', '/hook/probe/x']) {
    const sink = await frame.evaluate(async (to) => {
      const sink = document.createElement('iframe');
      sink.name = 'sink';
      document.body.append(sink);
      const form = document.createElement('form');
      Object.assign(form, { method: 'post', action: to, target: 'sink', enctype: 'text/plain' });
      const field = document.createElement('input');
      field.name = '{"paused":true,"title":"t","prompt":"step x","worker":"fake","name":"planted","x":"';
      field.value = '"}';
      form.append(field);
      document.body.append(form);
      const loaded = new Promise((done) => (sink.onload = done));
      form.submit();
      await loaded;
      form.remove();
      sink.remove();
      return true;
    }, to);
    assert.ok(sink);
  }
  assert.deepEqual(await state(), before, 'a page changed something');
});

/** What a page must not change. */
async function state(): Promise<unknown> {
  return {
    paused: (await box.need('GET', '/api/health')).paused,
    vault: await box.need('GET', '/api/vault'),
    settings: await box.need('GET', '/api/settings'),
    devices: (await box.need('GET', '/api/devices')).map((d: { id: string }) => d.id),
    workspaces: (await box.need('GET', '/api/workspaces')).map((w: { name: string }) => w.name),
    tasks: (await box.need('GET', '/api/tasks')).length,
    apps: (await box.need('GET', '/api/apps?all=1')).map((a: { name: string; on: boolean }) => [a.name, a.on]),
    rights: await box.need('GET', '/api/permissions'),
  };
}

test('whatever stands under /t/ and /kit/ has no origin, opened in a window that escapes the frame', async (t) => {
  const { frame, context, token } = await open(t);
  const none = 'null';
  const answers: Record<string, string> = {
    '/t/probe/': none, '/t/probe/nothing': none, '/t/probe': none, '/t/none/': none, '/t/other/': none, '/t/': none, '/t': none,
    '/kit/': none, '/kit': none, '/kit/none': none, '/kit/page.js': none, '/kit/gurtos.css': none, '/kit/%3Cscript%3E': none,
    '/t/probe/told?x=<script>': box.url, // an answer of the app that runs nothing is left alone
    '/t/probe/own': box.url, '/t/probe/ownsvg': none, '/t/probe/strict': none,
  };
  for (const kind of ['html', 'odd', 'joined', 'xhtml', 'svg', 'xml', 'xslt', 'xsl', 'unit', 'spaced', 'missing', 'refused', 'broken', 'policy', 'moved', 'away', 'throws', 'nothing']) answers[`/t/probe/kind/${kind}`] = none;
  for (const [path, origin] of Object.entries(answers)) {
    for (const carried of [true, false]) {
      const to = carried ? at(path, token) : path;
      const [popup] = await Promise.all([context.waitForEvent('page'), frame.evaluate((to) => void window.open(to), to)]);
      await popup.waitForLoadState('load');
      const is = await popup.evaluate(() => ({ origin: self.origin, said: document.documentElement.getAttribute('data-origin') }));
      assert.equal(is.origin, carried ? origin : none, `${to} came to ${popup.url()}`);
      if (is.said !== null) assert.equal(is.said, is.origin, path);
      await popup.close();
    }
  }
  // What the browser doesn't know it keeps as a file, or shows without running it.
  for (const kind of ['typeless', 'unknown', 'mathml', 'rdf', 'text']) {
    const [popup] = await Promise.all([context.waitForEvent('page'), frame.evaluate((to) => void window.open(to), at(`/t/probe/kind/${kind}`, token))]);
    if (kind !== 'text') await Promise.race([popup.waitForEvent('download').catch(() => undefined), popup.waitForLoadState('load').catch(() => undefined)]);
    else await popup.waitForLoadState('load');
    if (!popup.isClosed()) {
      assert.equal(await popup.evaluate(() => document.documentElement.getAttribute('data-origin')).catch(() => null), null, kind);
      assert.notEqual(await popup.title().catch(() => ''), 'ran', kind);
      await popup.close();
    }
  }
});

test('forms that open windows have no origin either', async (t) => {
  const { frame, context, token } = await open(t);
  for (const [path, bytes] of [['/t/probe/form', 10], ['/t/probe/nothing', 10], ['/t/probe/told', 11 << 20], ['/t/probe/kind/html', 10]] as const) {
    const [popup] = await Promise.all([
      context.waitForEvent('page'),
      frame.evaluate(
        ({ to, bytes }) => {
          const form = document.createElement('form');
          Object.assign(form, { method: 'post', action: to, target: '_blank', enctype: 'multipart/form-data' });
          const field = document.createElement('input');
          field.type = 'file';
          field.name = 'x';
          const file = new DataTransfer();
          file.items.add(new File([new Uint8Array(bytes)], 'x'));
          field.files = file.files;
          form.append(field);
          document.body.append(form);
          form.submit();
          form.remove();
        },
        { to: at(path, token), bytes },
      ),
    ]);
    await popup.waitForLoadState('load');
    assert.equal(await popup.evaluate(() => self.origin), 'null', `${path} with ${bytes} bytes`);
    if (bytes > 1000) assert.match(await popup.innerText('body'), /larger than 10 MB|at most 10 MB/);
    await popup.close();
  }
});

test('a body that is too large is answered, and the page reads why', async (t) => {
  const { frame } = await open(t);
  const got = await frame.evaluate(async () => {
    const a = await fetch('./told', { method: 'POST', body: new Blob([new Uint8Array(11 << 20)]) });
    return { status: a.status, error: (await a.json()).error };
  });
  assert.equal(got.status, 413);
  assert.match(got.error, /10 MB/);
  assert.equal(await frame.evaluate(async () => (await fetch('./told', { method: 'POST', body: new Blob([new Uint8Array(9 << 20)]) })).status), 200);
});

test('the desktop tells its theme, and nobody else does', async (t) => {
  const d = await open(t);
  const { frame, page } = d;
  assert.deepEqual(await hears(d, (m) => m.gurtos === 'ready'), { origin: 'null', fromWindow: true, gurtos: 'ready' });
  const theme = () => frame.evaluate(() => document.documentElement.dataset['theme'] ?? null);
  const say = (message: unknown) => page.evaluate((m) => document.querySelector('iframe')?.contentWindow?.postMessage(m, '*'), message);
  const passed = async () => {
    // Messages arrive in their order: once a later one has, the earlier ones have.
    const mark = `mark${Math.random()}`;
    await frame.evaluate(() => addEventListener('message', (e) => typeof e.data === 'string' && ((window as any).mark = e.data)));
    await say(mark);
    await frame.waitForFunction((m) => (window as any).mark === m, mark);
  };
  await say({ gurtos: 'theme', theme: 'dark' });
  await frame.waitForFunction(() => document.documentElement.dataset['theme'] === 'dark');
  await say({ gurtos: 'theme', theme: 'light' });
  await frame.waitForFunction(() => document.documentElement.dataset['theme'] === 'light');
  for (const m of [{ gurtos: 'theme', theme: '"><script>' }, { gurtos: 'other', theme: 'dark' }, { theme: 'dark' }, null, 5]) await say(m);
  await passed();
  assert.equal(await theme(), 'light');
  // A frame within the page, and the page itself, are not the desktop.
  await frame.evaluate(() => {
    postMessage({ gurtos: 'theme', theme: 'dark' }, '*');
    const inner = document.createElement('iframe');
    inner.srcdoc = '<script>parent.postMessage({ gurtos: "theme", theme: "dark" }, "*"); parent.postMessage("inner", "*")</script>';
    document.body.append(inner);
  });
  await frame.waitForFunction(() => (window as any).mark === 'inner');
  assert.equal(await theme(), 'light');
});

test('a request that is not the app’s own is the desktop’s to open', async (t) => {
  const d = await open(t);
  const answer = (id: string) =>
    d.frame.evaluate(async (id) => {
      const a = await fetch(`/api/approvals/${id}`, { method: 'POST', body: JSON.stringify({ approved: true, by: 'Ada' }) });
      return { status: a.status, body: await a.json() };
    }, id);
  const asked = async (task: { id: string }) => {
    for (;;) {
      const pending = (await box.need('GET', '/api/approvals?state=pending')).find((a: { task: string }) => a.task === task.id);
      if (pending) return pending.id as string;
      const now = await box.need('GET', `/api/tasks/${task.id}`);
      assert.ok(['queued', 'running', 'waiting'].includes(now.state), `${now.state}: ${now.error}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  const spec = { title: 'Asks', prompt: 'ask May I?', worker: 'fake' };
  const others = await box.need('POST', '/api/tasks', spec);
  const own = await d.frame.evaluate(async (spec) => (await fetch('./task', { method: 'POST', body: JSON.stringify(spec) })).json(), spec);
  const theirs = await asked(others);
  const refused = await answer(theirs);
  assert.equal(refused.status, 403);
  assert.deepEqual([refused.body.needs, refused.body.task], ['shell', others.id]);
  assert.equal((await hears(d, (m) => m.gurtos === 'task')).task, others.id);
  const mine = await answer(await asked(own));
  assert.deepEqual([mine.status, mine.body.state, mine.body.by], [200, 'approved', 'box screen']);
  await box.need('POST', `/api/approvals/${theirs}`, { approved: false });
});

test('a window that has ended says so', async (t) => {
  const phone = await box.pair('device', 'A phone');
  const token = await box.window('probe', phone.token);
  const d = await open(t, '/t/probe/', token);
  assert.equal((await d.frame.evaluate(async () => (await fetch('./told')).json())).caller, `device:${phone.id}`);
  await box.need('DELETE', `/api/devices/${phone.id}`);
  const got = await d.frame.evaluate(async () => {
    const a = await fetch('./told');
    return { status: a.status, error: (await a.json()).error };
  });
  assert.deepEqual(got, { status: 401, error: 'this window has expired: close it and open the app again' });

  const again = await open(t, '/t/probe/', token);
  assert.equal(await again.frame.innerText('[role=alert]'), 'this window has expired: close it and open the app again');
  const [popup] = await Promise.all([d.context.waitForEvent('page'), d.frame.evaluate(() => void window.open('./told'))]);
  await popup.waitForSelector('[role=alert]');
  assert.match(await popup.innerText('[role=alert]'), /token of a paired device/);
});

test('what a route throws is a page where a page was opened, and JSON where it was fetched', async (t) => {
  const d = await open(t, '/t/probe/kind/throws');
  assert.equal(await d.frame.innerText('[role=alert]'), 'thrown on purpose');
  const got = await d.frame.evaluate(async () => {
    const a = await fetch('./throws');
    return { status: a.status, body: await a.json() };
  });
  assert.deepEqual(got, { status: 500, body: { error: 'thrown on purpose' } });
});

test('a page that a browser opens by itself has a window too', async (t) => {
  const context = await chrome.newContext();
  context.setDefaultTimeout(120_000);
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(`${box.url}/t/probe/`);
  assert.equal(await page.evaluate(() => self.origin), 'null');
  assert.equal((await page.evaluate(async () => (await fetch('./told')).json())).caller, 'screen');
  const owner = await box.pair('owner', 'Ada');
  await page.goto(at(`${box.url}/t/probe/`, owner.token));
  assert.equal((await page.evaluate(async () => (await fetch('./told')).json())).caller, 'owner');
  const seen = await page.evaluate(() => JSON.stringify([location.href, history.state, document.referrer, performance.getEntries().map((e) => e.name)]));
  assert.ok(!seen.includes(owner.token), "the page sees the device's own token");
});

test('a policy of the page’s own goes with the kit', async (t) => {
  const { frame } = await open(t, '/t/probe/strict');
  assert.equal(await frame.evaluate(() => typeof (window as any).gurtos?.url), 'function');
  assert.equal(await frame.evaluate(async () => (await fetch('./told')).status), 200);
});

test('the kit’s colours follow the desktop, and the browser where there is none, and can be read', async (t) => {
  const { frame, page } = await open(t, '/t/probe/style');
  const light = '#f6f4ee';
  const dark = '#131715';
  for (const [browser, desktop, ground] of [
    ['light', undefined, light], ['dark', undefined, dark], ['light', 'dark', dark], ['dark', 'light', light], ['light', 'light', light], ['dark', 'dark', dark],
  ] as const) {
    await page.emulateMedia({ colorScheme: browser });
    const got = await frame.evaluate((theme) => {
      const root = document.documentElement;
      if (theme === undefined) delete root.dataset['theme'];
      else root.dataset['theme'] = theme;
      const style = getComputedStyle(root);
      const colours: Record<string, string> = {};
      for (const name of ['ground', 'card', 'sunk', 'ink', 'soft', 'line', 'edge', 'accent', 'on-accent', 'ok', 'ok-ground', 'warn', 'warn-ground', 'bad', 'bad-ground']) colours[name] = style.getPropertyValue(`--${name}`).trim();
      return { colours, scheme: style.colorScheme, painted: style.backgroundColor };
    }, desktop);
    const what = `the browser is ${browser}, the desktop ${desktop ?? 'says nothing'}`;
    assert.deepEqual([got.colours['ground'], got.scheme], [ground, ground === light ? 'light' : 'dark'], what);
    assert.equal(got.painted, `rgb(${bytes(ground).join(', ')})`, what);
    for (const [ink, on, least] of [
      ...['ground', 'card', 'sunk'].flatMap((on) => [['ink', on, 4.5], ['soft', on, 4.5]] as const), ['accent', 'ground', 4.5], ['accent', 'card', 4.5], ['on-accent', 'accent', 4.5],
      ['ok', 'ok-ground', 4.5], ['warn', 'warn-ground', 4.5], ['bad', 'bad-ground', 4.5], ['bad', 'card', 4.5], ['edge', 'card', 3], ['edge', 'ground', 3],
    ] as const) {
      const is = contrast(got.colours[ink] ?? '', got.colours[on] ?? '');
      assert.ok(is >= least, `${what}: ${ink} on ${on} is ${is.toFixed(2)} to 1`);
    }
  }
});

/** The three parts of a colour such as #131715. */
function bytes(colour: string): number[] {
  assert.match(colour, /^#[0-9a-f]{6}$/);
  return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
}

/** The ratio of two colours' relative luminance, as WCAG 2 has it. */
function contrast(a: string, b: string): number {
  const luminance = (colour: string) => {
    const [r = 0, g = 0, b = 0] = bytes(colour).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [high = 0, low = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}
