import type { Meter } from './leaf.ts';
import type { Snapshot } from './snapshot.ts';

/** A snapshot that is held until it is released, and whose bytes are counted while it is. */
export interface Pin extends Disposable {
  readonly snapshot: Snapshot;
  /** Lets go. Says how many bytes nobody holds any more by that, 0 the second time. */
  release(): number;
}

/**
 * Who holds which snapshot, and what that costs: the bytes of leaves that the newest snapshot no longer has. They are
 * counted once however many pins cover them.
 */
export class Pins {
  /** Written by the leaves. */
  readonly meter: Meter = { pinnedBytes: 0 };
  readonly #counts = new Map<Snapshot, number>();
  readonly #listeners = new Set<{ readonly run: (freedBytes: number) => void }>();

  pin(snapshot: Snapshot): Pin {
    const count = this.#counts.get(snapshot) ?? 0;
    this.#counts.set(snapshot, count + 1);
    // only the first pin of a snapshot walks its leaves: a herd is served from one
    if (count === 0) forEachLeaf(snapshot, 'pin');
    let held = true;
    const release = (): number => {
      if (!held) return 0;
      held = false;
      return this.#release(snapshot);
    };
    return { snapshot, release, [Symbol.dispose]: release };
  }

  /** Tells `run` of every release that gave bytes back. The answer ends it. */
  onFreed(run: (freedBytes: number) => void): () => void {
    const listener = { run };
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #release(snapshot: Snapshot): number {
    const count = this.#counts.get(snapshot)! - 1;
    if (count > 0) {
      this.#counts.set(snapshot, count);
      return 0;
    }
    this.#counts.delete(snapshot);
    const before = this.meter.pinnedBytes;
    forEachLeaf(snapshot, 'unpin');
    const freed = before - this.meter.pinnedBytes;
    if (freed > 0) for (const { run } of Array.from(this.#listeners)) run(freed);
    return freed;
  }
}

function forEachLeaf(snapshot: Snapshot, act: 'pin' | 'unpin'): void {
  for (const { leaves } of snapshot.parts.values()) for (const leaf of leaves) leaf[act]();
}
