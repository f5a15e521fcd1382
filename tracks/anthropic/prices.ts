// Made from core/budget/prices.json by `go generate ./test/tracks`: an app can't read the core's files.

/** US cents for a million tokens of each kind. */
export interface Rates {
  input: number;
  output: number;
  cacheWrite: number;
  cacheRead: number;
}

/** A model's prices; `long` are those of a prompt of more than `over` tokens. */
export interface Price extends Rates {
  long?: Rates & { over: number };
}

/** Whose price an unknown model has. */
export const fallback = 'claude-sonnet-5-5';

/** By model. */
export const prices: Record<string, Price> = {
  'claude-fable-5': { input: 1000, output: 5000, cacheWrite: 1250, cacheRead: 100 },
  'claude-fable-5-1': { input: 1000, output: 5000, cacheWrite: 1250, cacheRead: 25 },
  'claude-haiku-4-5': { input: 100, output: 500, cacheWrite: 125, cacheRead: 10 },
  'claude-haiku-5-5': { input: 10, output: 50, cacheWrite: 12.5, cacheRead: 1, long: { over: 100000, input: 50, output: 250, cacheWrite: 62.5, cacheRead: 5 } },
  'claude-opus-4-5': { input: 500, output: 2500, cacheWrite: 625, cacheRead: 50 },
  'claude-opus-4-6': { input: 500, output: 2500, cacheWrite: 625, cacheRead: 50 },
  'claude-opus-4-7': { input: 500, output: 2500, cacheWrite: 625, cacheRead: 50 },
  'claude-opus-4-8': { input: 500, output: 2500, cacheWrite: 625, cacheRead: 50 },
  'claude-opus-5': { input: 500, output: 2500, cacheWrite: 625, cacheRead: 50 },
  'claude-opus-5-5': { input: 400, output: 2000, cacheWrite: 500, cacheRead: 20 },
  'claude-sonnet-4-5': { input: 300, output: 1500, cacheWrite: 375, cacheRead: 30 },
  'claude-sonnet-4-6': { input: 300, output: 1500, cacheWrite: 375, cacheRead: 30 },
  'claude-sonnet-5': { input: 200, output: 1000, cacheWrite: 250, cacheRead: 20 },
  'claude-sonnet-5-5': { input: 200, output: 1000, cacheWrite: 250, cacheRead: 10 },
};
