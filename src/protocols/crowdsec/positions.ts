import { type Clock, Lags, type Timer } from '../../kernel/index.ts';
import type { Caller } from './callers.ts';
import { Cursor } from './cursor.ts';
import type { SmallStore } from './deps.ts';

/** Whose cursor: a bouncer, where it asks from, and what it asks for. */
export interface CursorName {
  /** Of the bouncer: a digest of its key, or the name in its certificate. */
  readonly id: string;
  readonly address: string;
  /** What its queries may see. */
  readonly meaning: string;
}

/** How cursors are kept. */
export interface CursorsOptions {
  readonly clock: Clock;
  readonly wallNow: () => number;
  /** Absent: they last as long as the process. */
  readonly store?: SmallStore;
  /** How many one bouncer may have. More: the one that was not used for longest goes. */
  readonly perKeyMax: number;
  readonly onShared: (name: CursorName) => void;
  readonly onEvicted: (name: CursorName) => void;
}

/** A bouncer that was away for longer needs everything. */
const UNUSED_MS_MAX = 7 * 86_400_000;
const SWEEP_MS = 3_600_000;
/** One that did not ask for longer is taken to be gone: it is no longer one of those that are behind. */
const HERE_MS = 600_000;

/** Positions are saved together, as they are by then. */
const SAVE_MS = 1000;

/** A cursor that does not move is saved again when its last use is off by this much. */
const USED_STALE_MS = 6 * 3_600_000;

/** A cursor, when it was used, and how it was saved. */
class Entry {
  readonly name: CursorName;
  readonly cursor: Cursor;
  /** Unix time in milliseconds. */
  usedMs: number;
  savedUsedMs = 0;
  savedOffset: number | undefined;
  savedShared = false;
  evicted = false;

  constructor(name: CursorName, cursor: Cursor, usedMs: number) {
    this.name = name;
    this.cursor = cursor;
    this.usedMs = usedMs;
  }
}

/** Where every bouncer stands. Kept in the store, if there is one; what is saved is never ahead of what was received. */
export class Cursors {
  readonly #options: CursorsOptions;
  readonly #byKey = new Map<string, Map<string, Entry>>();
  readonly #unsaved = new Set<Entry>();
  #size = 0;
  #saveTimer: Timer | undefined;
  #sweepTimer: Timer;

  constructor(options: CursorsOptions) {
    this.#options = options;
    this.#restore();
    this.#sweepTimer = options.clock.after(SWEEP_MS, () => this.#sweep());
  }

  get size(): number {
    return this.#size;
  }

  /**
   * How far behind each is that was here lately: one that is gone is remembered, and behind whatever happens. What the ledger
   * cannot answer with a delta misses all there is.
   */
  lags({ offset, reach }: { readonly offset: number; readonly reach: number }): Lags {
    const lags = new Lags();
    const sinceMs = this.#options.wallNow() - HERE_MS;
    for (const cursors of this.#byKey.values()) {
      for (const { cursor, usedMs } of cursors.values()) {
        if (usedMs < sinceMs) continue;
        const at = cursor.oldest;
        const isKnown = at !== undefined && at >= reach && at <= offset;
        lags.add(isKnown ? offset - at : Number.POSITIVE_INFINITY);
      }
    }
    return lags;
  }

  /** Where a request is answered from; undefined: it needs everything. */
  enter(name: CursorName, caller: Caller | undefined): number | undefined {
    const entry = this.#byKey.get(name.id)?.get(placeOf(name));
    if (entry === undefined) return undefined;
    entry.usedMs = this.#options.wallNow();
    if (entry.usedMs - entry.savedUsedMs > USED_STALE_MS) this.#saveSoon(entry);
    return entry.cursor.enter(caller);
  }

  /** A reply that tells everything up to `offset` was received. */
  moved(name: CursorName, caller: Caller | undefined, offset: number): void {
    const entry = this.#byKey.get(name.id)?.get(placeOf(name)) ?? this.#add(name, this.#options.wallNow());
    entry.usedMs = this.#options.wallNow();
    entry.cursor.moved(caller, offset);
  }

