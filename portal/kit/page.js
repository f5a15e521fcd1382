// The box puts this script first into every page of an app. It carries the window's token, so that the page needs no code for it, and asks the shell to
// open a task where a person has to answer there. It is no wall: the box holds the token to its few rights, whatever a page does.
// @ts-check
(() => {
  'use strict';
  const key = 'gurtosToken';
  const here = new URL(location.href);
  const fresh = here.searchParams.get('access_token') ?? '';
  /** @type {string} */
  const token = fresh || (typeof history.state?.[key] === 'string' ? history.state[key] : '');

  /** Whether an address is the box's. @param {string} address */
  const own = (address) => new URL(address, document.baseURI).origin === here.origin;

  /** Tells the shell around this window something; nobody else hears it. @param {object} message */
  const tell = (message) => {
    if (parent !== window) parent.postMessage(message, here.origin);
  };

  /** An address with the token in it, for what a browser loads by itself. @param {string | URL} address */
  const url = (address) => {
    const to = new URL(address, document.baseURI);
    if (token !== '' && own(to.href)) to.searchParams.set('access_token', token);
    return to.href;
  };

  /** Has the shell open the task whose request this window may not answer. @param {Response} answer */
  const shell = async (answer) => {
    try {
      const { needs, task } = await answer.json();
      if (needs === 'shell' && typeof task === 'string') tell({ gurtos: 'task', task });
    } catch {
      // It is no answer of the box.
    }
  };

  const plain = window.fetch;
  window.fetch = async function fetch(/** @type {RequestInfo | URL} */ input, /** @type {RequestInit | undefined} */ init) {
    const request = new Request(input, init);
    if (!own(request.url)) return plain.call(window, request);
    if (token !== '' && !request.headers.has('authorization')) request.headers.set('authorization', `Bearer ${token}`);
    const answer = await plain.call(window, request);
    if (answer.status === 403) void shell(answer.clone());
    return answer;
  };

  /** The addresses that XMLHttpRequests were opened with. @type {WeakMap<XMLHttpRequest, string>} */
  const opened = new WeakMap();
  const { open, send, setRequestHeader } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (/** @type {any[]} */ ...args) {
    opened.set(this, String(args[1]));
    return /** @type {any} */ (open).apply(this, args);
  };
  XMLHttpRequest.prototype.setRequestHeader = function (name, value) {
    if (name.toLowerCase() === 'authorization') opened.delete(this);
    return setRequestHeader.call(this, name, value);
  };
  XMLHttpRequest.prototype.send = function (body) {
    const to = opened.get(this);
    if (token !== '' && to !== undefined && own(to)) setRequestHeader.call(this, 'authorization', `Bearer ${token}`);
    return send.call(this, body);
  };

  Object.defineProperty(window, 'gurtos', { value: Object.freeze({ url, tell }) });

  // The box answered with a page of its own since the token was missing: the entry of the history still has it after a reload or a way back.
  if (document.currentScript?.dataset['missing'] === 'token' && fresh === '') {
    if (token !== '') location.replace(url(location.href));
    else tell({ gurtos: 'expired', path: here.pathname + here.search });
    return;
  }

  // Once the page has loaded, scripts of it that add location.search to an address included, the token leaves the address.
  addEventListener('load', () =>
    setTimeout(() => {
      const now = new URL(location.href);
      if (!now.searchParams.has('access_token')) return;
      now.search = now.search.replace(/^\?/, '').split('&').filter((pair) => !/^access_token(=|$)/.test(pair)).join('&');
      const state = history.state;
      const bare = state === null || (typeof state === 'object' && Object.getPrototypeOf(state) === Object.prototype);
      history.replaceState(bare ? { ...state, [key]: token } : state, '', now);
    }),
  );
})();
