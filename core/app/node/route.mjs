// A route's Request and Response. A body goes piece by piece, either way, when the other side asks for the next one.

const piece = 256 << 10; // bytes of a body in one message
const whole = 64 << 10; // bytes of a body that is sent with its head, when it is there at once

/** Bodies that the box has not read to the end, by the call. */
const open = new Map();

const none = Symbol();

/** What is there without waiting for anything but the app's own promises. */
const atOnce = (promise) => Promise.race([promise, new Promise((resolve) => setImmediate(resolve, none))]);

export async function route(world, answer, { call, method, url, headers, body }, signal) {
  const request = new Request(url, { method, headers, signal, ...(body ? { body: incoming(world, call), duplex: 'half' } : {}) });
  const response = await answer(request, world.box);
  if (!(response instanceof Response)) throw new Error(`the route returned ${response === null ? 'null' : typeof response}, and a Response is needed`);
  const head = { status: response.status, headers: [...response.headers] };
  if (response.status === 0) throw new Error('the route returned Response.error(), which has no status');
  if (response.body === null) return head;
  const stream = { reader: response.body.getReader(), have: [], size: 0, next: undefined };
  for (;;) {
    stream.next ??= stream.reader.read();
    const got = await atOnce(stream.next);
    if (got === none) break;
    stream.next = undefined;
    if (got.done) return { ...head, body: Buffer.concat(stream.have).toString('base64') };
    stream.have.push(bytes(got.value));
    stream.size += got.value.byteLength;
    if (stream.size > whole) break;
  }
  open.set(call, stream);
  return { ...head, more: true };
}

function bytes(value) {
  if (!(value instanceof Uint8Array)) throw new Error('the body of the Response gives something that is no Uint8Array');
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** The next piece of a Response's body. */
export async function chunk({ call }) {
  const stream = open.get(call);
  if (!stream) return { done: true };
  while (stream.have.length === 0) {
    const got = await (stream.next ?? stream.reader.read());
    stream.next = undefined;
    if (got.done) {
      open.delete(call);
      return { done: true };
    }
    if (got.value.byteLength > 0) stream.have.push(bytes(got.value));
  }
  const first = stream.have[0];
  if (first.length <= piece) stream.have.shift();
  else stream.have[0] = first.subarray(piece);
  return { data: first.subarray(0, piece).toString('base64') };
}

/** Nobody reads the body any more. */
export function closeStream(call) {
  const stream = open.get(call);
  open.delete(call);
  stream?.reader.cancel().catch(() => {});
}

function incoming(world, call) {
  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      const { data, done } = await world.wire.call('body', { call });
      if (data) controller.enqueue(new Uint8Array(Buffer.from(data, 'base64')));
      if (done) {
        controller.close();
        controller.byobRequest?.respond(0);
      }
    },
  });
}
