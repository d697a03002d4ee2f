import { createGunzip, type Gunzip } from 'node:zlib';
import { EventScanner, type ScannedEvent } from './event-scanner.ts';
import type { HerdKind } from './words.ts';

/** What a whole answer was: everything, what changed, or that nothing did. */
export type Copy = 'full' | 'changes' | 'current';

/** Who is told what is found in a body. */
export interface ContentSink {
  /** The client has everything now. */
  onWhole(copy: Copy): void;
  /** A change on a stream, after the client had everything. */
  onChange(): void;
  onBasis(state: string): void;
  onBroken(what: string): void;
  /** More has come than was worked off, or no longer so. */
  onPressure(isTooMuch: boolean): void;
}

const TRANSFERRED = 'payload-transferred';
const INTENT = 'server-intent';
/** A client that inflates is held back while this much waits: it is one of thousands. */
const INFLATE_BYTES_MAX = 256 * 1024;
/** Node's own is a quarter of it: there would be four times as many calls. */
const INFLATED_PIECE_BYTES = 64 * 1024;
/** The position stands at the end of a poll's body. */
const TAIL_BYTES = 1024;
/** Two lists with nothing in them, or null in place of them, in either order. */
const NOTHING_NEW = /^\s*\{(?:\s*"(?:new|deleted)"\s*:\s*(?:\[\s*\]|null)\s*,?){2}\s*\}\s*$/;
const NOTHING_NEW_BYTES_MAX = 256;

/** Looks at the body of an answer as its protocol needs, and holds none of it. */
export interface Content {
  feed(piece: Buffer): void;
  /** The body ended as it should: for a poll, that is when it is whole. */
  ended(): void;
  /** Nothing more will come. */
  drop(): void;
  readonly lastEventId: string | undefined;
  readonly retryMs: number | undefined;
}

/** What looks at an answer of this kind; `mayCatchUp`: what comes may be what changed since the last one. */
export function contentOf(kind: HerdKind, isGzip: boolean, sink: ContentSink, mayCatchUp: boolean): Content {
  const inner = innerOf(kind, sink, mayCatchUp);
  // who only counts bytes and waits for the end has nothing to look for in them
  return isGzip && !(inner instanceof Counted) ? new Inflated(inner, sink) : inner;
}

function innerOf(kind: HerdKind, sink: ContentSink, mayCatchUp: boolean): Content {
  if (kind === 'fdv1') return new Fdv1Stream(sink, mayCatchUp);
  if (kind === 'fdv2') return new Fdv2Stream(sink);
  if (kind === 'bouncer' && mayCatchUp) return new Delta(sink);
  return kind === 'fdv2-poll' ? new Fdv2Poll(sink) : new Counted(sink);
}

/** A body that is whole when it has ended. */
class Counted implements Content {
  readonly #sink: ContentSink;
  readonly lastEventId = undefined;
  readonly retryMs = undefined;

  constructor(sink: ContentSink) {
    this.#sink = sink;
  }

  feed(): void {}

  ended(): void {
    this.#sink.onWhole('full');
  }

  drop(): void {}
}

/** What a bouncer is told after its first copy: what changed, which may be nothing. */
class Delta implements Content {
  readonly #sink: ContentSink;
  readonly lastEventId = undefined;
  readonly retryMs = undefined;
  #first = '';

  constructor(sink: ContentSink) {
    this.#sink = sink;
  }

  feed(piece: Buffer): void {
    if (this.#first.length <= NOTHING_NEW_BYTES_MAX) this.#first += piece.toString('latin1', 0, TAIL_BYTES);
  }

  ended(): void {
    const isNothing = this.#first.length <= NOTHING_NEW_BYTES_MAX && NOTHING_NEW.test(this.#first);
    this.#sink.onWhole(isNothing ? 'current' : 'changes');
  }

  drop(): void {}
}

/** A poll of the second protocol: it says at its end what it brought. */
class Fdv2Poll implements Content {
  readonly #sink: ContentSink;
  readonly lastEventId = undefined;
  readonly retryMs = undefined;
  #first = '';
  #tail = Buffer.alloc(0);

  constructor(sink: ContentSink) {
    this.#sink = sink;
  }

