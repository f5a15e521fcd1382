// Says what an app declares, for the box to check: its values as they are, and `{ƒ: true}` where a function stands.

const deepest = 32; // of an input's schema

export function describe(value, depth = 0) {
  switch (typeof value) {
    case 'function':
      return { ƒ: true };
    case 'bigint':
    case 'symbol':
      return { 'not JSON': String(value) };
    case 'number':
      return Number.isFinite(value) ? value : { 'not JSON': String(value) };
    case 'object':
      break;
    default:
      return value;
  }
  if (value === null) return null;
  if (depth > deepest) throw new Error('what it declares lies more than 32 levels deep, or in a circle');
  if (Array.isArray(value)) return value.map((part) => describe(part, depth + 1) ?? null);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, describe(part, depth + 1)]));
}
