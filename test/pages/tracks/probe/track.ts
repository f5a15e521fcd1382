// An app whose pages try what pages can do. It is copied into a folder of apps of its own for the tests.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const page = (title: string, body = '') => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${title}</title>
${body}
</html>
`;

const html = (text: string, status = 200, headers: Record<string, string> = {}) => new Response(text, { status, headers: { 'content-type': 'text/html; charset=utf-8', ...headers } });

/** What a route was called with. */
const told = (req: Request, more: object = {}) => ({
  method: req.method,
  query: new URL(req.url).search,
  caller: req.headers.get('x-box-caller'),
  authorization: req.headers.get('authorization'),
  cookie: req.headers.get('cookie'),
  referer: req.headers.get('referer'),
  ...more,
});

/** The same as a page, for what a browser opens. */
const shown = async (req: Request) =>
  html(page('Told', `<script src="/kit/gurtos.js"></script><pre id="told">${JSON.stringify(told(req, { body: await req.text() })).replaceAll('<', '\\u003c')}</pre><a id="back" href="./">back</a>`));

/** Says whose origin a document has that it is in. */
const speak = 'document.documentElement.setAttribute("data-origin", self.origin)';

/** One answer of each kind that a browser makes a document of, by path. */
const kinds: Record<string, () => Response> = {
  html: () => html(page('x', `<script>${speak}</script>`)),
  odd: () => new Response(page('x'), { headers: { 'content-type': 'Text/HTML ; charset="utf-8"; x=y' } }),
  joined: () => new Response(page('x'), { headers: { 'content-type': 'application/json, text/html' } }),
  xhtml: () => new Response(`<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title><script>${speak}</script></head><body/></html>`, { headers: { 'content-type': 'application/xhtml+xml' } }),
  svg: () => new Response(`<svg xmlns="http://www.w3.org/2000/svg"><script>${speak}</script></svg>`, { headers: { 'content-type': 'image/svg+xml' } }),
  xml: () => new Response(`<r xmlns:h="http://www.w3.org/1999/xhtml"><h:script>${speak}</h:script></r>`, { headers: { 'content-type': 'text/xml' } }),
  xslt: () => new Response('<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"/>', { headers: { 'content-type': 'application/atom+xml' } }),
  mathml: () => new Response(`<math xmlns="http://www.w3.org/1998/Math/MathML" xmlns:h="http://www.w3.org/1999/xhtml"><h:script>${speak}</h:script></math>`, { headers: { 'content-type': 'application/mathml+xml' } }),
  xsl: () => new Response(`<r xmlns:h="http://www.w3.org/1999/xhtml"><h:script>${speak}</h:script></r>`, { headers: { 'content-type': 'text/xsl' } }),
  rdf: () => new Response(`<r xmlns:h="http://www.w3.org/1999/xhtml"><h:script>${speak}</h:script></r>`, { headers: { 'content-type': 'application/rdf+xml; charset=utf-16' } }),
  unit: () => html(page('x', `<script>${speak}</script>`), 200, { 'content-type': 'text/html\t;charset=x' }),
  spaced: () => html(page('x', `<script>${speak}</script>`), 200, { 'content-type': ' TEXT/HTML' }),
  typeless: () => new Response(new TextEncoder().encode(page('x', `<script>${speak}</script>`))),
  unknown: () => html(page('x', `<script>${speak}</script>`), 200, { 'content-type': 'x/y' }),
  missing: () => html(page('x', `<script>${speak}</script>`), 404),
  refused: () => html(page('x', `<script>${speak}</script>`), 401),
  broken: () => html(page('x', `<script>${speak}</script>`), 500),
  policy: () => html(page('x'), 200, { 'content-security-policy': "sandbox allow-scripts allow-same-origin; default-src 'self' 'unsafe-inline'" }),
  moved: () => new Response(null, { status: 302, headers: { location: './kind/html' } }),
  away: () => new Response(null, { status: 302, headers: { location: '/t/probe/nothing' } }),
  throws: () => {
    throw new Error('thrown on purpose');
  },
  nothing: () => undefined as unknown as Response,
  json: () => Response.json({ a: 1 }),
  text: () => new Response('<script>document.title = "ran"</script>'),
};

/** The apps' page that tries things from outside scripts, which a test gives it. */
const index = page(
  'Probe',
  `<script src="/kit/gurtos.js"></script>
<script>
  const here = 'm' + location.search;
  const module = document.createElement('script');
  module.type = 'module';
  module.src = './module.js' + location.search;
  document.currentScript.after(module);
</script>
<a id="link" href="./shown?a=%20b">link</a>
<a id="blank" href="./shown" target="_blank">popup</a>
<a id="elsewhere" href="https://example.com/">elsewhere</a>
<form id="post" action="./form" method="post"><input name="a" value="1"><button id="posts">post</button><button id="redirects" formaction="./redirect">redirect</button></form>
<form id="get" action="./shown" method="get"><input name="a" value="2"><button id="gets">get</button></form>
<img id="image" alt="">`,
);

export default {
  name: 'probe',
  title: 'Probe',
  apps: [{ name: 'probe', title: 'Probe', href: '/' }],
  openRoutes: ['GET /open'],
  ownOrigin: ['GET /own', 'GET /ownsvg'],
  routes: {
    'GET /': () => html(index),
    'GET /strict': () => html(page('Strict', '<script src="/kit/gurtos.js"></script><p>strict</p>'), 200, { 'content-security-policy': "default-src 'self'" }),
    'GET /style': () => html(readFileSync(join(import.meta.dirname, 'style.html'), 'utf8')),
    'GET /module.js': () => new Response("document.body.dataset.module = self.origin; import('./more.js' + new URL(import.meta.url).search);", { headers: { 'content-type': 'text/javascript' } }),
    'GET /more.js': () => new Response("document.body.dataset.more = 'came';", { headers: { 'content-type': 'text/javascript' } }),
    'GET /told': (req: Request) => Response.json(told(req)),
    'POST /told': async (req: Request) => Response.json(told(req, { body: (await req.text()).slice(0, 100) })),
    'DELETE /told': (req: Request) => Response.json(told(req)),
    'GET /shown': shown,
    'POST /form': shown,
    'POST /redirect': () => new Response(null, { status: 303, headers: { location: './shown?after=post' } }),
    'GET /open': () => Response.json({ open: true }),
    'GET /events': () => {
      const text = new TextEncoder();
      let n = 0;
      const body = new ReadableStream<Uint8Array>({ pull: (c) => (n < 3 ? c.enqueue(text.encode(`data: ${n++}\n\n`)) : c.close()) });
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
    },
    'GET /cookie': () => Response.json({}, { headers: { 'set-cookie': 'planted=1; Path=/', 'clear-site-data': '"*"', 'service-worker-allowed': '/' } }),
    'GET /worker.js': () => new Response('self.addEventListener("fetch", () => {});', { headers: { 'content-type': 'text/javascript' } }),
    'GET /own': () => html(page('Own', `<script>${speak}</script>`)),
    'GET /ownsvg': () => new Response(`<svg xmlns="http://www.w3.org/2000/svg"><script>${speak}</script></svg>`, { headers: { 'content-type': 'image/svg+xml' } }),
    'POST /task': async (req: Request, box: { createTask(spec: object): Promise<{ id: string }> }) => Response.json(await box.createTask(await req.json())),
    ...Object.fromEntries(Object.entries(kinds).map(([name, answer]) => [`GET /kind/${name}`, answer])),
  },
};

