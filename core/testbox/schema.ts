// Holds an input against a tool's JSON Schema as the box does, and words what is wrong as the box words it. What it does not know of JSON Schema it
// refuses to judge, so that a test never passes by it.

import type { JSONSchema } from '../contract.ts';

type Schema = Record<string, unknown>;

/** Where a value stands in the input, and why it does not fit. */
interface Misfit {
  at: string[];
  why: string;
}

/** Keywords that describe and hold nothing. */
const silent = new Set(['$schema', '$id', '$anchor', '$comment', '$defs', 'definitions', 'title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', 'format', '$vocabulary', 'contentEncoding', 'contentMediaType']);

/** Keywords that belong to another one. */
const beside = new Set(['then', 'else', 'minContains', 'maxContains']);

/** The sentence for an input that the schema does not take, undefined when it does. */
export function misfit(schema: JSONSchema | undefined, input: unknown): string | undefined {
  const root = schema ?? { type: 'object' };
  const found = new Judge(root).value(root, input, []);
  return found && `${['input', ...found.at].join('.')}: ${found.why}`;
}

class Judge {
  #root: JSONSchema;
  #depth = 0;

  constructor(root: JSONSchema) {
    this.#root = root;
  }

  value(schema: JSONSchema, v: unknown, at: string[]): Misfit | undefined {
    if (schema === true) return undefined;
    if (schema === false) return { at, why: 'false schema' };
    if (++this.#depth > 1000) throw new Error('testBox: the schema refers to itself without end');
    try {
      return this.#object(schema, v, at);
    } finally {
      this.#depth--;
    }
  }

  #object(s: Schema, v: unknown, at: string[]): Misfit | undefined {
    const miss = (why: string): Misfit => ({ at, why });
    for (const name of Object.keys(s)) if (!silent.has(name) && !beside.has(name) && !keywords.has(name)) throw new Error(`testBox does not know ${name} of JSON Schema, and the box does: try this tool on a box`);
    if (s['type'] !== undefined) {
      const want = [s['type']].flat() as string[];
      const got = kind(v);
      if (!want.includes(got) && !(got === 'number' && want.includes('integer') && Number.isInteger(v))) return miss(`got ${got}, want ${order.filter((t) => want.includes(t)).join(' or ')}`);
    }
    if ('const' in s && !same(v, s['const'])) return miss(plain(s['const']) ? `value must be ${display(s['const'])}` : "'const' failed");
    if (s['enum'] !== undefined) {
      const all = s['enum'] as unknown[];
      if (!all.some((e) => same(v, e))) return miss(!all.every(plain) ? "'enum' failed" : all.length === 1 ? `value must be ${display(all[0])}` : `value must be one of ${all.map(display).join(', ')}`);
    }
    if (typeof s['$ref'] === 'string') {
      const found = this.value(this.#refer(s['$ref']), v, at);
      if (found) return found;
    }
    const own = Array.isArray(v) ? this.#list(s, v, at) : v !== null && typeof v === 'object' ? this.#fields(s, v as Schema, at) : typeof v === 'string' ? text(s, v, at) : typeof v === 'number' ? number(s, v, at) : undefined;
    return own ?? this.#conditions(s, v, at);
  }

  #refer(ref: string): JSONSchema {
    if (!ref.startsWith('#')) throw new Error(`testBox: ${ref}: a schema may refer only to itself`);
    let to: unknown = this.#root;
    for (const part of ref.slice(1).split('/').slice(1)) to = (to as Schema | undefined)?.[decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')];
    if (to === undefined) throw new Error(`testBox: the schema has no ${ref}`);
    return to as JSONSchema;
  }

  #fields(s: Schema, v: Schema, at: string[]): Misfit | undefined {
    const miss = (why: string): Misfit => ({ at, why });
    const names = Object.keys(v);
    const n = (name: string) => s[name] as number | undefined;
    if (n('minProperties') !== undefined && names.length < n('minProperties')!) return miss(`minProperties: got ${names.length}, want ${n('minProperties')}`);
    if (n('maxProperties') !== undefined && names.length > n('maxProperties')!) return miss(`maxProperties: got ${names.length}, want ${n('maxProperties')}`);
    const missing = ((s['required'] ?? []) as string[]).filter((name) => !Object.hasOwn(v, name));
    if (missing.length > 0) return miss(missing.length === 1 ? `missing property ${quote(missing[0]!)}` : `missing properties ${missing.map(quote).join(', ')}`);
    const properties = (s['properties'] ?? {}) as Record<string, JSONSchema>;
    const patterns = Object.entries((s['patternProperties'] ?? {}) as Record<string, JSONSchema>);
    const others = s['additionalProperties'] as JSONSchema | undefined;
    const extra: string[] = [];
    for (const name of names) {
      let known = false;
      if (Object.hasOwn(properties, name)) {
        known = true;
        const found = this.value(properties[name]!, v[name], [...at, name]);
        if (found) return found;
      }
      for (const [pattern, schema] of patterns) {
        if (!new RegExp(pattern, 'u').test(name)) continue;
        known = true;
        const found = this.value(schema, v[name], [...at, name]);
        if (found) return found;
      }
      if (known || others === undefined) continue;
      if (others === false) extra.push(name);
      else {
        const found = this.value(others, v[name], [...at, name]);
        if (found) return found;
      }
    }
    if (extra.length > 0) return miss(`additional properties ${extra.map(quote).join(', ')} not allowed`);
    if (s['propertyNames'] !== undefined) for (const name of names) if (this.value(s['propertyNames'] as JSONSchema, name, at)) return miss(`invalid propertyName ${quote(name)}`);
    for (const [name, schema] of Object.entries((s['dependentSchemas'] ?? {}) as Record<string, JSONSchema>)) {
      const found = Object.hasOwn(v, name) ? this.value(schema, v, at) : undefined;
      if (found) return found;
    }
    for (const [name, needed] of Object.entries((s['dependentRequired'] ?? {}) as Record<string, string[]>)) {
      const gone = Object.hasOwn(v, name) ? needed.filter((other) => !Object.hasOwn(v, other)) : [];
      if (gone.length > 0) return miss(`properties ${gone.map(quote).join(', ')} required, if ${quote(name)} exists`);
    }
    return undefined;
  }

