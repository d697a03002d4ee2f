import type { Item } from '../dataset/index.ts';
import { HeadgateError, Slices } from '../kernel/index.ts';
import { ItemScanner, type ScannedItem, type Section } from './item-scanner.ts';
import { JSON_LIMITS } from './json-scanner.ts';
import { Envelope, parseObject, shorten } from './upstream-envelope.ts';

/** What a full copy holds; others are skipped, as SDKs do. */
const SECTIONS: ReadonlyMap<string, Section> = new Map<string, Section>([
  ['flags', { kind: 'flags' }],
  ['segments', { kind: 'segments' }],
]);

/** How much is scanned in one call. */
const PIECE_BYTES = 64 * 1024;
/** An item at its largest, with white space, and what stands around it. */
export const ITEM_EVENT_BYTES_MAX: number = 2 * JSON_LIMITS.recordBytesMax;
/** Events that hold no item. */
const SMALL_EVENT_BYTES_MAX = 64 * 1024;

/** The items of `{"flags": {…}, "segments": {…}}`, each as soon as its last byte has come. Throws HG_SOURCE. */
export async function* itemsOf(what: string, pieces: AsyncIterable<Buffer>): AsyncGenerator<Item, void, undefined> {
  const scanner = new ItemScanner({ origin: { file: what, code: 'HG_SOURCE' }, sections: SECTIONS });
  const slices = new Slices();
  for await (const piece of pieces) {
    for (const part of parts(piece)) {
      scanner.push(part);
      yield* present(scanner.take());
      if (slices.due()) await slices.pause();
    }
  }
  scanner.finish();
}

/** All of an event's data, which must be small enough. Throws HG_SOURCE. */
export async function collect(what: string, data: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of data) {
    bytes += piece.byteLength;
    if (bytes > bytesMax) throw refusal(what, `it may have ${bytesMax} bytes, got more`);
    pieces.push(piece);
  }
  return pieces.length === 1 ? bufferOf(pieces[0] as Uint8Array) : Buffer.concat(pieces);
}

/** The object that a small event holds. Throws HG_SOURCE. */
export async function smallObject(
  what: string,
  data: AsyncIterable<Uint8Array>,
): Promise<Readonly<Record<string, unknown>>> {
  return parseObject(what, (await collect(what, data, SMALL_EVENT_BYTES_MAX)).toString('utf8'));
}

/** An event that holds one item: the item's own text, and what stands around it. */
export interface WrappedItem {
  /** Undefined when the member is missing or no object. */
  readonly object: Buffer | undefined;
  readonly rest: Readonly<Record<string, unknown>>;
}

/** Takes an event apart whose item is the member `member`. Throws HG_SOURCE. */
export function unwrap(what: string, bytes: Buffer, member: string): WrappedItem {
  const envelope = new Envelope(what, member);
  const object = envelope.push(bytes);
  return { object, rest: envelope.finish() };
}

/** The item that these bytes are: its compact text, `key` and `version` put in where they are missing. Throws HG_SOURCE. */
export async function itemFrom(what: string, names: ItemNames, object: Buffer): Promise<ScannedItem> {
  const { kind, key } = names;
  const scanner = new ItemScanner({ origin: { file: what, code: 'HG_SOURCE' }, sections: SECTIONS });
  const slices = new Slices();
  scanner.push(Buffer.from(`{"${kind}":{${JSON.stringify(key)}:`));
  for (const part of parts(object)) {
    scanner.push(part);
    if (slices.due()) await slices.pause();
  }
  scanner.push(Buffer.from('}}'));
  scanner.finish();
  return scanner.take()[0] as ScannedItem;
}

export interface ItemNames {
  readonly kind: string;
  readonly key: string;
}

/** A version from outside. Throws HG_SOURCE. */
export function versionFrom(what: string, version: unknown): number {
  if (typeof version === 'number' && Number.isSafeInteger(version) && version >= 0) return version;
  throw refusal(what, `"version" must be a whole number from 0 to 2^53-1, got ${JSON.stringify(version)}`);
}

/** A text from outside that must not be empty. Throws HG_SOURCE. */
export function textFrom(what: string, name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw refusal(what, `"${name}" must be a text, got ${shorten(JSON.stringify(value) ?? 'nothing')}`);
}

export function refusal(what: string, cause: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot read ${what}: ${cause}`);
}

export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function* present(items: readonly ScannedItem[]): Generator<Item, void, undefined> {
  for (const { kind, key, version, text, deleted } of items) if (!deleted) yield { kind, key, version, text };
}

function* parts(bytes: Buffer): Generator<Buffer, void, undefined> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}
