import type { Change, Item } from '../dataset/index.ts';
import { HeadgateError, Slices } from '../kernel/index.ts';
import {
  collect,
  ITEM_EVENT_BYTES_MAX,
  itemFrom,
  type ItemNames,
  refusal,
  smallObject,
  textFrom,
  unwrap,
  versionFrom,
} from './upstream-items.ts';
import { shorten } from './upstream-envelope.ts';
import type { UpstreamSink } from './upstream-sink.ts';

/** An event, from a stream or from the body of a poll. */
export interface Fdv2Event {
  readonly name: string;
  readonly data: AsyncIterable<Uint8Array>;
}

const KINDS: ReadonlyMap<string, string> = new Map([
  ['flag', 'flags'],
  ['segment', 'segments'],
]);

/**
 * Reads the events of FDv2. Nothing is told before `payload-transferred`; what a broken connection leaves of a payload is dropped
 * with the reader.
 */
export class Fdv2Reader {
  readonly #name: string;
  readonly #sink: UpstreamSink;
  /** Whether what is held is what changes on this connection change. */
  #hasBasis: boolean;
  /** What the payload under way is; undefined: none was announced. */
  #payload: 'full' | 'changes' | undefined;
  /** By kind and key: what a payload says last of an item is what counts. */
  #changes = new Map<string, Change>();

  /** @param hasBasis - whether upstream was told what is held. */
  constructor(name: string, sink: UpstreamSink, hasBasis: boolean) {
    this.#name = name;
    this.#sink = sink;
    this.#hasBasis = hasBasis;
  }

  /**
   * Takes one event. Answers whether what is held is now known to be up to date.
   *
   * @throws HeadgateError HG_SOURCE for what cannot be read, HG_UPSTREAM for a goodbye, and what the sink throws.
   */
  async take(event: Fdv2Event): Promise<boolean> {
    const what = `the ${event.name} of ${this.#name}`;
    switch (event.name) {
      case 'server-intent':
        return await this.#intent(what, await smallObject(what, event.data));
      case 'put-object':
        return await this.#put(what, await collect(what, event.data, ITEM_EVENT_BYTES_MAX));
      case 'delete-object':
        return this.#delete(what, await smallObject(what, event.data));
      case 'payload-transferred':
        return await this.#transferred(what, await smallObject(what, event.data));
      case 'error':
        // What there is of the payload is void, and the next one is announced.
        this.#begin(undefined);
        return false;
      case 'goodbye':
        throw this.#goodbye(await smallObject(what, event.data));
      default:
        return false;
    }
  }

  async #intent(what: string, { payloads }: Readonly<Record<string, unknown>>): Promise<boolean> {
    const first: unknown = Array.isArray(payloads) ? payloads[0] : undefined;
    const code =
      typeof first === 'object' && first !== null ? (first as Record<string, unknown>)['intentCode'] : undefined;
    if (code === 'xfer-full') {
      this.#begin('full');
      return false;
    }
    if (code !== 'xfer-changes' && code !== 'none') {
      throw refusal(what, `its intent must be none, xfer-full or xfer-changes, got ${JSON.stringify(code)}`);
    }
    if (!this.#hasBasis) throw refusal(what, `nothing is held that it can go on from, got ${code}`);
    // After "none" come changes without a word.
    this.#begin('changes');
    if (code === 'none') await this.#sink.current();
    return code === 'none';
  }

  async #put(what: string, bytes: Buffer): Promise<boolean> {
    const { object, rest } = unwrap(what, bytes, 'object');
    const names = this.#names(what, rest);
    if (names === undefined) return false;
    if (object === undefined) throw refusal(what, '"object" must be an object');
    const version = versionFrom(what, rest['version']);
    const scanned = await itemFrom(what, names, object);
    const text = scanned.version === version ? scanned.text : withVersion(scanned.text, version, object);
    this.#note({ ...names, version, item: scanned.deleted ? undefined : { ...names, version, text } });
    return false;
  }

  #delete(what: string, rest: Readonly<Record<string, unknown>>): boolean {
    const names = this.#names(what, rest);
    if (names !== undefined) this.#note({ ...names, version: versionFrom(what, rest['version']), item: undefined });
    return false;
  }

  /** Undefined for a kind that nobody knows. */
  #names(what: string, rest: Readonly<Record<string, unknown>>): ItemNames | undefined {
    if (this.#payload === undefined) throw refusal(what, 'it came before any server-intent');
    const kind = KINDS.get(textFrom(what, 'kind', rest['kind']));
    return kind === undefined ? undefined : { kind, key: textFrom(what, 'key', rest['key']) };
  }

  #note(change: Change): void {
    const name = `${change.kind}/${change.key}`;
    // the last word also has the last place
    this.#changes.delete(name);
    this.#changes.set(name, change);
  }

  async #transferred(what: string, rest: Readonly<Record<string, unknown>>): Promise<boolean> {
    const state = textFrom(what, 'state', rest['state']);
    const payload = this.#payload;
    const changes = this.#changes;
    if (payload === undefined) throw refusal(what, 'it came before any server-intent');
    this.#begin('changes');
    if (payload === 'full') await this.#sink.replace(present(changes), state);
    else await this.#sink.apply([...changes.values()], state);
    this.#hasBasis = true;
    return true;
  }

  #begin(payload: 'full' | 'changes' | undefined): void {
    this.#payload = payload;
    this.#changes = new Map();
  }

  #goodbye({ reason }: Readonly<Record<string, unknown>>): HeadgateError {
    const given = typeof reason === 'string' && reason !== '' ? shorten(reason) : 'no reason';
    return new HeadgateError('HG_UPSTREAM', `Cannot follow ${this.#name}: upstream said goodbye, got ${given}`);
  }
}

async function* present(changes: ReadonlyMap<string, Change>): AsyncGenerator<Item, void, undefined> {
  const slices = new Slices();
  for (const { item } of changes.values()) {
    if (item !== undefined) yield item;
    if (slices.due()) await slices.pause();
  }
}

/**
 * The text with the envelope's version where the object has none of its own: some SDKs read it from there. An object that says
 * another one keeps it.
 */
function withVersion(text: string, version: number, object: Buffer): string {
  const given = JSON.parse(object.toString('utf8')) as Readonly<Record<string, unknown>>;
  // the scanner put one in, before everything that the object holds
  return 'version' in given ? text : text.replace(/"version":\d+/, `"version":${version}`);
}
