import { gunzip } from 'node:zlib';
import type { Exchange } from '../../delivery/index.ts';
import { BodyRoom } from './body-room.ts';

/** Bodies that are inflated at once: each may become as large as is allowed, whatever little was sent. */
const INFLATIONS_MAX = 4;

/** All bodies that are on their way have room for so many of the largest, and for a herd of the usual. */
const LARGEST_BODIES = 8;
const ROOM_BYTES_MIN = 4 * 1024 * 1024;

/** Pieces that a body is inflated in: each goes by way of a thread, and the default of 16 KiB is many trips. */
const PIECE_BYTES = 65_536;

/** A body, or how to refuse the request. */
export type Body = { readonly bytes: Buffer } | { readonly status: number; readonly message: string };

/**
 * Reads request bodies, gzip undone, no larger than allowed before and after.
 *
 * @example
 * const bodies = new Bodies(1_048_576);
 * console.log(bodies.bytesMax); // 1048576
 */
export class Bodies {
  readonly bytesMax: number;
  readonly #room: BodyRoom;
  readonly #waiting: (() => void)[] = [];
  #inflations = 0;

  /** @param bytesMax - of one body, in bytes, as it was sent and as it is inflated. */
  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
    this.#room = new BodyRoom(Math.max(LARGEST_BODIES * bytesMax, ROOM_BYTES_MIN));
  }

  /** The body of a request. Undefined: its client has left. */
  async read(exchange: Exchange): Promise<Body | undefined> {
    const tooLarge: Body = { status: 413, message: `request body may have ${this.bytesMax} bytes, got more` };
    if (Number(exchange.header('content-length') ?? 0) > this.bytesMax) return tooLarge;
    const bytes = await this.#room.read(exchange, this.bytesMax);
    if (bytes === 'gone') return undefined;
    if (bytes === 'too large') return tooLarge;
    if (bytes === 'no room') return { status: 503, message: 'too many request bodies are on their way' };
    if (exchange.header('content-encoding')?.toLowerCase().includes('gzip') !== true) return { bytes };
    const inflated = await this.#inTurn(() => inflate(bytes, this.bytesMax));
    if (exchange.closed) return undefined;
    if (inflated === 'too large') return tooLarge;
    return inflated === 'damaged' ? { status: 400, message: 'request body is not valid gzip' } : { bytes: inflated };
  }

  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#inflations >= INFLATIONS_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#inflations++;
    try {
      return await run();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#inflations--;
      else next();
    }
  }
}

function inflate(bytes: Buffer, bytesMax: number): Promise<Buffer | 'too large' | 'damaged'> {
  return new Promise((resolve) => {
    gunzip(bytes, { maxOutputLength: bytesMax, chunkSize: PIECE_BYTES }, (error, whole) => {
      if (error === null) resolve(whole);
      else resolve('code' in error && error.code === 'ERR_BUFFER_TOO_LARGE' ? 'too large' : 'damaged');
    });
  });
}
