import { Slices } from '../kernel/index.ts';
import { type Checksum, type Encoded, type Encoder, encoderFor } from './encoder.ts';
import { type Encoding, type Leaf, PART_BYTES_MAX } from './leaf.ts';
import type { Piece, Plan, Shape } from './shape.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * One full copy on its way to one client: what a delivery takes piece by piece. It holds no bytes of its own beyond
 * the frame; the pages belong to the snapshot's leaves and are shared by every delivery.
 */
export interface Payload {
  readonly encoding: Encoding;
  /** Bytes on the wire when known without work, else undefined. After `prepare()` known. */
  readonly bytes: number | undefined;
  /**
   * The next pieces to write in one go, about `bytesWanted` (64 KiB if not said) and at most 4 KiB more; a promise while
   * they are being compressed; undefined after the end. Ask again only when the promise before is settled; one that was rejected may
   * be asked for again. Throws, or rejects, what a shape's `entry` throws.
   */
  next(bytesWanted?: number): readonly Uint8Array[] | Promise<readonly Uint8Array[]> | undefined;
  /** Of everything that `next()` gave, before compression; zeros where nothing is compressed. */
  readonly checksum: Checksum;
  /** Encodes all of it, in slices, and says how many bytes it takes on the wire. Where `next()` stands does not change. */
  prepare(): Promise<number>;
}

/** What may go along with a group that is large enough: the small pieces around a page. */
const GROUP_BYTES_MORE = 4 * 1024;

/**
 * How many pages are compressed ahead of the one that is waited for. The thread pool has four threads; more would
 * compress pages for a client that may be gone.
 */
const READ_AHEAD_PAGES = 3;

/**
 * A full copy of a snapshot in a view.
 *
 * Call it once the delivery has been admitted: it encodes nothing yet, but from here on pages are.
 *
 * @param o - `framed: false`: the blocks alone, without the header and trailer of a gzip member, for a stream whose
 *   member goes on after them; its trailer needs their `checksum`. Default true.
 * @example
 * const dataSet = new DataSet({ name: 'production', kinds: ['flags'] });
 * await dataSet.replace([{ kind: 'flags', key: 'a', version: 1, text: '{"key":"a"}' }]);
 * const shape: Shape = { name: 'list', entry: (item) => item.text, separator: ',' };
 * const payload = payloadOf(dataSet.snapshot(), planOf('[', { kind: 'flags', shape }, ']'), 'identity');
 * const pieces: Uint8Array[] = [];
 * for (let group = payload.next(); group !== undefined; group = payload.next()) pieces.push(...(await group));
 * console.log(Buffer.concat(pieces).toString()); // [{"key":"a"}]
 */
export function payloadOf(snapshot: Snapshot, plan: Plan, encoding: Encoding, o: PayloadOptions = {}): Payload {
  snapshot.mark(plan, encoding);
  return new PagedPayload(snapshot, plan, encoding, o.framed ?? true);
}

/** How a payload stands in its response. */
export interface PayloadOptions {
  readonly framed?: boolean;
}

class PagedPayload implements Payload {
  readonly encoding: Encoding;
  readonly #snapshot: Snapshot;
  readonly #plan: Plan;
  readonly #encoder: Encoder;
  readonly #walk: Walk;
  /** Encoded and, from `#taken` on, not yet given, in order. */
  readonly #ready: Uint8Array[];
  #taken = 0;
  /** The step that is being compressed, and then what became of it. */
  #waiting: Promise<void> | undefined;
  #encoded: Encoded | undefined;
  #ended = false;
  #bytes: number | undefined;

  constructor(snapshot: Snapshot, plan: Plan, encoding: Encoding, framed: boolean) {
    this.encoding = encoding;
    this.#snapshot = snapshot;
    this.#plan = plan;
    this.#encoder = encoderFor(encoding, framed);
    this.#walk = new Walk(snapshot, plan.pieces);
    this.#ready = [...this.#encoder.head];
  }

  get checksum(): Checksum {
    return this.#encoder.checksum;
  }

  get bytes(): number | undefined {
    this.#bytes ??= this.encoding === 'identity' ? this.#snapshot.knownByteLength(this.#plan) : this.#knownBytes();
    return this.#bytes;
  }

  next(bytesWanted: number = PART_BYTES_MAX): readonly Uint8Array[] | Promise<readonly Uint8Array[]> | undefined {
    const group: Uint8Array[] = [];
    let bytes = 0;
    for (;;) {
      for (let part = this.#ready[this.#taken]; part !== undefined; part = this.#ready[this.#taken]) {
        if (bytes > 0 && bytes + part.length > bytesWanted + GROUP_BYTES_MORE) return group;
        bytes += part.length;
        group.push(part);
        this.#taken++;
      }
      this.#ready.length = 0;
      this.#taken = 0;
      if (bytes >= bytesWanted) return group;
      const filled = this.#tryFill(group.length > 0);
      if (filled === 'more') continue;
      if (group.length > 0) return group;
      return filled === 'end' ? undefined : filled.then(() => this.next(bytesWanted) ?? []);
    }
  }

  async prepare(): Promise<number> {
    const slices = new Slices();
    for (const piece of this.#plan.pieces) {
      if (typeof piece === 'string') await this.#encoder.text(piece);
      else await this.#preparePages(this.#snapshot.leavesOf(piece.kind), piece.shape, slices);
    }
    return this.bytes ?? this.#snapshot.byteLength(this.#plan);
  }

