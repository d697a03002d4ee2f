import type { Block, Channel, HeldSlot, Source, Transport } from '../../src/delivery/index.ts';

/** Turns of an event loop, by hand. */
export class Turns {
  #queued: (() => void)[] = [];

  readonly nextTurn = (run: () => void): void => {
    this.#queued.push(run);
  };

  get queued(): number {
    return this.#queued.length;
  }

  /** One turn: runs what was queued before it. */
  turn(): void {
    const queued = this.#queued;
    this.#queued = [];
    for (const run of queued) run();
  }

  /** Turns until nothing is queued. */
  settle(turnsMax = 10_000): void {
    for (let turns = 0; this.#queued.length > 0; turns++) {
      if (turns === turnsMax) throw new Error(`Cannot settle: something is still queued after ${turnsMax} turns`);
      this.turn();
    }
  }
}

const TEXT_BYTES_MAX = 1000;

/** A channel whose reader is the test: what is written waits until `take()`. */
export class FakeChannel implements Channel {
  readonly transport: Transport;
  /** Bytes taken, writes and live blocks together. */
  bytes = 0;
  /** Bytes handed over, taken or not. */
  written = 0;
  /** What was written, pages left out. */
  text = '';
  writes = 0;
  kills = 0;
  ends = 0;
  /** Takes writes and blocks at once. */
  open = false;
  isClosed = false;
  /** Thrown by the next write. */
  failure: Error | undefined;
  #pending: { size: number; done: (error?: Error) => void } | undefined;
  #heldBack = 0;
  #onDrain: (() => void) | undefined;
  #onClose: ((complete: boolean) => void)[] = [];

  constructor(transport: Transport = 'http1') {
    this.transport = transport;
  }

  get dead(): boolean {
    return this.isClosed || this.kills > 0;
  }

  /** Whether a write, or a block, waits to be taken. */
  get waits(): boolean {
    return this.#pending !== undefined || this.#heldBack > 0;
  }

  get listeners(): number {
    return this.#onClose.length;
  }

  write(pieces: readonly Uint8Array[], done: (error?: Error) => void): void {
    if (this.failure !== undefined) throw this.failure;
    if (this.#pending !== undefined) throw new Error('Broken: two writes at a time');
    const size = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
    this.writes++;
    this.written += size;
    for (const piece of pieces)
      if (piece.byteLength <= TEXT_BYTES_MAX) this.text += Buffer.from(piece).toString('latin1');
    this.#pending = { size, done };
    if (this.open) this.take();
  }

  send(block: Block): boolean {
    if (this.dead) return true;
    this.text += Buffer.from(block.bytes).toString('latin1');
    this.written += block.bytes.byteLength;
    if (this.open) {
      this.bytes += block.bytes.byteLength;
      return true;
    }
    this.#heldBack += block.bytes.byteLength;
    return false;
  }

  /** The reader takes what waits. */
  take(): void {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending !== undefined) {
      this.bytes += pending.size;
      pending.done();
    }
    if (this.#heldBack > 0) {
      this.bytes += this.#heldBack;
      this.#heldBack = 0;
      this.#onDrain?.();
    }
  }

  /** The write that waits comes back; with an error, or, as on Node 20 after a kill, without. */
  answer(error?: Error): void {
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.done(error);
  }

  /** The client goes away, or the response is complete. */
  close(complete = false): void {
    if (this.isClosed) return;
    this.isClosed = true;
    const listeners = this.#onClose;
    this.#onClose = [];
    for (const listener of listeners) listener(complete);
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  onClose(listener: (complete: boolean) => void): void {
    if (this.isClosed) listener(false);
    else this.#onClose.push(listener);
  }

  offClose(listener: (complete: boolean) => void): void {
    this.#onClose = this.#onClose.filter((other) => other !== listener);
  }

  end(): void {
    this.ends++;
    if (!this.waits) this.close(true);
  }

  kill(): void {
    if (this.dead) return;
    this.kills++;
    this.close();
  }
}

/** A place in a limiter that the test hands out. */
export class FakeSlot implements HeldSlot {
  state: 'held' | 'parked' | 'released' = 'held';
  releases = 0;
  parks = 0;
  resumes = 0;
  mayPark = true;
  #onHeld: (() => void) | undefined;

  /** Whether it has asked for a place again. */
  get asks(): boolean {
    return this.#onHeld !== undefined;
  }

  park(): boolean {
    if (this.state !== 'held' || !this.mayPark) return false;
    this.state = 'parked';
    this.parks++;
    return true;
  }

  resume(onHeld: () => void): void {
    this.resumes++;
    if (this.state === 'parked') this.#onHeld = onHeld;
  }

  /** Gives it a place again. */
  hold(): void {
    const onHeld = this.#onHeld;
    this.#onHeld = undefined;
    if (this.state === 'released') return;
    this.state = 'held';
    onHeld?.();
  }

  release(): void {
    this.releases++;
    this.state = 'released';
  }

  pin(): void {}
}

/** A source of `groups` groups of one page each. */
export function pages(groups: number, page: Uint8Array = Buffer.alloc(65_536, 'x')): Source {
  let left = groups;
  return { bytes: groups * page.byteLength, next: () => (left-- > 0 ? [page] : undefined) };
}
