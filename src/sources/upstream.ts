import { HeadgateError } from '../kernel/index.ts';
import { urlUnder } from '../outbound/index.ts';
import type { UpstreamMemory } from './upstream-attempt.ts';
import { Connection } from './upstream-connection.ts';
import { Turns } from './upstream-turns.ts';
import type { Upstream, UpstreamError, UpstreamOptions, UpstreamStatus } from './upstream-types.ts';

/**
 * Follows one environment of the vendor's service, or of another relay: FDv2 where it is spoken, else FDv1; by a stream, and by polls
 * while no stream can be had.
 *
 * It speaks the protocol itself, so that items stay the text that upstream sent, members unknown to every SDK included, and FDv2's
 * selector can be kept across a restart. What fails is tried again: after 1 s, and later up to 30 s; after a refused key, 5
 * to 60 minutes.
 *
 * @throws HeadgateError HG_OPTION when an address is no http or https URL, or the key is empty.
 *
 * @example
 * ```ts no-run
 * declare const outbound: UpstreamOptions['outbound'];
 *
 * const upstream = openUpstream({
 *   name: 'production',
 *   streamUri: 'https://stream.example',
 *   baseUri: 'https://sdk.example',
 *   sdkKey: 'sdk-1',
 *   protocol: 'auto',
 *   outbound,
 *   clock: systemClock,
 *   listener: {
 *     async replace(items) { for await (const item of items) console.log(item.kind, item.key, item.version); },
 *     async apply(changes) { console.log(changes.length); },
 *     current() {},
 *     versionOf: () => undefined,
 *     status({ state }) { console.log(state); },
 *   },
 * });
 * await upstream.start();
 * ```
 */
export function openUpstream(options: UpstreamOptions): Upstream {
  urlUnder(options.streamUri, '/');
  urlUnder(options.baseUri, '/');
  checkKey(options.sdkKey);
  return new Follower(options);
}

class Follower implements Upstream {
  readonly #options: UpstreamOptions;
  readonly #memory: UpstreamMemory;
  readonly #turns = new Turns();
  #current: Connection;
  /** The one before, until the current one has delivered. */
  #old: Connection | undefined;
  /** Those that were told to end. */
  readonly #ending = new Set<Promise<void>>();
  #started = false;
  #stopped = false;
  #state: UpstreamStatus['state'] = 'INITIALIZING';
  /** What the current connection said of itself last; undefined: nothing yet. */
  #own: UpstreamStatus['state'] | undefined;
  #sinceMs = 0;
  #lastError: UpstreamError | undefined;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#memory = {
      speaks: options.protocol === 'fdv1' ? 'fdv1' : 'fdv2',
      settled: false,
      state: options.state,
      lastEventId: undefined,
      etag: undefined,
      envId: undefined,
      delivered: false,
    };
    this.#current = this.#connection(options.sdkKey, false);
  }

  get envId(): string | undefined {
    return this.#memory.envId;
  }

  get speaks(): 'fdv1' | 'fdv2' {
    return this.#memory.speaks;
  }

  async start(): Promise<void> {
    if (this.#stopped) return;
    if (!this.#started) {
      this.#started = true;
      this.#sinceMs = Date.now();
      this.#tellStatus();
      this.#current.start();
    }
    await this.#current.attempted;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#end(this.#current);
    if (this.#old !== undefined) this.#end(this.#old);
    await Promise.all(this.#ending);
  }

  reconnect(): void {
    this.#succeed(this.#current.sdkKey, true);
  }

  setKey(sdkKey: string): void {
    checkKey(sdkKey);
    if (sdkKey === this.#current.sdkKey && this.#current.delivers) return;
    this.#succeed(sdkKey, false);
  }

  /** Puts another connection in the place of the current one, which goes on until then if it has anything to tell. */
  #succeed(sdkKey: string, fresh: boolean): void {
    if (this.#stopped) return;
    const before = this.#current;
    this.#own = undefined;
    this.#current = this.#connection(sdkKey, fresh);
    if (!this.#started) return;
    if (before.delivers) {
      // it can only be the one that the last old one was let go for
      before.retire();
      this.#old = before;
    } else this.#end(before);
    this.#current.start();
  }

  #connection(sdkKey: string, fresh: boolean): Connection {
    const connection: Connection = new Connection({
      upstream: this.#options,
      memory: this.#memory,
      sdkKey,
      fresh,
      turns: this.#turns,
      predecessor: () => this.#old?.delivers === true && this.#current === connection,
      delivering: () => this.#letGo(connection),
      status: (state, error) => this.#onStatus(connection, state, error),
      over: () => this.#onOver(connection),
    });
    return connection;
  }

  /** The connection delivers: the one before it may go. */
  #letGo(connection: Connection): void {
    if (connection !== this.#current || this.#old === undefined) return;
    const old = this.#old;
    this.#old = undefined;
    this.#end(old);
  }

  #end(connection: Connection): void {
    const ended = connection.stop();
    this.#ending.add(ended);
    void ended.finally(() => this.#ending.delete(ended));
  }

  #onStatus(connection: Connection, state: UpstreamStatus['state'], error: UpstreamError | undefined): void {
    if (this.#stopped || connection !== this.#current) return;
    this.#own = state;
    // with the one before still there, what is held is as good as it was
    const known = this.#old?.delivers === true ? 'VALID' : state;
    if (known === this.#state && error === undefined) return;
    if (known !== this.#state) this.#sinceMs = Date.now();
    this.#state = known;
    this.#lastError = error ?? this.#lastError;
    this.#tellStatus();
  }

  /** The one before broke by itself: what is held is as good as the current one says. */
  #onOver(connection: Connection): void {
    if (connection !== this.#old) return;
    this.#old = undefined;
    this.#onStatus(this.#current, this.#own ?? 'INTERRUPTED', undefined);
  }

  #tellStatus(): void {
    const lastError = this.#lastError;
    const status = { state: this.#state, sinceMs: this.#sinceMs };
    this.#options.listener.status(lastError === undefined ? status : { ...status, lastError });
  }
}

function checkKey(sdkKey: string): void {
  if (typeof sdkKey === 'string' && /^[\x21-\x7e]+$/.test(sdkKey)) return;
  throw new HeadgateError(
    'HG_OPTION',
    'Cannot follow an upstream: the SDK key must be a text of visible ASCII characters',
  );
}
