import { assert } from '../../kernel/index.ts';

/** Where pages count their bytes. */
export interface Meter {
  /** Those that only copies keep alive. */
  pinnedBytes: number;
  /** Those that stand on a shelf, once for all answers that share them. */
  shelvedBytes: number;
  /** Those that were built so far, for whoever measures. */
  builtBytes?: number;
}

/**
 * Bytes that are given out: a page as it was at one moment, or that compressed.
 *
 * Whoever was given it holds it until it is sent. What nobody holds may be written to; what somebody holds is replaced by
 * another, and from then on only those who hold it keep it alive.
 */
export class Held {
  readonly bytes: Uint8Array;
  /** The moment that its durations are relative to, Unix time in milliseconds; none yet: -Infinity. */
  stampedAtMs: number;
  readonly #meter: Meter;
  #holds = 0;
  #replaced = false;

  constructor(bytes: Uint8Array, stampedAtMs: number, meter: Meter) {
    this.bytes = bytes;
    this.stampedAtMs = stampedAtMs;
    this.#meter = meter;
  }

  /** Whether nobody looks at it. */
  get free(): boolean {
    return this.#holds === 0;
  }

  /** Whether its durations still hold. One from the future does not: the wall clock was set back, and it says too little. */
  isFresh(nowMs: number, granularityMs: number): boolean {
    const ageMs = nowMs - this.stampedAtMs;
    return ageMs >= 0 && ageMs < granularityMs;
  }

  hold(): void {
    this.#holds++;
    if (this.#replaced && this.#holds === 1) this.#meter.pinnedBytes += this.bytes.length;
  }

  letGo(): void {
    assert(this.#holds > 0, 'bytes are let go as often as they were held', this.#holds);
    this.#holds--;
    if (this.#replaced && this.#holds === 0) this.#meter.pinnedBytes -= this.bytes.length;
  }

  /** Another has taken its place. */
  replace(): void {
    this.#replaced = true;
    if (this.#holds > 0) this.#meter.pinnedBytes += this.bytes.length;
  }
}

/** A page compressed: a piece of a gzip member, and what the trailer must say of it. */
export class HeldBlock extends Held {
  /** CRC-32 of what was compressed. */
  readonly crc: number;
  /** How many bytes were compressed. */
  readonly length: number;

  constructor(
    of: { readonly block: Uint8Array; readonly crc: number; readonly length: number },
    stampedAtMs: number,
    meter: Meter,
  ) {
    super(of.block, stampedAtMs, meter);
    this.crc = of.crc;
    this.length = of.length;
  }
}
