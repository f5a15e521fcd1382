// Reads an app as the box does: takes the types out of its files, loads it once, and says what it declares or what is wrong. One argument: the tree, in
// which the app lies at tracks/<name>; the answer is one line of JSON on descriptor 3.

import fs from 'node:fs';
import module from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe } from './describe.mjs';
import { guardImports } from './imports.mjs';
import { said } from './wire.mjs';

const [tree, name, ...files] = process.argv.slice(2);
const answer = { stripped: [], thrown: undefined, declared: undefined };

for (const file of files) {
  const at = path.join(tree, file);
  try {
    fs.writeFileSync(at, module.stripTypeScriptTypes(fs.readFileSync(at, 'utf8')));
  } catch (thrown) {
    answer.stripped.push({ file, said: said(thrown) });
  }
}
if (answer.stripped.length === 0) {
  guardImports(name, `${pathToFileURL(tree).href}/`);
  process.on('unhandledRejection', () => {}); // a promise that the app begins while it loads is not what is looked at here
  try {
    const { default: track } = await import(pathToFileURL(path.join(tree, 'tracks', name, 'track.ts')).href);
    answer.declared = describe(track);
  } catch (thrown) {
    answer.thrown = said(thrown);
  }
}
fs.writeSync(3, `${JSON.stringify(answer)}\n`);
process.exit(0); // whatever it began while it was loaded
