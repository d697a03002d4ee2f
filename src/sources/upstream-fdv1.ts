import type { Item } from '../dataset/index.ts';
import type { StreamEvent } from '../outbound/index.ts';
import { Envelope } from './upstream-envelope.ts';
import {
  bufferOf,
  collect,
  ITEM_EVENT_BYTES_MAX,
  itemFrom,
  type ItemNames,
  itemsOf,
  refusal,
  smallObject,
  textFrom,
  unwrap,
  versionFrom,
} from './upstream-items.ts';
import type { UpstreamSink } from './upstream-sink.ts';

/** Reads the events of FDv1: `put` with everything, `patch` and `delete` with one item. */
export class Fdv1Reader {
  readonly #name: string;
  readonly #sink: UpstreamSink;
  /** Whether what is held is what changes on this connection change. */
  #hasBasis: boolean;

  /** @param hasBasis - whether upstream was told what is held, so that it may begin with changes. */
  constructor(name: string, sink: UpstreamSink, hasBasis: boolean) {
    this.#name = name;
    this.#sink = sink;
    this.#hasBasis = hasBasis;
  }

  /** Takes one event. Answers whether what is held is now known to be up to date. Throws HG_SOURCE and what the sink throws. */
  async take(event: StreamEvent): Promise<boolean> {
    switch (event.name) {
      case 'put':
        return await this.#put(event);
      case 'patch':
        return await this.#patch(event);
      case 'delete':
        return await this.#delete(event);
      default:
        return false;
    }
  }

  async #put(event: StreamEvent): Promise<boolean> {
    const what = this.#what(event);
    const envelope = new Envelope(what, 'data');
    const pieces = event.data[Symbol.asyncIterator]();
    const first = await firstPart(envelope, pieces);
    if (first === undefined) {
      envelope.finish();
      throw refusal(what, '"data" must be an object');
    }
    if (!isRoot(envelope.before()['path'])) return false;
    await this.#sink.replace(itemsOf(what, this.#rest(envelope, first, pieces)), undefined);
    this.#hasBasis = true;
    return true;
  }

  async *#rest(
    envelope: Envelope,
    first: Buffer,
    pieces: AsyncIterator<Uint8Array>,
  ): AsyncGenerator<Buffer, void, undefined> {
    yield first;
    for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) {
      const part = envelope.push(bufferOf(next.value));
      if (part !== undefined) yield part;
    }
    if (!isRoot(envelope.finish()['path'])) throw envelope.failure('"path" must be "/" or stand before "data"');
  }

  async #patch(event: StreamEvent): Promise<boolean> {
    const what = this.#what(event);
    const { object, rest } = unwrap(what, await collect(what, event.data, ITEM_EVENT_BYTES_MAX), 'data');
    const names = namesOf(textFrom(what, 'path', rest['path']));
    if (names === undefined) return false;
    if (object === undefined) throw refusal(what, '"data" must be an object');
    const { version, text, deleted } = await itemFrom(what, names, object);
    return await this.#change(what, names, version, deleted ? undefined : { ...names, version, text });
  }

  async #delete(event: StreamEvent): Promise<boolean> {
    const what = this.#what(event);
    const rest = await smallObject(what, event.data);
    const names = namesOf(textFrom(what, 'path', rest['path']));
    if (names === undefined) return false;
    return await this.#change(what, names, versionFrom(what, rest['version']), undefined);
  }

  async #change(what: string, names: ItemNames, version: number, item: Item | undefined): Promise<boolean> {
    if (!this.#hasBasis) throw refusal(what, 'it came before the data that it changes');
    await this.#sink.applyRising([{ ...names, version, item }]);
    return true;
  }

  #what(event: StreamEvent): string {
    return `the ${event.name} of ${this.#name}`;
  }
}

/** The part of the member that comes first; undefined when there is none. */
async function firstPart(envelope: Envelope, pieces: AsyncIterator<Uint8Array>): Promise<Buffer | undefined> {
  for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) {
    const part = envelope.push(bufferOf(next.value));
    if (part !== undefined) return part;
  }
  return undefined;
}

/** A put of another path is none that anybody knows; no path is the root, as SDKs have it. */
function isRoot(path: unknown): boolean {
  return path === undefined || path === null || path === '/' || path === '';
}

/** What a path names; undefined for a kind that nobody knows, which SDKs ignore. */
function namesOf(path: string): ItemNames | undefined {
  const [, kind, key] = /^\/(flags|segments)\/(.+)$/s.exec(path) ?? [];
  return kind === undefined || key === undefined ? undefined : { kind, key };
}
