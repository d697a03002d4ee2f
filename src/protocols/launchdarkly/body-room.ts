import type { Exchange } from '../../delivery/index.ts';

/**
 * Memory for bodies while they come, for all of them together. Each has its own bound, but whoever sends a thousand slowly
 * would have a thousand times as much, and nothing of it is under any budget yet.
 *
 * @example
 * const room = new BodyRoom(16_777_216);
 * console.log(room.bytesLeft); // 16777216
 */
export class BodyRoom {
  #bytesLeft: number;

  /** @param bytesMax - of all bodies that are on their way. */
  constructor(bytesMax: number) {
    this.#bytesLeft = bytesMax;
  }

  get bytesLeft(): number {
    return this.#bytesLeft;
  }

  /** A body of at most `bytesMax` bytes. It takes room until it is here: from then on it is its reader's. */
  async read(exchange: Exchange, bytesMax: number): Promise<Buffer | 'too large' | 'no room' | 'gone'> {
    let taken = 0;
    let isFull = false;
    try {
      return await exchange.body(bytesMax, (bytes) => {
        isFull = bytes > this.#bytesLeft;
        if (isFull) return false;
        this.#bytesLeft -= bytes;
        taken += bytes;
        return true;
      });
    } catch {
      if (exchange.closed) return 'gone';
      return isFull ? 'no room' : 'too large';
    } finally {
      this.#bytesLeft += taken;
    }
  }
}
