import type { Change, KeptKey, PendingWrite } from '../dataset/index.ts';
import type { OrderBook, OrderEntry } from './redis-order.ts';

/** What is to be written, as far as the order of digests says. */
export type Plan =
  /** Redis holds this state or a later one, or it cannot be told from here. */
  | { readonly kind: 'nothing' }
  /** We come next. Ours wins over another text of the same version. */
  | { readonly kind: 'advance'; readonly changes: readonly Change[] }
  /** Deletions of what was not there. They are no state of their own. */
  | { readonly kind: 'bury'; readonly changes: readonly Change[] }
  /** We come next, with versions that did not rise and are none of before: everything is replaced, as by the vendor's init. */
  | { readonly kind: 'replace'; readonly changes: readonly Change[] }
  /** The order does not say how our state and that of Redis lie: every version must be looked at. */
  | { readonly kind: 'survey'; readonly changes: readonly Change[] };

interface Step {
  readonly digest: string;
  readonly clock: number;
  readonly at: number;
  /** If it is a known state, it is that one again, and no later one. */
  readonly isOld: boolean;
}

interface Touch {
  readonly change: Change;
  readonly at: number;
}

/** A replica that is without Redis for so many writes is compared item by item when it is back. */
const STEPS_MAX = 10_000;

/**
 * How far this replica has come since its last place in the order.
 *
 * Its states are looked for in the order one after the other. While they are found, Redis holds what it has written
 * and the replica follows. What is left over is ahead of the order or beside it: beside it when replicas take the same
 * changes in other batches. Then the versions of what each side touched since the common place decide, and a replica
 * that is behind writes nothing: it cannot take Redis back.
 */
export class Progress {
  #place: number | undefined;
  #steps: Step[] = [];
  #touched = new Map<string, Touch>();
  #resetAt = 0;
  #at = 0;
  #digest: string | undefined;
  #clock = 0;
  #isPlaced = false;

  get digest(): string | undefined {
    return this.#digest;
  }

  get clock(): number {
    return this.#clock;
  }

  get place(): number | undefined {
    return this.#place;
  }

  /** Whether the present state is the one at the place. */
  get isPlaced(): boolean {
    return this.#isPlaced;
  }

  /** A state that was found in Redis. */
  begin(state: { readonly digest: string; readonly clock: number }, place: number | undefined): void {
    this.#digest = state.digest;
    this.#clock = state.clock;
    this.#place = place;
    this.#isPlaced = place !== undefined;
    this.#touched.clear();
    this.#resetAt = 0;
    this.#steps = place === undefined ? [{ ...state, at: ++this.#at, isOld: true }] : [];
  }

  /**
   * A write.
   *
   * @param isLowered - whether items that are there before and after it have lower versions now
   */
  note(write: PendingWrite, isLowered: boolean): void {
    const at = ++this.#at;
    for (const list of [write.graves, write.changes]) {
      for (const change of list) this.#touched.set(idOf(change), { change, at });
    }
    this.#clock = write.clock;
    if (write.result === 'clock') return;
    this.#digest = write.digest;
    this.#isPlaced = false;
    const isReset = write.result !== 'changed';
    this.#steps.push({ digest: write.digest, clock: write.clock, at, isOld: isLowered || write.result === 'loaded' });
    if (isReset) this.#resetAt = at;
    if (this.#steps.length > STEPS_MAX) this.lose();
  }

  /** Nothing is known of where Redis is. */
  lose(): void {
    this.#place = undefined;
    this.#isPlaced = false;
    if (this.#digest === undefined) return;
    this.#steps = [{ digest: this.#digest, clock: this.#clock, at: this.#at, isOld: true }];
  }

  /** What is to be done now. Follows the order as far as it has our states. */
  plan(book: OrderBook): Plan {
    this.#follow(book);
    const changes = Array.from(this.#touched.values(), ({ change }) => change);
    if (this.#steps.length === 0) {
      return changes.length === 0 ? { kind: 'nothing' } : { kind: 'bury', changes };
    }
    const others = this.#place === undefined ? undefined : book.after(this.#place);
    if (others === undefined) return { kind: 'survey', changes };
    if (others.length === 0) return { kind: this.#resetAt > 0 ? 'replace' : 'advance', changes };
    if (this.#resetAt > 0 || others.some((entry) => entry.isReset)) return { kind: 'survey', changes };
    return this.#compared(others, changes);
  }

  /** What had been noted up to `at` was written, at a place when it got one. */
  settle(at: number, place: number | undefined): void {
    if (place !== undefined) this.#reach(at, place);
    // deletions of what was not there come without a state of their own
    else if (this.#steps.length === 0) this.#forget(at);
  }

  /** The number of the last write. */
  get at(): number {
    return this.#at;
  }

  #follow(book: OrderBook): void {
    if (this.#place === undefined) {
      // without a place of ours the latest is the best guess: see the third rule of the order
      const found = this.#digest === undefined ? undefined : book.latest(this.#digest);
      if (found !== undefined) this.#reach(this.#steps.at(-1)?.at ?? 0, found.place);
      return;
    }
    let reached: { readonly at: number; readonly place: number } | undefined;
    for (const { digest, at, isOld } of this.#steps) {
      // A source that lowers versions to those of a known state is one that lags: it never makes them again. One that only
      // brings items back below their deletions is not: it lagged before, and the deletions were made up of their absence.
      const found = book.next(digest, reached?.place ?? this.#place) ?? (isOld ? book.latest(digest) : undefined);
      if (found !== undefined) reached = { at, place: found.place };
    }
    // once, and not for each: a replica that was cut off has thousands
    if (reached !== undefined) this.#reach(reached.at, reached.place);
  }

  #reach(at: number, place: number): void {
    this.#place = place;
    this.#steps = this.#steps.filter((step) => step.at > at);
    this.#isPlaced = this.#steps.length === 0;
    if (this.#resetAt <= at) this.#resetAt = 0;
    this.#forget(at);
  }

  #forget(at: number): void {
    for (const [id, touch] of this.#touched) if (touch.at <= at) this.#touched.delete(id);
  }

  #compared(others: readonly OrderEntry[], changes: readonly Change[]): Plan {
    const theirs = new Map<string, KeptKey>();
    for (const { keys } of others) for (const key of keys) theirs.set(idOf(key), key);
    const hasMore = changes.some((change) => !theirs.has(idOf(change)));
    let isAbove = false;
    let isBelow = false;
    let hasLess = false;
    for (const [id, { version, deleted }] of theirs) {
      const mine = this.#touched.get(id)?.change;
      // deleted is deleted: one that saw it by an item's absence does not know at which version
      if (mine !== undefined && mine.item === undefined && deleted) continue;
      isAbove ||= mine !== undefined && mine.version > version;
      isBelow ||= mine !== undefined && mine.version < version;
      hasLess ||= mine === undefined;
    }
    // Who is behind in one item is behind: the source's changes come in one order. What seems ahead then is something that
    // others got only the later end of, and writing it would leave in Redis what is not part of its newest state.
    if (isBelow || !(isAbove || hasMore)) return { kind: 'nothing' };
    if (!hasLess) return { kind: 'advance', changes };
    // Who is above is ahead. What we did not touch was made and deleted again before we looked; only its absence tells.
    return isAbove ? { kind: 'survey', changes } : { kind: 'nothing' };
  }
}

function idOf({ kind, key }: { readonly kind: string; readonly key: string }): string {
  return `${kind}\0${key}`;
}