  feed(piece: Buffer): void {
    if (this.#first.length < TAIL_BYTES) this.#first += piece.toString('latin1', 0, TAIL_BYTES);
    const end = piece.subarray(-TAIL_BYTES);
    this.#tail = Buffer.concat([this.#tail, end]).subarray(-TAIL_BYTES);
  }

  ended(): void {
    const state = stateIn(this.#tail.toString('latin1'));
    if (state !== undefined) this.#sink.onBasis(state);
    this.#sink.onWhole(copyOf(this.#first));
  }

  drop(): void {}
}

/** A stream of events: it has no end that would mean anything. */
abstract class EventStream implements Content {
  protected readonly scanner: EventScanner;

  constructor(scan: ConstructorParameters<typeof EventScanner>[0]) {
    this.scanner = new EventScanner(scan);
  }

  get lastEventId(): string | undefined {
    return this.scanner.lastEventId;
  }

  get retryMs(): number | undefined {
    return this.scanner.retryMs;
  }

  feed(piece: Buffer): void {
    this.scanner.feed(piece);
  }

  ended(): void {}

  drop(): void {}
}

/** A stream of the first protocol: a put is everything. */
class Fdv1Stream extends EventStream {
  constructor(sink: ContentSink, hasCopy: boolean) {
    let isWhole = false;
    super({
      reads: () => false,
      onEvent: ({ name }) => {
        if (name !== 'put' && name !== 'patch' && name !== 'delete') return;
        if (name === 'put') sink.onWhole('full');
        // who came back with a position may be told the changes alone
        else if (!isWhole && hasCopy) sink.onWhole('changes');
        else sink.onChange();
        isWhole = true;
      },
    });
  }
}

/** A stream of the second protocol: everything has come when the payload is transferred, or when there is none to transfer. */
class Fdv2Stream extends EventStream {
  readonly #sink: ContentSink;
  #copy: Copy = 'full';
  #isTransferring = false;

  constructor(sink: ContentSink) {
    super({
      reads: (name) => name === INTENT || name === TRANSFERRED,
      onEvent: (event) => this.#take(event),
    });
    this.#sink = sink;
  }

  #take({ name, data }: ScannedEvent): void {
    if (name === INTENT) {
      this.#copy = copyOf(data);
      this.#isTransferring = this.#copy !== 'current';
      if (!this.#isTransferring) this.#sink.onWhole('current');
    } else if (name === TRANSFERRED) {
      const state = stateIn(data);
      if (state !== undefined) this.#sink.onBasis(state);
      if (this.#isTransferring) this.#sink.onWhole(this.#copy);
      else this.#sink.onChange();
      this.#isTransferring = false;
    }
    if (this.#isTransferring) this.scanner.skipTo(TRANSFERRED);
  }
}

/** Inflates a body for who looks at it. */
class Inflated implements Content {
  readonly #inner: Content;
  readonly #gunzip: Gunzip;
  #isTooMuch = false;
  #isInflated = false;
  #hasEnded = false;

  constructor(inner: Content, sink: ContentSink) {
    this.#inner = inner;
    this.#gunzip = createGunzip({ chunkSize: INFLATED_PIECE_BYTES });
    this.#gunzip.on('data', (piece: Buffer) => inner.feed(piece));
    this.#gunzip.on('end', () => {
      this.#isInflated = true;
      // what is compressed may end before the answer does: then that is not whole yet
      if (this.#hasEnded) inner.ended();
    });
    this.#gunzip.on('error', (error) => sink.onBroken(`gzip: ${error.message}`));
    this.#gunzip.on('drain', () => {
      if (!this.#isTooMuch) return;
      this.#isTooMuch = false;
      sink.onPressure(false);
    });
    this.#onPressure = () => sink.onPressure(true);
  }

  readonly #onPressure: () => void;

  get lastEventId(): string | undefined {
    return this.#inner.lastEventId;
  }

  get retryMs(): number | undefined {
    return this.#inner.retryMs;
  }

  feed(piece: Buffer): void {
    if (this.#isInflated) return;
    // copied: it is inflated after this call, in another thread
    this.#gunzip.write(Buffer.from(piece));
    if (this.#isTooMuch || this.#gunzip.writableLength <= INFLATE_BYTES_MAX) return;
    this.#isTooMuch = true;
    this.#onPressure();
  }

  ended(): void {
    this.#hasEnded = true;
    if (this.#isInflated) this.#inner.ended();
    else this.#gunzip.end();
  }

  drop(): void {
    this.#gunzip.destroy();
  }
}

function copyOf(text: string): Copy {
  const intent = /"intentCode"\s*:\s*"([\w-]+)"/.exec(text)?.[1];
  if (intent === 'none') return 'current';
  return intent === 'xfer-changes' ? 'changes' : 'full';
}

function stateIn(text: string): string | undefined {
  return [...text.matchAll(/"state"\s*:\s*"([^"\\]{1,512})"/g)].at(-1)?.[1];
}
