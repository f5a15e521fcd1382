// The action log of a test: lines as the box writes them, and who hears of them.

import { createHash } from 'node:crypto';
import type { LogEvent } from '../contract.ts';

/** A line before it has its number: fields that are undefined are left out. */
export type Line = { type: LogEvent['type'] } & Record<string, unknown>;

/** The time of a test. */
export interface Time {
  /** What the clock on the wall shows, in ms since 1970. */
  wall(): number;
  /** The time that really passed, in ms: no step of the clock changes it. */
  even(): number;
}

export class Log {
  readonly events: LogEvent[] = [];
  readonly listeners = new Set<(event: LogEvent) => void>();
  #time: Time;
  #prev = '';
  #last = { wall: 0, even: 0 };

  constructor(time: Time) {
    this.#time = time;
    this.#last = { wall: time.wall(), even: time.even() };
  }

  /** Writes a line. What is in it is the log's own from then on. */
  write(line: Line): LogEvent {
    const now = { wall: this.#time.wall(), even: this.#time.even() };
    const step = now.wall - this.#last.wall - (now.even - this.#last.even);
    this.#last = now;
    const text = JSON.stringify({ seq: this.events.length + 1, at: new Date(now.wall).toISOString(), ...(step === 0 ? {} : { clock: step }), ...line, prev: this.#prev });
    this.#prev = createHash('sha256').update(text).digest('hex');
    const event = JSON.parse(text) as LogEvent;
    this.events.push(event);
    for (const listener of [...this.listeners]) listener(event);
    return event;
  }

  /** Writes what the box itself has to say. */
  note(what: string, data: Record<string, unknown>, task?: string): void {
    this.write({ type: 'note', task, track: 'box', data: { what, ...data } });
  }
}
