import { constants, crc32, deflateRaw, deflateRawSync } from 'node:zlib';

/**
 * A piece of a gzip member that can be decoded on its own: whole DEFLATE blocks, ended at a byte border, that refer to
 * nothing before them. Blocks can therefore be joined in any order, and one block can be sent to any number of
 * streams.
 *
 * ```
 *  header | block | block | ... | 03 00 | CRC-32 | length mod 2^32
 *           each deflated alone   final    of all that was compressed
 * ```
 */
export interface GzipBlock {
  /** Compressed bytes. */
  readonly block: Uint8Array;
  /** CRC-32 of what was compressed. */
  readonly crc: number;
  /** How many bytes were compressed. */
  readonly length: number;
}

/** RFC 1952, section 2.3: no name, no time, no extra; operating system 255 is "unknown". */
const HEADER = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255);

/** A stored block holds at most 65,535 bytes (RFC 1951, section 3.2.4). */
const STORED_BYTES_MAX = 0xffff;
/** Below this, deflating costs a trip through the thread pool and gains nothing worth it. */
const STORED_BYTES_WORTH = 512;

/** Level 6: levels above cost several times as much for a few per cent (see the bench). */
const LEVEL = 6;

/**
 * How a gzip member begins.
 *
 * @example
 * console.log(gzipHeader().length); // 10
 */
export function gzipHeader(): Uint8Array {
  return HEADER;
}

/**
 * Compresses bytes, in the thread pool, into a block of their own.
 *
 * A full flush ends it: byte-aligned, and the next block starts without a window.
 *
 * @param level - of zlib, 1 to 9
 * @example
 * const { length } = await deflateBlock(Buffer.from('event: patch\n\n'));
 * console.log(length); // 14
 */
export function deflateBlock(bytes: Uint8Array, level: number = LEVEL): Promise<GzipBlock> {
  return new Promise((resolve, reject) => {
    deflateRaw(bytes, { level, finishFlush: constants.Z_FULL_FLUSH }, (error, block) => {
      // a copy, since what zlib hands over is a view of its 16 KiB chunk and would keep all of it alive
      if (error === null) resolve({ block: new Uint8Array(block), crc: crc32(bytes), length: bytes.length });
      else reject(error);
    });
  });
}

/**
 * The same at once, for what is sent as soon as it is made: a change of a few kilobytes. A quarter of a megabyte takes
 * about 5 ms, during which nothing else happens.
 *
 * @example
 * const { length } = deflateBlockSync(Buffer.from('event: patch\n\n'));
 * console.log(length); // 14
 */
export function deflateBlockSync(bytes: Uint8Array): GzipBlock {
  if (bytes.length < STORED_BYTES_WORTH) return storedBlock(bytes);
  const block = deflateRawSync(bytes, { level: LEVEL, finishFlush: constants.Z_FULL_FLUSH });
  return { block: new Uint8Array(block), crc: crc32(bytes), length: bytes.length };
}

/** An empty stored block: what a flush ends with. */
const FLUSH = Uint8Array.of(0, 0, 0, 0xff, 0xff);
/** What a stored piece has more than its bytes: its own head, and the flush behind it. */
const STORED_BYTES_MORE = 5 + FLUSH.length;

/**
 * A short piece as a block that is not compressed: ten bytes more, and made at once.
 *
 * It ends with a flush, like a compressed one: Go's reader hands on what a stored block held only at the next empty one,
 * so the last event of a stream would wait there until the next change.
 *
 * @example
 * const comma = storedBlock(Buffer.from(','));
 */
export function storedBlock(bytes: Uint8Array): GzipBlock {
  if (bytes.length > STORED_BYTES_MAX)
    throw new RangeError(`Cannot store a block: it must hold 65535 bytes at most, got ${bytes.length}`);
  const block = new Uint8Array(bytes.length + STORED_BYTES_MORE);
  // bits 0 (not final) and 00 (stored), padded to a byte; then the length and its complement, low byte first
  block[1] = bytes.length & 0xff;
  block[2] = bytes.length >>> 8;
  block[3] = block[1] ^ 0xff;
  block[4] = block[2] ^ 0xff;
  block.set(bytes, 5);
  block.set(FLUSH, 5 + bytes.length);
  return { block, crc: crc32(bytes), length: bytes.length };
}

/** How many bytes `blockOf` makes of so many, when it stores them; undefined when it would compress them. */
export function storedBytes(length: number): number | undefined {
  return length < STORED_BYTES_WORTH ? length + STORED_BYTES_MORE : undefined;
}

/** The block of a small piece at once, or of a larger one when it is compressed. */
export function blockOf(bytes: Uint8Array): GzipBlock | Promise<GzipBlock> {
  return bytes.length < STORED_BYTES_WORTH ? storedBlock(bytes) : deflateBlock(bytes);
}

/**
 * How a gzip member ends: an empty final block, the CRC-32 of all that was compressed, and its length mod 2^32.
 *
 * @param crc - combined from the blocks' with `crc32Combine`
 * @param length - sum of the blocks' lengths, in bytes
 * @example
 * import { gunzipSync } from 'node:zlib';
 *
 * const { block, crc, length } = await deflateBlock(Buffer.from('all of it'));
 * console.log(gunzipSync(Buffer.concat([gzipHeader(), block, gzipTrailer(crc, length)])).toString()); // all of it
 */
export function gzipTrailer(crc: number, length: number): Uint8Array {
  const trailer = Buffer.alloc(10);
  trailer[0] = 0x03;
  trailer.writeUInt32LE(crc, 2);
  trailer.writeUInt32LE(length % 2 ** 32, 6);
  return trailer;
}
