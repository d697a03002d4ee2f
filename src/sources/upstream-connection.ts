import type { Change, Item } from '../dataset/index.ts';
import { HeadgateError } from '../kernel/index.ts';
import { Backoff } from '../outbound/index.ts';
import { Attempt, OtherProtocol, type UpstreamMemory } from './upstream-attempt.ts';
import { coded, errorOf, StatusError } from './upstream-failure.ts';
import type { UpstreamSink } from './upstream-sink.ts';
import type { Turns } from './upstream-turns.ts';
import type { UpstreamError, UpstreamOptions, UpstreamStatus } from './upstream-types.ts';

/** How long the stream may be away before polls stand in for it. */
const STREAM_AWAY_MS_MAX = 2 * 60_000;
/** Between two polls: what the vendor's SDKs leave as a minimum. */
const POLL_INTERVAL_MS = 30_000;
/** How long another connection may be kept from telling what changed: as long as an answer may take to begin. */
const TURN_MS_MAX = 30_000;
/** A key that is refused is seldom known a second later, and a fleet of relays with wrong keys must not weigh on anybody. */
const REFUSED_MS = { firstMs: 5 * 60_000, maxMs: 60 * 60_000 };

/** What a {@link Connection} needs. */
export interface ConnectionOptions {
  readonly upstream: UpstreamOptions;
  readonly memory: UpstreamMemory;
  readonly sdkKey: string;
  /** Whether everything is asked for at first, whatever is held. */
  readonly fresh: boolean;
  readonly turns: Turns;
  /** Whether another connection goes on until this one has delivered: it must not tell anything that we then take back. */
  readonly predecessor: () => boolean;
  /** It delivers: whatever came before may go. */
  readonly delivering: () => void;
  readonly status: (state: UpstreamStatus['state'], error: UpstreamError | undefined) => void;
  /** Its stream is over and it does not connect again. */
  readonly over: () => void;
}

/** Follows an environment with one key: connects, tells, waits, connects again. */
export class Connection implements UpstreamSink {
  readonly sdkKey: string;
  readonly #options: ConnectionOptions;
  readonly #backoff: Backoff;
  readonly #refusals: Backoff;
  readonly #stopping = new AbortController();
  #fresh: boolean;
  #stopped = false;
  /** It is not to connect again. */
  #retired = false;
  /** When the stream that is open began to deliver; undefined while there is none. */
  #deliveringSinceMs: number | undefined;
  #awaySinceMs: number;
  #polledMs: number = Number.NEGATIVE_INFINITY;
  /** Polls stand in for the stream. */
  #polling = false;
  /** Ends our turn while we have it from before the request to the first delivery. */
  #endTurn: (() => void) | undefined;
  #attempted: () => void = () => {};
  readonly attempted: Promise<void>;
  #over: Promise<void> = Promise.resolve();

  constructor(options: ConnectionOptions) {
    const { random, clock } = options.upstream;
    const chance = random === undefined ? {} : { random };
    this.#options = options;
    this.sdkKey = options.sdkKey;
    this.#fresh = options.fresh;
    this.#backoff = new Backoff(chance);
    this.#refusals = new Backoff({ ...REFUSED_MS, healthyMs: Number.POSITIVE_INFINITY, ...chance });
    this.#awaySinceMs = clock.now();
    this.attempted = new Promise((resolve) => {
      this.#attempted = resolve;
    });
  }

  /** Whether its stream is open and has told everything. */
  get delivers(): boolean {
    return this.#deliveringSinceMs !== undefined;
  }

  start(): void {
    this.#over = this.#run();
  }

  /** Lets it go on, but not connect again. */
  retire(): void {
    this.#retired = true;
  }

