// Takes the types out of TypeScript, in a process that ends with it and never runs what it reads.

import module from 'node:module';
import { Wire } from './wire.mjs';

new Wire(3, { strip: ({ source }) => module.stripTypeScriptTypes(source) });
