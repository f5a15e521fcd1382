// JSON-RPC 2.0 over an inherited socket, one message a line, and over a second one on which a call blocks until it has its answer. All of it runs in the
// app's process: what is checked here is for good sentences, and the box checks it again.

import fs from 'node:fs';
import net from 'node:net';

/** Bytes that a message may have; the box ends a process that sends a longer one. */
const most = 10 << 20;

const newline = 10;

/** What can be said of anything that was thrown, also when it is no Error and when looking at it throws. */
export function said(thrown) {
  try {
    if (thrown instanceof Error) {
      const text = `${thrown.message || thrown.name}`;
      return thrown.cause instanceof Error && thrown.cause.message ? `${text}: ${thrown.cause.message}` : text;
    }
    if (typeof thrown === 'object' && thrown !== null && typeof thrown.message === 'string') return thrown.message;
    return `it threw ${typeof thrown === 'string' ? JSON.stringify(thrown) : String(thrown)}`;
  } catch {
    return 'it threw something that can not be shown';
  }
}

/** What else the box is told of it: the code that Node or the system gave it, and whether it is no Error. */
function kind(thrown) {
  try {
    if (thrown instanceof Refused) return {};
    return { code: typeof thrown?.code === 'string' ? thrown.code : undefined, odd: !(thrown instanceof Error) };
  } catch {
    return { odd: true };
  }
}

/** An error that came from the other side. */
class Refused extends Error {}

const line = (message) => short(JSON.stringify(message) + '\n');

/** The bytes of a line, unless they are more than the box takes. */
function short(line) {
  const text = Buffer.from(line);
  if (text.length > most) throw new Error(`a message of ${Math.ceil(text.length / (1 << 20))} MB; at most ${most >> 20} are possible`);
  return text;
}

/** The line that answers a call; nothing is null. */
function answered(id, result) {
  if (result === undefined) result = null;
  const kind = typeof result;
  if (kind === 'function' || kind === 'symbol') throw new Error(`it gave back a ${kind}, and what JSON can hold is needed`);
  const text = JSON.stringify(result);
  if (text === undefined) throw new Error('it gave back nothing that JSON can hold');
  return short(`{"jsonrpc":"2.0","id":${id},"result":${text}}\n`);
}

/** The first socket: either side calls the other, any number of calls at once. */
export class Wire {
  #fd;
  #socket;
  #methods;
  #waiting = new Map();
  #last = 0;
  #parts = [];

  /** @param {Record<string, (params: any) => any>} methods what the other side may call */
  constructor(fd, methods) {
    this.#methods = methods;
    this.#fd = fd;
    // Past Node's streams, which cost a small call as much as all the rest: what comes is handed over where it was read, and what goes is written at once.
    const onread = { buffer: Buffer.alloc(64 << 10), callback: (size, buffer) => this.#take(buffer.subarray(0, size)) };
    this.#socket = new net.Socket({ fd, readable: true, writable: true, onread });
    this.#socket.on('close', () => process.exit(0)); // the box let go
    this.#socket.on('error', () => process.exit(0));
  }

  /** Keeps the process running, or no longer. */
  keep(on) {
    if (on) this.#socket.ref();
    else this.#socket.unref();
  }

  /** Calls the other side. */
  call(method, params) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#send(line({ jsonrpc: '2.0', id, method, params }));
      this.#waiting.set(id, { resolve, reject });
    });
  }

  #take(chunk) {
    for (let end; (end = chunk.indexOf(newline)) >= 0; chunk = chunk.subarray(end + 1)) {
      this.#parts.push(chunk.subarray(0, end));
      const text = this.#parts.length === 1 ? this.#parts[0].toString() : Buffer.concat(this.#parts).toString();
      this.#parts = [];
      this.#read(JSON.parse(text));
    }
    if (chunk.length > 0) this.#parts.push(Buffer.from(chunk)); // the buffer is filled anew
  }

  /** Sends a line: what the socket holds at once, and what it does not through the stream, which keeps what comes behind it in order. */
  #send(bytes) {
    let sent = 0;
    if (this.#socket.writableLength === 0) {
      try {
        sent = fs.writeSync(this.#fd, bytes);
      } catch (thrown) {
        if (thrown.code !== 'EAGAIN') throw thrown;
      }
    }
    if (sent < bytes.length) this.#socket.write(bytes.subarray(sent));
  }

  #read(message) {
    if (message.method === undefined) {
      const waiting = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.error) waiting?.reject(new Refused(message.error.message));
      else waiting?.resolve(message.result);
      return;
    }
    if (message.id === undefined) this.#methods[message.method]?.(message.params);
    else this.#answer(message);
  }

  async #answer({ id, method, params }) {
    let answer;
    let done = false; // whether its work is, so that only what it gave back is wrong
    try {
      const result = await this.#methods[method](params);
      done = true;
      answer = answered(id, result);
    } catch (thrown) {
      answer = line({ jsonrpc: '2.0', id, error: { code: -32000, message: said(thrown).slice(0, 4000), data: { ...kind(thrown), done } } });
    }
    this.#send(answer);
  }
}

/** The second socket: calls of which each is over before the next line of the program. */
export class Blocking {
  #fd;
  #last = 0;
  #rest = Buffer.alloc(0);

  constructor(fd) {
    this.#fd = fd;
  }

  /** Calls the box and waits. */
  call(method, params) {
    const id = ++this.#last;
    const text = line({ jsonrpc: '2.0', id, method, params });
    for (let done = 0; done < text.length; ) done += fs.writeSync(this.#fd, text, done);
    const message = JSON.parse(this.#line());
    if (message.error) throw new Refused(message.error.message);
    return message.result;
  }

  #line() {
    const parts = [this.#rest];
    for (;;) {
      const part = parts[parts.length - 1];
      const end = part.indexOf(newline);
      if (end >= 0) {
        parts[parts.length - 1] = part.subarray(0, end);
        this.#rest = part.subarray(end + 1);
        return Buffer.concat(parts).toString();
      }
      const more = Buffer.allocUnsafe(64 << 10);
      const got = fs.readSync(this.#fd, more);
      if (got === 0) process.exit(0); // the box let go
      parts.push(more.subarray(0, got));
    }
  }
}
