// What an app may import: core/contract.ts, core/triggers.ts, its own files, the packages in its package.json, and what Node brings.

import fs from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

/** What stands in the place of a file whose types could not be taken out, before the reason. */
const notRead = "// can't be read: ";

export function guardImports(name, root = 'file:///opt/app/') {
  const own = `${root}tracks/${name}/`;
  const sdk = [`${root}core/contract.ts`, `${root}core/triggers.ts`];
  module.registerHooks({
    resolve(specifier, context, next) {
      const from = context.parentURL ?? '';
      // Packages import one another as they like: they lie in trees of their own.
      if (!from.startsWith(root) || from.includes('/node_modules/')) return next(specifier, context);
      if (module.isBuiltin(specifier)) return next(specifier, context);
      const short = from.startsWith(own) ? from.slice(own.length) : from.slice(root.length);
      const refuse = (why) => new Error(`${short} imports ${specifier}: ${why}`);
      if (!/^(\.{0,2}\/|file:)/.test(specifier)) {
        try {
          return next(specifier, context);
        } catch (thrown) {
          if (thrown.code === 'ERR_MODULE_NOT_FOUND') throw refuse(`the package is not among the app's own. Name it in the app's package.json`);
          throw thrown;
        }
      }
      const url = new URL(specifier, from);
      if (!url.href.startsWith(own) && !sdk.includes(url.origin === 'null' ? url.protocol + '//' + url.pathname : url.href)) {
        throw refuse('an app may import core/contract.ts, core/triggers.ts, its own files and its own packages alone');
      }
      if (!fs.existsSync(fileURLToPath(url))) throw refuse('there is no such file. A path is written whole, with its ending, such as ./parts.ts');
      return { url: url.href, shortCircuit: true };
    },
    load(url, context, next) {
      // Its types were taken out of it when the app was turned on.
      if (url.startsWith(root) && !url.includes('/node_modules/') && /\.[cm]?ts$/.test(new URL(url).pathname)) {
        const source = fs.readFileSync(fileURLToPath(url), 'utf8');
        if (source.startsWith(notRead)) throw new Error(source.slice(notRead.length).trim());
        return { format: 'module', source, shortCircuit: true };
      }
      return next(url, context);
    },
  });
}
