// When schedules are due, on the clock of a time zone, by the same rules as on the box.

import type { Watch, Weekday } from '../contract.ts';

const names: readonly Weekday[] = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const day = 86_400_000;

/** The clock of a time zone. */
export class Zone {
  #format: Intl.DateTimeFormat;

  constructor(name: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone: name, hourCycle: 'h23', era: 'short', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric',
    });
  }

  /** What the clock shows at an instant, as if it were UTC, in ms. */
  wall(at: number): number {
    const p = Object.fromEntries(this.#format.formatToParts(at).map(({ type, value }) => [type, Number(value)])) as Record<'year' | 'month' | 'day' | 'hour' | 'minute' | 'second', number>;
    return Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) + (((at % 1000) + 1000) % 1000);
  }

  /** The first instant at which the clock shows a time, or the first one after it on a day that leaves the time out. */
  instant(wall: number): number {
    const offset = (at: number) => this.wall(at) - at;
    const fits = [offset(wall - day), offset(wall + day)].map((o) => wall - o).filter((at) => this.wall(at) === wall);
    if (fits.length > 0) return Math.min(...fits);
    let [before, after] = [wall - day, wall + day];
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (this.wall(middle) >= wall) after = middle;
      else before = middle;
    }
    return after;
  }

  /** The day of an instant, as the number of days since 1970. */
  date(at: number): number {
    return Math.floor(this.wall(at) / day);
  }

  /** When a time of the day comes on a day: at the first instant after it where the day leaves it out. A day that the zone left out whole has none. */
  due(w: Daily, date: number): number | undefined {
    if (!permits(w, date)) return undefined;
    const [hours = 0, minutes = 0] = w.at.split(':').map(Number);
    const at = this.instant(date * day + (hours * 60 + minutes) * 60_000);
    return this.date(at) === date || this.date(this.instant(date * day)) === date ? at : undefined;
  }

  /** The last day whose time has come. */
  last(w: Daily, now: number): { date: number; due: number } | undefined {
    const today = this.date(now);
    for (let date = today + 1; date > today - reach; date--) {
      const due = this.due(w, date);
      if (due !== undefined && due <= now) return { date, due };
    }
    return undefined;
  }

  /** The first day whose time is still to come and that is not done. */
  next(w: Daily, now: number, done: (date: number) => boolean): number | undefined {
    const today = this.date(now);
    for (let date = today - 1; date < today + reach; date++) {
      const due = this.due(w, date);
      if (due !== undefined && due > now && !done(date)) return due;
    }
    return undefined;
  }

  /** An instant, or the beginning of the first day after it that is permitted. */
  open(w: Every, at: number): number {
    if (!w.weekdays || w.weekdays.length === 0) return at;
    let date = this.date(at);
    if (permits(w, date)) return at;
    for (date++; ; date++) {
      const start = this.instant(date * day);
      if (permits(w, date) && this.date(start) === date) return start;
    }
  }

  /** How many runs of a span that began at base are due by now, and when the last of them is; where none is, when the first one will be. */
  steps(w: Every, base: number, now: number): { n: number; due: number } {
    let n = 0;
    let due = this.open(w, base + w.ms);
    while (due <= now) {
      n++;
      const end = w.weekdays?.length ? Math.min(now, this.instant((this.date(due) + 1) * day) - 1) : now;
      const more = Math.floor(Math.max(end - due, 0) / w.ms);
      n += more;
      due += more * w.ms;
      const after = this.open(w, due + w.ms);
      if (after > now) return { n, due };
      due = after;
    }
    return { n: 0, due };
  }
}

/** A watch of one kind. */
export type Daily = Extract<Watch, { kind: 'daily' }>;
export type Every = Extract<Watch, { kind: 'every' }>;
export type Files = Extract<Watch, { kind: 'files' }>;

/** Over how many days the next one of a weekday can be: a zone may leave out one of them. */
const reach = 15;

const permits = (w: Daily | Every, date: number) => !w.weekdays || w.weekdays.length === 0 || w.weekdays.includes(weekday(date));

const weekday = (date: number): Weekday => names[(((date + 4) % 7) + 7) % 7]!; // 1970 began on a Thursday

/** A span such as `90s`, `15m`, `8h`, `2d`, or a number of ms. */
export function span(s: string | number): number {
  if (typeof s === 'number') return s;
  const [, count = '', unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(s) ?? [];
  const ms = Number(count) * ({ ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: day }[unit] ?? Number.NaN);
  if (!Number.isFinite(ms)) throw new Error(`testBox: "${s}" is no span such as 90s, 15m, 8h or 2d`);
  return ms;
}

/** A date as it stands in notes. */
export const dateText = (date: number) => new Date(date * day).toISOString().slice(0, 10);

/**
 * Whether a path fits a glob. In a name, * is any run of characters and ? one; ** in the place of a name is any number of folders, and at the end all that is
 * beneath.
 */
export function fits(glob: string, path: string): boolean {
  const parts = glob.split('/');
  const re = parts.map((part, i) => {
    const last = i === parts.length - 1;
    if (part === '**') return last ? '.+' : '(?:[^/]+/)*';
    return part.replaceAll(/[\\^$.+()[\]{}|]/g, '\\$&').replaceAll(/\*+/g, '[^/]*').replaceAll('?', '[^/]') + (last ? '' : '/');
  });
  return new RegExp(`^${re.join('')}$`, 'su').test(path);
}
