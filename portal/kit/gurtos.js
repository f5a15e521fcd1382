// What an app's page may add with <script src="/kit/gurtos.js"></script>: links, forms and EventSource carry the window's token, and the page follows the
// desktop's light or dark style. portal/KIT.md tells more.
// @ts-check
(() => {
  'use strict';
  /** @type {{ url(address: string | URL): string, tell(message: object): void } | undefined} */
  const box = /** @type {any} */ (window).gurtos;
  if (box === undefined) return; // not on a page that a box serves
  const { url, tell } = box;
  const [, , app = ''] = location.pathname.split('/');

  /** Whether an address is one of this app's own routes: no other takes a token in its address from here. @param {string} address */
  const mine = (address) => {
    const to = new URL(address, document.baseURI);
    return to.origin === location.origin && to.pathname.startsWith(`/t/${app}/`);
  };

  /** Puts the token into an address for as long as a click or submit takes to begin. @param {Element} el @param {string} name @param {string} address */
  const lend = (el, name, address) => {
    const was = el.getAttribute(name);
    el.setAttribute(name, url(address));
    setTimeout(() => (was === null ? el.removeAttribute(name) : el.setAttribute(name, was)));
  };

  /** @param {Event} event */
  const link = (event) => {
    const a = event.composedPath().find((el) => el instanceof HTMLAnchorElement || el instanceof HTMLAreaElement);
    if (a?.hasAttribute('href') && a.protocol.startsWith('http') && mine(a.href)) lend(a, 'href', a.href);
  };
  addEventListener('click', link, true);
  addEventListener('auxclick', link, true);

  /** @param {HTMLFormElement} form @param {HTMLElement | null} submitter */
  const carry = (form, submitter) => {
    /** @param {string} name */
    const said = (name) => submitter?.getAttribute(`form${name}`) ?? form.getAttribute(name);
    const method = said('method')?.toLowerCase();
    const action = said('action') || location.href;
    if (method === 'dialog' || !mine(action)) return;
    if (method === 'post') {
      lend(submitter?.hasAttribute('formaction') ? submitter : form, submitter?.hasAttribute('formaction') ? 'formaction' : 'action', action);
      return;
    }
    const token = new URL(url(action)).searchParams.get('access_token'); // a GET replaces what stands behind the ?
    if (token === null) return;
    const field = document.createElement('input');
    field.type = 'hidden';
    field.name = 'access_token';
    field.value = token;
    form.append(field);
    setTimeout(() => field.remove());
  };
  addEventListener('submit', (event) => event.target instanceof HTMLFormElement && carry(event.target, event.submitter), true);
  const { submit } = HTMLFormElement.prototype;
  HTMLFormElement.prototype.submit = function () {
    carry(this, null);
    submit.call(this);
  };

  const Plain = window.EventSource;
  window.EventSource = class EventSource extends Plain {
    constructor(/** @type {string | URL} */ address, /** @type {EventSourceInit | undefined} */ init) {
      super(mine(String(address)) ? url(address) : address, init);
    }
  };

  addEventListener('message', (event) => {
    if (event.source !== parent || parent === window || event.origin !== location.origin) return;
    if (event.data?.gurtos !== 'theme') return;
    const theme = event.data.theme;
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset['theme'] = theme;
  });
  tell({ gurtos: 'ready' });
})();
