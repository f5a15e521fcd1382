// A real box with the probe's apps, a real browser, and a page that stands for the desktop: what stands around an app's window has the box's own origin.

import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, chromium, type Frame, type Page } from 'playwright-core';
import { root, RunningBox } from '../demo/kit/box.ts';

const here = dirname(fileURLToPath(import.meta.url));

/** A box whose apps are those of test/pages/tracks. Requests of this process are root's, and so the box's own screen. */
export class PagesBox extends RunningBox {
  readonly #source = mkdtempSync('/tmp/pages');

  override env(): Record<string, string | undefined> {
    return { ...super.env(), BOX_TRACKS: join(this.#source, 'tracks') };
  }

  override async start(): Promise<void> {
    cpSync(join(here, 'tracks'), join(this.#source, 'tracks'), { recursive: true });
    mkdirSync(join(this.#source, 'core'), { recursive: true });
    for (const name of ['contract.ts', 'triggers.ts']) cpSync(join(root, 'core', name), join(this.#source, 'core', name));
    await super.start();
    for (const name of ['probe', 'other']) await this.need('PUT', `/api/apps/${name}`, { on: true });
  }

  override remove(): void {
    super.remove();
    rmSync(this.#source, { recursive: true, force: true });
  }

  /** One request that has to go well. */
  async need(method: string, path: string, body?: unknown, token?: string): Promise<any> {
    const a = await this.ask(method, path, body, { token });
    if (a.status >= 300) throw new Error(`${method} ${path}: ${a.status} ${JSON.stringify(a.body)}`);
    return a.body;
  }

  /** Opens a window on an app and gives its token. */
  async window(app = 'probe', token?: string): Promise<string> {
    return (await this.need('POST', `/api/apps/${app}/window`, {}, token)).token;
  }

  /** Pairs a device and gives its token and id. */
  async pair(role: 'owner' | 'device', name: string): Promise<{ token: string; id: string }> {
    const { code } = await this.need('POST', '/api/pair/code', { role });
    const { token, device } = await this.need('POST', '/api/pair', { code, name });
    return { token, id: device.id };
  }
}

/** Debian's Chromium. Its own sandbox can't be had by root, and what is tried here is the box's. */
export function browser(): Promise<Browser> {
  return chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
}

/** What the desktop page holds that no app's page may see. */
export const secret = 'dTheOwnersOwnToken';

/** A desktop with an app's page in a window. */
export interface Desk {
  context: BrowserContext;
  page: Page;
  /** The window's frame. */
  frame: Frame;
  /** What the page in the window told the desktop. */
  heard(): Promise<any[]>;
}

const shell = (src: string, token: string) => `<!doctype html><title>Desktop</title><script>
localStorage.setItem('token', ${JSON.stringify(secret)});
sessionStorage.setItem('token', ${JSON.stringify(secret)});
document.cookie = 'token=${secret}; path=/';
window.token = ${JSON.stringify(secret)};
window.heard = [];
addEventListener('message', (e) => {
  const frame = document.querySelector('iframe');
  heard.push({ origin: e.origin, fromWindow: e.source === frame.contentWindow, ...e.data });
  if (e.data.gurtos === 'expired') frame.contentWindow.location.replace(e.data.path + (e.data.path.includes('?') ? '&' : '?') + 'access_token=${token}');
});
new BroadcastChannel('box').onmessage = (e) => heard.push({ channel: e.data });
</script><iframe style="width: 100%; height: 90vh; border: 0" src="${src}"></iframe>`;

/** Opens an app's page in a window of the desktop, at a path that may have a query; the desktop opens it anew when the page says that it is without a token. */
export async function desk(b: Browser, box: PagesBox, path: string, token: string): Promise<Desk> {
  const context = await b.newContext();
  context.setDefaultTimeout(120_000); // for a slow machine: nothing here measures
  const page = await context.newPage();
  await context.route(`${box.url}/desktop`, (route) => route.fulfill({ contentType: 'text/html', body: shell(at(path, token), token) }));
  await page.goto(`${box.url}/desktop`);
  await context.unrouteAll(); // else each request takes the way through this process
  const frame = page.frames()[1];
  if (!frame) throw new Error('there is no window on the desktop');
  await frame.waitForLoadState('load');
  return { context, page, frame, heard: () => page.evaluate(() => (window as any).heard) };
}

/** An address with a window's token. */
export const at = (path: string, token: string) => `${path}${path.includes('?') ? '&' : '?'}access_token=${token}`;
