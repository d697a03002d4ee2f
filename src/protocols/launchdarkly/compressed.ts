import {
  type Checksum,
  crc32Combine,
  deflateBlock,
  deflateBlockSync,
  gzipHeader,
  gzipTrailer,
} from '../../dataset/index.ts';
import { type Block, blockOf, type Source } from '../../delivery/index.ts';

/** What compressed live blocks are before compression, for the trailers of the streams that they go to. */
const checksums = new WeakMap<Block, Checksum>();

/** A live event as a block of a gzip member: compressed once, sent to every compressed stream. */
export function compressedBlock(bytes: Uint8Array): Block {
  const { block, crc, length } = deflateBlockSync(bytes);
  const made = blockOf(block);
  checksums.set(made, { crc, length });
  return made;
}

/**
 * One stream that is one endless gzip member: what its trailer must say when it is ended in good order.
 *
 * @example
 * import { createGunzip } from 'node:zlib';
 *
 * const stream = new CompressedStream();
 * const groups = [[Buffer.from('event: patch\n\n')]];
 * const source = stream.compress({ bytes: undefined, next: () => groups.shift() });
 * const gunzip = createGunzip();
 * for (let pieces = await source.next(); pieces !== undefined; pieces = await source.next()) {
 *   for (const piece of pieces) gunzip.write(piece);
 * }
 * gunzip.end(stream.trailer());
 * console.log(String(await gunzip.toArray().then(Buffer.concat)).trim()); // event: patch
 */
export class CompressedStream {
  #crc = 0;
  #length = 0;
  #begun = false;

  /** The header, when nothing was sent yet: for whoever sends before a source does. */
  begin(): Uint8Array | undefined {
    if (this.#begun) return undefined;
    this.#begun = true;
    return gzipHeader();
  }

  /** How many bytes were sent, before compression; of a source, once all of it was taken. */
  get plainBytes(): number {
    return this.#length;
  }

  /** Notes a live block that was sent. */
  sent(block: Block): void {
    const checksum = checksums.get(block);
    if (checksum !== undefined) this.#add(checksum);
  }

  /** The end of the member. */
  trailer(): Uint8Array {
    return gzipTrailer(this.#crc, this.#length);
  }

  /** Blocks that are compressed already, with what their checksum will be when all were taken. */
  pages(source: Source & { readonly checksum: Checksum }): Source {
    return this.#within(source, () => this.#add(source.checksum));
  }

  /** Compresses a source while it is sent. */
  compress(source: Source): Source {
    const next = async (): Promise<readonly Uint8Array[] | undefined> => {
      const pieces = await source.next();
      if (pieces === undefined) return undefined;
      const made = await deflateBlock(
        pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces),
      );
      this.#add(made);
      return [made.block];
    };
    return this.#within({ bytes: undefined, next }, () => undefined);
  }

  /** Puts the header before the first bytes of the stream, and tells when the source has given its last. */
  #within(source: Source, onEnd: () => void): Source {
    const header = this.begin();
    let head = header === undefined ? [] : [header];
    return {
      bytes: undefined,
      next() {
        if (head.length > 0) {
          const first = head;
          head = [];
          return first;
        }
        const pieces = source.next();
        if (pieces === undefined) onEnd();
        return pieces;
      },
    };
  }

  #add({ crc, length }: Checksum): void {
    this.#crc = crc32Combine(this.#crc, crc, length);
    this.#length += length;
  }
}
