// Another app, whose routes the probe must not reach.

export default {
  name: 'other',
  routes: {
    'GET /': () => new Response('<!doctype html><title>Other</title>', { headers: { 'content-type': 'text/html' } }),
    'POST /': () => new Response('other was changed'),
  },
};
