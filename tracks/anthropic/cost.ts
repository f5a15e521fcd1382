// What tokens cost, at the prices that the box itself counts with.

import type { Usage } from './messages.ts';
import { fallback, prices } from './prices.ts';

/** US cents for what a call used. A dated id has the price of the model without the date, an unknown one that of the usual model. */
export function cents(model: string, u: Usage): number {
  const price = prices[model] ?? prices[model.replace(/-[0-9]{8}$/, '')] ?? prices[fallback];
  if (price === undefined) throw new Error(`there is no price of ${fallback}`);
  const rates = price.long && u.input + u.cacheWrite + u.cacheRead > price.long.over ? price.long : price;
  const sum = rates.input * u.input + rates.output * u.output + rates.cacheWrite * u.cacheWrite + rates.cacheRead * u.cacheRead;
  return Math.round(sum * 100) / 1e8; // rates have a digit behind the point, so this is exact
}
