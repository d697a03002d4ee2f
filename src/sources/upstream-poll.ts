import { Slices } from '../kernel/index.ts';
import type { OutboundReply } from '../outbound/index.ts';
import { Envelope } from './upstream-envelope.ts';
import type { Fdv2Reader } from './upstream-fdv2.ts';
import { bufferOf, ITEM_EVENT_BYTES_MAX, itemsOf, refusal, textFrom, unwrap } from './upstream-items.ts';
import type { UpstreamSink } from './upstream-sink.ts';

/** Takes the body of FDv1's `/sdk/latest-all`: everything. */
export async function takeAll(name: string, reply: Pick<OutboundReply, 'body'>, sink: UpstreamSink): Promise<void> {
  await sink.replace(itemsOf(`the answer to a poll of ${name}`, buffers(reply.body)), undefined);
}

/** Takes the body of FDv2's `/sdk/poll`: the events of a stream, in one array. Answers whether they made what is held up to date. */
export async function takeEvents(
  name: string,
  reply: Pick<OutboundReply, 'body'>,
  reader: Fdv2Reader,
): Promise<boolean> {
  const what = `the answer to a poll of ${name}`;
  const slices = new Slices();
  let current = false;
  for await (const text of elementsOf(what, reply.body)) {
    const { object, rest } = unwrap(what, text, 'data');
    const event = textFrom(what, 'event', rest['event']);
    current = (await reader.take({ name: event, data: once(object) })) || current;
    if (slices.due()) await slices.pause();
  }
  return current;
}

/** The elements of the member `events`, each as soon as its last byte has come. */
async function* elementsOf(what: string, body: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  const envelope = new Envelope(what, 'events');
  const elements = new Elements(what);
  for await (const piece of body) {
    const part = envelope.push(bufferOf(piece));
    if (part !== undefined) yield* elements.push(part);
  }
  envelope.finish();
  if (!envelope.found) throw refusal(what, '"events" must be a list');
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

/** Takes the text of a list of objects apart. */
class Elements {
  readonly #what: string;
  #pieces: Buffer[] = [];
  #bytes = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;

  constructor(what: string) {
    this.#what = what;
  }

  push(part: Buffer): Buffer[] {
    const whole: Buffer[] = [];
    let from = 0;
    for (let at = 0; at < part.length; at += 1) {
      const byte = part[at] as number;
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (byte === BACKSLASH) this.#escaped = true;
        else if (byte === QUOTE) this.#inString = false;
      } else if (byte === QUOTE) this.#inString = true;
      else if (byte === 0x7b || byte === 0x5b) {
        this.#depth += 1;
        if (this.#depth === 1) from = at + 1;
      } else if (byte === 0x7d || byte === 0x5d) this.#depth -= 1;
      const ends = this.#depth === 0 || (this.#depth === 1 && byte === COMMA && !this.#inString);
      if (!ends) continue;
      this.#keep(part.subarray(from, at));
      from = at + 1;
      const element = this.#take();
      // an empty list has none
      if (this.#depth > 0 || element.some((one) => one > 0x20)) whole.push(element);
    }
    if (this.#depth > 0) this.#keep(part.subarray(from));
    return whole;
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > ITEM_EVENT_BYTES_MAX) {
      throw refusal(this.#what, `an event may have ${ITEM_EVENT_BYTES_MAX} bytes, got more`);
    }
    // a copy: the piece belongs to whoever gave it
    if (piece.length > 0) this.#pieces.push(Buffer.from(piece));
  }

  #take(): Buffer {
    const element = Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    return element;
  }
}

async function* once(object: Buffer | undefined): AsyncGenerator<Uint8Array, void, undefined> {
  if (object !== undefined) yield object;
}

async function* buffers(body: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  for await (const piece of body) yield bufferOf(piece);
}
