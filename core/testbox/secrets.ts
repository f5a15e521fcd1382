// Takes the values of keys out of what an app gives, in the spellings that are met: as it stands, with JSON or URL escapes, in base64 and in hex.

import { Buffer } from 'node:buffer';

/** What stands in place of the values, by spelling, the longest first. */
export function hider(keys: ReadonlyMap<string, string>): (text: string) => string {
  const all: [string, string][] = [];
  for (const [name, value] of keys) {
    const bytes = Buffer.from(value);
    const spellings = new Set([value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value), bytes.toString('hex'), bytes.toString('hex').toUpperCase()]);
    for (const form of ['base64', 'base64url'] as const) {
      // What the value alone decides, wherever it begins within a group of three bytes.
      for (const shift of [0, 1, 2]) {
        const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString(form).replace(/=+$/, '');
        spellings.add(text.slice([0, 2, 3][shift], (shift + bytes.length) % 3 === 0 ? undefined : -1));
      }
    }
    for (const s of spellings) if (s.length >= 8) all.push([s, `[${name}]`]);
  }
  all.sort((a, b) => b[0].length - a[0].length);
  return (text) => all.reduce((t, [from, to]) => t.replaceAll(from, to), text);
}

/** The same for every string in a value of JSON. */
export function hideIn(v: unknown, hide: (text: string) => string): unknown {
  if (typeof v === 'string') return hide(v);
  if (Array.isArray(v)) return v.map((e) => hideIn(e, hide));
  if (v !== null && typeof v === 'object') return Object.fromEntries(Object.entries(v).map(([name, e]) => [name, hideIn(e, hide)]));
  return v;
}