  async #preparePages(leaves: readonly Leaf[], shape: Shape, slices: Slices): Promise<void> {
    for (let at = 0; at < leaves.length; at++) {
      const page = this.#encoder.page(leaves[at]!, shape);
      if (page instanceof Promise) {
        this.#readAhead(leaves, at, shape);
        await page;
      }
      if (slices.due()) await slices.pause();
    }
  }

  /** What a shape throws must not lose the pieces taken before it: they go out first, and it is thrown when asked again. */
  #tryFill(later: boolean): 'more' | 'end' | Promise<void> {
    try {
      return this.#fill();
    } catch (error) {
      if (later) return 'end';
      throw error;
    }
  }

  /** Makes the next step's bytes ready: 'more' when it did, 'end' after the last, a promise while they are compressed. */
  #fill(): 'more' | 'end' | Promise<void> {
    if (this.#waiting !== undefined) return this.#waiting;
    const step = this.#walk.step();
    if (step === undefined) return this.#end();
    const encoded = this.#encoded ?? this.#encode(step);
    if (encoded instanceof Promise) return this.#wait(encoded);
    this.#encoded = undefined;
    if (encoded.entries > 0) {
      if (step.separator !== '') this.#send(this.#encoder.separator(step.separator));
      this.#send(encoded);
    }
    this.#walk.advance(encoded.entries > 0);
    return 'more';
  }

  #encode(step: Step): Encoded | Promise<Encoded> {
    if (step.text !== undefined) return this.#encoder.text(step.text);
    const encoded = this.#encoder.page(step.leaves[step.at]!, step.shape);
    if (encoded instanceof Promise) this.#readAhead(step.leaves, step.at, step.shape);
    return encoded;
  }

  #readAhead(leaves: readonly Leaf[], at: number, shape: Shape): void {
    for (const leaf of leaves.slice(at + 1, at + 1 + READ_AHEAD_PAGES)) void leaf.block(shape);
  }

  #wait(encoded: Promise<Encoded>): Promise<void> {
    const settled = (made?: Encoded): void => {
      this.#waiting = undefined;
      this.#encoded = made;
    };
    this.#waiting = encoded.then(settled, (error: unknown) => {
      settled();
      throw error;
    });
    // a group may go out while this is not waited for yet; who asks next gets the failure
    this.#waiting.catch(() => {});
    return this.#waiting;
  }

  #send(encoded: Encoded): void {
    this.#encoder.sent(encoded);
    for (const part of encoded.parts) this.#ready.push(part);
  }

  #end(): 'more' | 'end' {
    if (this.#ended) return 'end';
    this.#ended = true;
    this.#ready.push(...this.#encoder.tail());
    return 'more';
  }

  #knownBytes(): number | undefined {
    let bytes = this.#encoder.frameBytes(this.#plan.pieces.filter((piece) => typeof piece === 'string'));
    if (bytes === undefined) return undefined;
    for (const piece of this.#plan.pieces) {
      if (typeof piece === 'string') continue;
      const pages = this.#knownPages(piece.kind, piece.shape);
      if (pages === undefined) return undefined;
      bytes += pages;
    }
    return bytes;
  }

  #knownPages(kind: string, shape: Shape): number | undefined {
    let bytes = 0;
    let shown = 0;
    for (const leaf of this.#snapshot.leavesOf(kind)) {
      const page = this.#encoder.pageKnown(leaf, shape);
      if (page === undefined) return undefined;
      if (page.entries === 0) continue;
      bytes += page.bytes;
      shown++;
    }
    return bytes + Math.max(0, shown - 1) * this.#encoder.separatorBytes(shape.separator);
  }
}

/** A text, or a leaf in a shape with the separator that goes before it if it shows anything. */
type Step =
  | { readonly text: string; readonly separator: '' }
  | {
      readonly text?: undefined;
      readonly leaves: readonly Leaf[];
      readonly at: number;
      readonly shape: Shape;
      readonly separator: string;
    };

/** Where one payload stands in its plan. */
class Walk {
  readonly #snapshot: Snapshot;
  readonly #pieces: readonly Piece[];
  #piece = 0;
  #leaf = 0;
  /** Whether an entry of this kind went out: from then on what follows takes a separator. */
  #shown = false;

  constructor(snapshot: Snapshot, pieces: readonly Piece[]) {
    this.#snapshot = snapshot;
    this.#pieces = pieces;
  }

  /** The next step, or undefined after the last. The same one until `advance`. */
  step(): Step | undefined {
    for (let piece = this.#pieces[this.#piece]; piece !== undefined; piece = this.#pieces[this.#piece]) {
      if (typeof piece === 'string') return { text: piece, separator: '' };
      const leaves = this.#snapshot.leavesOf(piece.kind);
      const { shape } = piece;
      if (this.#leaf < leaves.length) {
        return { leaves, at: this.#leaf, shape, separator: this.#shown ? shape.separator : '' };
      }
      this.#nextPiece();
    }
    return undefined;
  }

  /** @param shown - whether the step showed anything */
  advance(shown: boolean): void {
    if (typeof this.#pieces[this.#piece] === 'string') return this.#nextPiece();
    this.#leaf++;
    this.#shown ||= shown;
  }

  #nextPiece(): void {
    this.#piece++;
    this.#leaf = 0;
    this.#shown = false;
  }
}