  #list(s: Schema, v: unknown[], at: string[]): Misfit | undefined {
    const miss = (why: string): Misfit => ({ at, why });
    const n = (name: string) => s[name] as number | undefined;
    if (n('minItems') !== undefined && v.length < n('minItems')!) return miss(`minItems: got ${v.length}, want ${n('minItems')}`);
    if (n('maxItems') !== undefined && v.length > n('maxItems')!) return miss(`maxItems: got ${v.length}, want ${n('maxItems')}`);
    if (s['uniqueItems'] === true) for (let j = 1; j < v.length; j++) for (let i = 0; i < j; i++) if (same(v[i], v[j])) return miss(`items at ${i} and ${j} are equal`);
    const first = (s['prefixItems'] ?? []) as JSONSchema[];
    for (const [i, item] of v.entries()) {
      const schema = first[i] ?? (s['items'] as JSONSchema | undefined);
      const found = schema === undefined ? undefined : this.value(schema, item, [...at, String(i)]);
      if (found) return found;
    }
    if (s['contains'] !== undefined) {
      const fits = v.flatMap((item, i) => (this.value(s['contains'] as JSONSchema, item, [...at, String(i)]) ? [] : [i]));
      const least = n('minContains');
      if (least === undefined && fits.length === 0) return miss('no items match contains schema');
      if (least !== undefined && fits.length < least) return miss(`min ${least} items required to match contains schema, but ${fits.length === 0 ? 'none matched' : `matched ${fits.length} items at ${fits.join(' ')}`}`);
      if (n('maxContains') !== undefined && fits.length > n('maxContains')!) return miss(`max ${n('maxContains')} items required to match contains schema, but matched ${fits.length} items at ${fits.join(' ')}`);
    }
    return undefined;
  }

  #conditions(s: Schema, v: unknown, at: string[]): Misfit | undefined {
    const miss = (why: string): Misfit => ({ at, why });
    const all = (name: string) => (s[name] ?? []) as JSONSchema[];
    if (s['not'] !== undefined && !this.value(s['not'] as JSONSchema, v, at)) return miss("'not' failed");
    for (const schema of all('allOf')) {
      const found = this.value(schema, v, at);
      if (found) return found;
    }
    if (all('anyOf').length > 0) {
      const found = all('anyOf').map((schema) => this.value(schema, v, at));
      if (found.every((f) => f !== undefined)) return found[0];
    }
    if (all('oneOf').length > 0) {
      const found = all('oneOf').map((schema) => this.value(schema, v, at));
      const fits = found.flatMap((f, i) => (f ? [] : [i]));
      if (fits.length === 0) return found[0];
      if (fits.length > 1) return miss(`'oneOf' failed, subschemas ${fits[0]}, ${fits[1]} matched`);
    }
    if (s['if'] !== undefined) {
      const branch = this.value(s['if'] as JSONSchema, v, at) ? s['else'] : s['then'];
      return branch === undefined ? undefined : this.value(branch as JSONSchema, v, at);
    }
    return undefined;
  }
}