  /** Ends it. Nothing is told any more once the promise has resolved. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stopping.abort();
    await this.#over;
  }

  async replace(items: AsyncIterable<Item>, state: string | undefined): Promise<void> {
    await this.#tell(async ({ listener }, memory) => {
      let failure: unknown;
      const watched = this.#watched(items, (thrown) => {
        failure = thrown;
      });
      try {
        await listener.replace(watched, state);
      } catch (thrown) {
        // why the items ended says more than what the listener made of it
        throw failure ?? thrown;
      }
      if (failure !== undefined) throw coded(this.#name, failure);
      memory.state = state;
    });
  }

  async apply(changes: readonly Change[], state: string | undefined): Promise<void> {
    await this.#tell(async ({ listener }, memory) => {
      await listener.apply(changes, state);
      memory.state = state;
    });
  }

  async applyRising(changes: readonly Change[]): Promise<void> {
    await this.#tell(async ({ listener }) => {
      const rising = changes.filter(({ kind, key, version }) => {
        const held = listener.versionOf(kind, key);
        return held === undefined || version > held;
      });
      if (rising.length > 0) await listener.apply(rising, undefined);
    });
  }

  async current(): Promise<void> {
    await this.#tell(({ listener }, memory) => {
      listener.current(memory.state);
      return Promise.resolve();
    });
  }

  /** Tells the listener something, in our turn. */
  async #tell(tell: (upstream: UpstreamOptions, memory: UpstreamMemory) => Promise<void>): Promise<void> {
    const endTurn = this.#endTurn === undefined ? await this.#options.turns.take() : undefined;
    try {
      // the turn may have been long in coming
      if (this.#stopped) throw new Error('it was stopped');
      await tell(this.#options.upstream, this.#options.memory);
    } finally {
      endTurn?.();
    }
  }

  async *#watched(
    items: AsyncIterable<Item>,
    failed: (thrown: unknown) => void,
  ): AsyncGenerator<Item, void, undefined> {
    try {
      for await (const item of items) {
        if (this.#stopped) throw new HeadgateError('HG_UPSTREAM', `Cannot follow ${this.#name}: it was stopped`);
        yield item;
      }
    } catch (thrown) {
      failed(thrown);
      throw thrown;
    }
  }

  get #name(): string {
    return this.#options.upstream.name;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const waitMs = await this.#once();
      if (waitMs > 0) this.#attempted();
      if (this.#retired || this.#stopped) break;
      if (waitMs > 0) await this.#wait(waitMs);
    }
    this.#attempted();
    this.#options.over();
  }

  /** One stream, and a poll if it has been away for long. Answers how long to wait before the next; 0: not at all. */
  async #once(): Promise<number> {
    try {
      await this.#withTurn((signal) => this.#attempt(signal, () => this.#streamDelivers()).stream());
      return 0;
    } catch (thrown) {
      const endedMs = this.#ended();
      if (this.#stopped) return 0;
      if (thrown instanceof OtherProtocol && this.#change(thrown)) return 0;
      const waitMs = this.#failed(thrown, endedMs);
      await this.#poll(thrown);
      return waitMs;
    }
  }

  #attempt(signal: AbortSignal, delivered: () => void): Attempt {
    const { upstream, memory, sdkKey } = this.#options;
    return new Attempt({ upstream, memory, sdkKey, fresh: this.#fresh, sink: this, signal, delivered });
  }

  /**
   * While another connection goes on, our turn begins before the request and ends with the first delivery: whatever the other has told
   * by then is in what upstream answers, so nothing that clients were told is taken back. The other must not wait for ever: an
   * upstream that answers and then says nothing is given up.
   */
  async #withTurn(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (!this.#options.predecessor()) {
      if (!this.#stopped) await run(this.#stopping.signal);
      return;
    }
    const endTurn = await this.#options.turns.take();
    const giveUp = new AbortController();
    const stop = (): void => giveUp.abort();
    const timer = this.#options.upstream.clock.after(TURN_MS_MAX, stop);
    this.#stopping.signal.addEventListener('abort', stop, { once: true });
    this.#endTurn = () => {
      timer.cancel();
      endTurn();
    };
    try {
      if (!this.#stopped) await run(giveUp.signal);
    } finally {
      this.#turnEnds();
      this.#stopping.signal.removeEventListener('abort', stop);
    }
  }

  #turnEnds(): void {
    this.#endTurn?.();
    this.#endTurn = undefined;
  }

