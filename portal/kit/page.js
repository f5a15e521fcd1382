// The box puts this script first into every page of an app. It carries the window's token, so that the page needs no code for it, and asks the shell to
// open a task where a person has to answer there. It is no wall: the box holds the token to its few rights, whatever a page does.
// @ts-check
(() => {
  'use strict';
  const here = new URL(location.href);
  const token = here.searchParams.get('access_token') ?? '';

  /** Whether an address is the box's. @param {string} address */
  const own = (address) => new URL(address, document.baseURI).origin === here.origin;

  /** Tells the shell around this window something; nobody else hears it. @param {object} message */
  const tell = (message) => {
    if (parent !== window) parent.postMessage(message, here.origin);
  };

  /** An address without the token; the rest of it stays as it was written. @param {string | URL} address */
  const without = (address) => {
    const to = new URL(address, document.baseURI);
    const kept = to.search.slice(1).split('&').filter((pair) => !/^access_token(=|$)/.test(pair));
    to.search = kept.join('&');
    return to;
  };

  /** An address with the token in it, for what a browser loads by itself. @param {string | URL} address */
  const url = (address) => {
    const to = without(address);
    if (token !== '' && own(to.href)) to.search = `${to.search ? `${to.search}&` : '?'}access_token=${token}`;
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

  // The box answered with a page of its own since the token was missing: the shell has it.
  if (document.currentScript?.dataset['missing'] === 'token' && token === '') tell({ gurtos: 'expired', path: here.pathname + here.search });
  if (token === '') return;

  // Once the page has loaded, scripts of it that add location.search to an address included, the token leaves the address. It is back for as long as the
  // page is left, so that the way back finds it.
  const hide = () => history.replaceState(history.state, '', without(location.href));
  addEventListener('load', () => setTimeout(hide));
  addEventListener('beforeunload', () => {
    history.replaceState(history.state, '', url(location.href));
    setTimeout(hide, 1000); // where the page stays after all
  });
})();