  /** Saves what is not saved yet. */
  flush(): void {
    this.#saveTimer?.cancel();
    this.#saveTimer = undefined;
    for (const entry of this.#unsaved) this.#save(entry);
    this.#unsaved.clear();
  }

  close(): void {
    this.flush();
    this.#sweepTimer.cancel();
  }

  #add(name: CursorName, usedMs: number, saved?: { offset: number; shared: boolean }): Entry {
    const { clock, perKeyMax, onShared } = this.#options;
    const cursor = new Cursor(
      {
        now: () => clock.now(),
        shared: () => {
          onShared(name);
          // at once: after a restart it must not be taken for the cursor of whoever comes back first
          this.#save(entry);
        },
        change: () => this.#saveSoon(entry),
      },
      saved,
    );
    const entry = new Entry(name, cursor, usedMs);
    const cursors = this.#byKey.get(name.id) ?? new Map<string, Entry>();
    if (cursors.size >= perKeyMax) this.#evictOldest(cursors);
    this.#byKey.set(name.id, cursors.set(placeOf(name), entry));
    this.#size++;
    return entry;
  }

  #evictOldest(cursors: ReadonlyMap<string, Entry>): void {
    let oldest: Entry | undefined;
    for (const entry of cursors.values()) if (oldest === undefined || entry.usedMs < oldest.usedMs) oldest = entry;
    if (oldest === undefined) return;
    this.#remove(oldest);
    this.#options.onEvicted(oldest.name);
  }

  #remove(entry: Entry): void {
    const { id } = entry.name;
    const cursors = this.#byKey.get(id);
    cursors?.delete(placeOf(entry.name));
    if (cursors?.size === 0) this.#byKey.delete(id);
    entry.evicted = true;
    this.#unsaved.delete(entry);
    this.#size--;
    this.#options.store?.delete(keyOf(entry.name));
  }

  #saveSoon(entry: Entry): void {
    if (this.#options.store === undefined || entry.evicted) return;
    this.#unsaved.add(entry);
    this.#saveTimer ??= this.#options.clock.after(SAVE_MS, () => {
      this.#saveTimer = undefined;
      this.flush();
    });
  }

  #save(entry: Entry): void {
    const { oldest: offset, isShared: shared } = entry.cursor;
    if (offset === undefined) return;
    const isSame = offset === entry.savedOffset && shared === entry.savedShared;
    if (isSame && entry.usedMs - entry.savedUsedMs <= USED_STALE_MS) return;
    entry.savedOffset = offset;
    entry.savedShared = shared;
    entry.savedUsedMs = entry.usedMs;
    const value = JSON.stringify({ offset, usedMs: entry.usedMs, shared });
    this.#options.store?.set(keyOf(entry.name), Buffer.from(value));
  }

  #restore(): void {
    const { store, wallNow } = this.#options;
    if (store === undefined) return;
    const nowMs = wallNow();
    const useless: string[] = [];
    for (const [key, value] of store.entries()) {
      const name = nameOf(key);
      const saved = savedOf(value);
      if (name === undefined || saved === undefined || nowMs - saved.usedMs > UNUSED_MS_MAX) {
        useless.push(key);
        continue;
      }
      const entry = this.#add(name, saved.usedMs, saved);
      entry.savedOffset = saved.offset;
      entry.savedShared = saved.shared;
      entry.savedUsedMs = saved.usedMs;
    }
    for (const key of useless) store.delete(key);
  }

  #sweep(): void {
    this.#sweepTimer = this.#options.clock.after(SWEEP_MS, () => this.#sweep());
    const beforeMs = this.#options.wallNow() - UNUSED_MS_MAX;
    for (const cursors of this.#byKey.values()) {
      for (const entry of cursors.values()) if (entry.usedMs < beforeMs) this.#remove(entry);
    }
  }
}

function placeOf({ address, meaning }: CursorName): string {
  return `${address} ${meaning}`;
}

/** The name as a key of the store: readable, and parts are told apart by their first spaces, which neither has. */
function keyOf(name: CursorName): string {
  return `${name.id} ${placeOf(name)}`;
}

function nameOf(key: string): CursorName | undefined {
  const match = /^(\S+) (\S+) (.*)$/s.exec(key);
  return match === null ? undefined : { id: match[1] ?? '', address: match[2] ?? '', meaning: match[3] ?? '' };
}

function savedOf(value: Uint8Array): { offset: number; usedMs: number; shared: boolean } | undefined {
  try {
    const { offset, usedMs, shared } = JSON.parse(Buffer.from(value).toString()) as Record<string, unknown>;
    if (!Number.isSafeInteger(offset) || typeof usedMs !== 'number') return undefined;
    return { offset: offset as number, usedMs, shared: shared === true };
  } catch {
    // written by something else: the bouncer gets everything
    return undefined;
  }
}
