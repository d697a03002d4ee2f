/**
 * Texts in blocks of bytes, found by their place. A place is 32 bits: the number of the block, then where in it.
 *
 *      block 0                block 1            block 2
 *     ┌────┬──────┬──┬────┐  ┌─────┬────┬─┐     (let go: nothing
 *     │ a  │  b   │  │ d  │  │ e   │ f  │ │      of it was held)
 *     └────┴──────┴──┴────┘  └─────┴────┴─┘
 *                  freed                └ the next text goes here
 *
 * Freed bytes are not filled again: a block is let go when nothing of it is held, and `sparse` tells which blocks are
 * worth moving texts out of.
 */
export class Arena {
  readonly #bits: number;
  /** Cuts a place down to where in its block it is. */
  readonly #mask: number;
  readonly #blocks: (Uint8Array | undefined)[] = [];
  readonly #held: number[] = [];
  readonly #spare: number[] = [];
  #current = -1;
  #used = 0;
  #blockCount = 0;
  #heldBytes = 0;

  /** @param bits - a block holds 2^bits bytes, and no text may be longer */
  constructor(bits: number) {
    this.#bits = bits;
    this.#mask = 2 ** bits - 1;
  }

  /** Bytes of all blocks. */
  get bytes(): number {
    return this.#blockCount * 2 ** this.#bits;
  }

  /** Bytes of blocks that hold no text, freed ones and those not yet filled. */
  get idleBytes(): number {
    return this.bytes - this.#heldBytes;
  }

  /** A place for a text of so many bytes; they are written through {@link block} and {@link offset}. */
  take(bytes: number): number {
    if (this.#current < 0 || this.#used + bytes > 2 ** this.#bits) this.#open();
    const place = this.#current * 2 ** this.#bits + this.#used;
    this.#used += bytes;
    this.#held[this.#current] = (this.#held[this.#current] as number) + bytes;
    this.#heldBytes += bytes;
    return place;
  }

  /** Takes a place for a text and copies it there. */
  put(from: Uint8Array, at: number, bytes: number): number {
    const place = this.take(bytes);
    const into = this.block(place);
    let to = this.offset(place);
    for (let byte = at; byte < at + bytes; byte++) into[to++] = from[byte] as number;
    return place;
  }

  /** The text at this place is not needed any more. */
  free(place: number, bytes: number): void {
    const block = place >>> this.#bits;
    const held = (this.#held[block] as number) - bytes;
    this.#held[block] = held;
    this.#heldBytes -= bytes;
    if (held === 0 && block !== this.#current) this.#letGo(block);
  }

  block(place: number): Uint8Array {
    return this.#blocks[place >>> this.#bits] as Uint8Array;
  }

  offset(place: number): number {
    return place & this.#mask;
  }

  /** By number of block: whether less than half of it is held, so that moving its texts frees more than it takes. */
  sparse(): Uint8Array {
    const half = 2 ** (this.#bits - 1);
    return Uint8Array.from(this.#blocks, (block, number) =>
      block !== undefined && number !== this.#current && (this.#held[number] as number) < half ? 1 : 0,
    );
  }

  blockNumber(place: number): number {
    return place >>> this.#bits;
  }

  #open(): void {
    const full = this.#current;
    this.#current = this.#spare.pop() ?? this.#blocks.length;
    this.#blocks[this.#current] = new Uint8Array(2 ** this.#bits);
    this.#held[this.#current] = 0;
    this.#blockCount++;
    this.#used = 0;
    if (full >= 0 && this.#held[full] === 0) this.#letGo(full);
  }

  #letGo(block: number): void {
    this.#blocks[block] = undefined;
    this.#spare.push(block);
    this.#blockCount--;
  }
}