function text(s: Schema, v: string, at: string[]): Misfit | undefined {
  const n = (name: string) => s[name] as number | undefined;
  const length = [...v].length;
  if (n('minLength') !== undefined && length < n('minLength')!) return { at, why: `minLength: got ${length}, want ${n('minLength')}` };
  if (n('maxLength') !== undefined && length > n('maxLength')!) return { at, why: `maxLength: got ${length}, want ${n('maxLength')}` };
  const pattern = s['pattern'] as string | undefined;
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(v)) return { at, why: `${quote(v)} does not match pattern ${quote(pattern)}` };
  return undefined;
}

function number(s: Schema, v: number, at: string[]): Misfit | undefined {
  for (const [name, wrong] of [
    ['minimum', (want: number) => v < want],
    ['maximum', (want: number) => v > want],
    ['exclusiveMinimum', (want: number) => v <= want],
    ['exclusiveMaximum', (want: number) => v >= want],
    ['multipleOf', (want: number) => Math.abs(v / want - Math.round(v / want)) > 1e-9],
  ] as const) {
    const want = s[name] as number | undefined;
    if (want !== undefined && wrong(want)) return { at, why: `${name}: got ${figure(v)}, want ${figure(want)}` };
  }
  return undefined;
}

const keywords = new Set([
  'type', 'const', 'enum', '$ref', 'minProperties', 'maxProperties', 'required', 'properties', 'patternProperties', 'additionalProperties', 'propertyNames', 'dependentSchemas', 'dependentRequired',
  'minItems', 'maxItems', 'uniqueItems', 'prefixItems', 'items', 'contains', 'minLength', 'maxLength', 'pattern', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf',
  'not', 'allOf', 'anyOf', 'oneOf', 'if',
]);

const order = ['null', 'boolean', 'number', 'integer', 'string', 'array', 'object'];

/** A number as the box words it. */
const figure = (n: number) => n.toLocaleString('en-US', { maximumFractionDigits: 20 });

const kind = (v: unknown) => (v === null ? 'null' : Array.isArray(v) ? 'array' : typeof v);

const plain = (v: unknown) => v === null || typeof v !== 'object';

const quote = (s: string) => `'${JSON.stringify(s).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;

const display = (v: unknown) => (typeof v === 'string' ? quote(v) : v === null ? '<nil>' : String(v));

/** Whether two values of JSON are equal, in whatever order their fields stand. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object' || Array.isArray(a) !== Array.isArray(b)) return false;
  const [x, y] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const names = Object.keys(x);
  return names.length === Object.keys(y).length && names.every((name) => Object.hasOwn(y, name) && same(x[name], y[name]));
}