  #streamDelivers(): void {
    const { upstream, memory, delivering, status } = this.#options;
    if (this.delivers) return;
    this.#deliveringSinceMs = upstream.clock.now();
    this.#fresh = false;
    this.#polling = false;
    this.#refusals.reset();
    memory.delivered = true;
    delivering();
    this.#turnEnds();
    status('VALID', undefined);
    this.#attempted();
  }

  /** The stream is over. Answers for how long it had been well. */
  #ended(): number {
    const nowMs = this.#options.upstream.clock.now();
    const sinceMs = this.#deliveringSinceMs;
    this.#deliveringSinceMs = undefined;
    if (sinceMs === undefined) return 0;
    this.#awaySinceMs = nowMs;
    return nowMs - sinceMs;
  }

  /** Turns to the other protocol; false when both were tried in vain. */
  #change({ certain }: OtherProtocol): boolean {
    const { memory } = this.#options;
    const wasFdv2 = memory.speaks === 'fdv2';
    memory.speaks = wasFdv2 ? 'fdv1' : 'fdv2';
    memory.settled = certain;
    // it names what is held to one protocol only
    memory.lastEventId = undefined;
    return wasFdv2;
  }

  /** Says what went wrong. Answers how long to wait. */
  #failed(cause: unknown, endedMs: number): number {
    const { upstream, memory, status } = this.#options;
    const thrown = cause instanceof OtherProtocol ? cause.failure : cause;
    const refused = refusalOf(thrown);
    if (refused !== undefined) upstream.listener.refused?.(refused);
    else upstream.listener.failed?.(coded(this.#name, thrown));
    if (this.#retired) return 0;
    const without = memory.delivered ? 'INTERRUPTED' : 'INITIALIZING';
    const stands = this.#polling && refused === undefined ? 'VALID' : without;
    status(refused === undefined ? stands : 'OFF', errorOf(thrown));
    this.#backoff.healthyFor(endedMs);
    return refused === undefined ? this.#backoff.failed() : this.#refusals.failed();
  }

  /** Asks by a poll, when the stream has been away for long. */
  async #poll(cause: unknown): Promise<void> {
    const nowMs = this.#options.upstream.clock.now();
    if (refusalOf(cause) !== undefined || this.#retired || this.#stopped) return;
    if (nowMs - this.#awaySinceMs < STREAM_AWAY_MS_MAX || nowMs - this.#polledMs < POLL_INTERVAL_MS) return;
    this.#polledMs = nowMs;
    try {
      await this.#withTurn((signal) => this.#attempt(signal, () => this.#pollDelivers()).poll());
    } catch (thrown) {
      this.#polling = false;
      if (!this.#stopped) this.#failed(thrown, 0);
    }
  }

  #pollDelivers(): void {
    const { memory, delivering, status } = this.#options;
    this.#fresh = false;
    this.#polling = true;
    memory.delivered = true;
    delivering();
    this.#turnEnds();
    status('VALID', undefined);
  }

  async #wait(ms: number): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const stop = (): void => {
        timer.cancel();
        resolve();
      };
      const timer = this.#options.upstream.clock.after(ms, () => {
        // an attempt a minute for a year must not leave a listener each
        signal.removeEventListener('abort', stop);
        resolve();
      });
      signal.addEventListener('abort', stop, { once: true });
    });
  }
}

/** The status when the key is what is wrong. */
function refusalOf(thrown: unknown): number | undefined {
  return thrown instanceof StatusError && thrown.isRefusal ? thrown.status : undefined;
}
