import type { Change, Item } from '../dataset/index.ts';
import type { UpstreamSink } from './upstream-sink.ts';

/** How much may wait for the `apply` that is under way: then the reader waits, and upstream with it. */
const CHANGES_MAX = 10_000;
const BYTES_MAX = 32 * 1024 * 1024;
/** What a change weighs besides its text and key. */
const CHANGE_BYTES = 200;

/** How much a {@link Gathering} holds. */
export interface GatheringLimits {
  readonly changesMax: number;
  readonly bytesMax: number;
}

/** Changes that one call is to take. */
interface Gathered {
  /** By kind and key, in the order of the last word on each. */
  readonly changes: Map<string, Change>;
  bytes: number;
  /** Whether each is dropped unless its version rises. */
  isRising: boolean;
  state: string | undefined;
  /** Run once it was taken. */
  readonly marks: (() => void)[];
}

/**
 * Between the reader of one connection and what it tells: changes that come while an `apply` is under way are told together by the
 * next one, so that a listener that is slow, because it keeps each write before it tells of it, is not left behind without bound.
 *
 * Each call that gathers is whole in the call that tells it, so payloads are never cut, and `state` is the last payload's. Full
 * copies keep their place: they wait for what came before, and what comes after waits for them.
 *
 * Calls but {@link settled} must not overlap. When a change could not be told nothing after it is: `onFailure` is called once, and
 * every call then throws what went wrong.
 */
export class Gathering implements UpstreamSink {
  readonly #sink: UpstreamSink;
  readonly #onFailure: () => void;
  readonly #limits: GatheringLimits;
  /** What is told next. */
  #next: Gathered | undefined;
  #underWay: Gathered | undefined;
  /** Resolves when nothing is under way; undefined: nothing is. */
  #telling: Promise<void> | undefined;
  #failure: { readonly thrown: unknown } | undefined;
  /** Tells who waits that there is room again. */
  #onRoom: () => void = () => {};

  constructor(
    sink: UpstreamSink,
    onFailure: () => void,
    limits: GatheringLimits = { changesMax: CHANGES_MAX, bytesMax: BYTES_MAX },
  ) {
    this.#sink = sink;
    this.#onFailure = onFailure;
    this.#limits = limits;
  }

  /** Resolves when they were taken. */
  async replace(items: AsyncIterable<Item>, state: string | undefined): Promise<void> {
    await this.settled();
    await this.#sink.replace(items, state);
  }

  /** Resolves when there is room for more, not when they were taken: see {@link mark}. */
  async apply(changes: readonly Change[], state: string | undefined): Promise<void> {
    await this.#room(changes);
    const gathered = this.#gather();
    for (const change of changes) put(gathered, change);
    gathered.state = state;
    this.#tell();
  }

  /** Resolves as {@link apply} does. */
  async applyRising(changes: readonly Change[]): Promise<void> {
    await this.#room(changes);
    const gathered = this.#gather();
    gathered.isRising = true;
    for (const change of changes) {
      // what waits here is newer than what is held, or will turn out not to be, with this one
      const waits = gathered.changes.get(nameOf(change));
      if (waits === undefined || change.version > waits.version) put(gathered, change);
    }
    this.#tell();
  }

  async current(): Promise<void> {
    await this.settled();
    await this.#sink.current();
  }

  /** Runs `run` once all that was put here was taken; never when some of it could not be. */
  mark(run: () => void): void {
    const last = this.#next ?? this.#underWay;
    if (last !== undefined) last.marks.push(run);
    else if (this.#failure === undefined) run();
  }

  /** Resolves when all that was put here was taken; throws what kept it from that. */
  async settled(): Promise<void> {
    await this.#telling;
    this.#check();
  }

  /** Resolves when there is room for these changes. */
  async #room(changes: readonly Change[]): Promise<void> {
    while (this.#next !== undefined && this.#isFull(this.#next, changes)) {
      await new Promise<void>((resolve) => (this.#onRoom = resolve));
    }
  }

  /** Where changes are gathered in this turn: an await later it may be under way. */
  #gather(): Gathered {
    this.#check();
    this.#next ??= { changes: new Map(), bytes: 0, isRising: false, state: undefined, marks: [] };
    return this.#next;
  }

  /** One call's changes always have room where nothing waits. */
  #isFull({ changes: waiting, bytes }: Gathered, more: readonly Change[]): boolean {
    const { changesMax, bytesMax } = this.#limits;
    if (waiting.size + more.length > changesMax) return true;
    return more.reduce((sum, change) => sum + bytesOf(change), bytes) > bytesMax;
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure.thrown;
  }

  #tell(): void {
    this.#telling ??= this.#tellAll();
  }

  async #tellAll(): Promise<void> {
    try {
      for (let gathered = this.#take(); gathered !== undefined; gathered = this.#take()) {
        const changes = [...gathered.changes.values()];
        if (gathered.isRising) await this.#sink.applyRising(changes);
        else await this.#sink.apply(changes, gathered.state);
        // before anything newer is told: what they do belongs to this
        for (const run of gathered.marks) run();
      }
    } catch (thrown) {
      this.#failure = { thrown };
      this.#next = undefined;
      this.#underWay = undefined;
      this.#onRoom();
      this.#onFailure();
    } finally {
      this.#telling = undefined;
    }
  }

  #take(): Gathered | undefined {
    this.#underWay = this.#next;
    this.#next = undefined;
    this.#onRoom();
    return this.#underWay;
  }
}

/** The last word on an item also has the last place. */
function put(gathered: Gathered, change: Change): void {
  const name = nameOf(change);
  const before = gathered.changes.get(name);
  if (before !== undefined) gathered.bytes -= bytesOf(before);
  gathered.changes.delete(name);
  gathered.changes.set(name, change);
  gathered.bytes += bytesOf(change);
}

function nameOf({ kind, key }: Change): string {
  return `${kind}/${key}`;
}

function bytesOf({ key, item }: Change): number {
  return CHANGE_BYTES + key.length + (item === undefined ? 0 : Buffer.byteLength(item.text));
}
