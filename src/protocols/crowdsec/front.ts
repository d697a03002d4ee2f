import type { Exchange } from '../../delivery/index.ts';
import type { Lags } from '../../kernel/index.ts';
import { Callers } from './callers.ts';
import { agentOf, Origins, type Origin } from './client.ts';
import { Commits } from './commits.ts';
import { type Bouncer, certifiedOf } from './credentials.ts';
import type { BouncerKey, FrontOptions } from './deps.ts';
import { cursorEvicted, cursorShared, keyDropped, keyLearned, type Who } from './facts.ts';
import { type KeyAnswer, Keys } from './keys.ts';
import { LookUps } from './look-ups.ts';
import { Passthrough } from './passthrough.ts';
import { Polls } from './polls.ts';
import { type CursorName, Cursors } from './positions.ts';
import { replyForbidden, replyGoodKey, replyJson } from './replies.ts';
import { type FrontStatus, statusOf } from './status.ts';
import { replyNotYet } from './unavailable.ts';
import { UsageMetrics } from './usage-metrics.ts';
import { HEADER, PATH } from './words.ts';

/** One path of this front. Methods other than those named are answered 405. */
export interface Route {
  readonly methods: readonly string[] | '*';
  /** `/*` at the end stands for everything below that no other route answers. */
  readonly path: string;
  readonly handle: (exchange: Exchange) => Promise<void> | void;
}

const READ = ['GET', 'HEAD'];

/** What the local API says for as long as it runs; whether to send bouncers here is asked elsewhere. */
const UP = '{"status":"up"}';

type Answer = (exchange: Exchange, who: Who, origin: Origin) => Promise<void> | void;

/**
 * The decisions front: what CrowdSec's bouncers ask a local API for.
 *
 * It knows a ledger, its views, and upstreams as far as it asks them; it knows neither sockets nor where decisions come from.
 *
 * @example
 * import { Limiter } from 'headgate/admission';
 * import { Deliveries } from 'headgate/delivery';
 *
 * function frontOf({ ledger, views }: Pick<FrontOptions, 'ledger' | 'views'>): DecisionsFront {
 *   return new DecisionsFront({
 *     clock: systemClock, wallNow: () => Date.now(), limiter: Limiter.disabled('copies'), deliveries: new Deliveries(),
 *     guarded: true, parking: false, waitMsMax: 2000, ledger, views, upstreams: [], keys: [], delegate: false,
 *     cursorsPerKeyMax: 64, startWaitMs: 10_000, passthrough: false, trustedProxies: [], bouncersAllowedOu: [],
 *     bodyBytesMax: 65_536,
 *   });
 * }
 */
export class DecisionsFront {
  readonly #options: FrontOptions;
  readonly #origins: Origins;
  readonly #callers = new Callers();
  readonly #keys: Keys;
  readonly #cursors: Cursors;
  readonly #commits: Commits;
  readonly #polls: Polls;
  readonly #lookUps: LookUps;
  readonly #usageMetrics: UsageMetrics;
  readonly #passthrough: Passthrough;
  readonly #idle = new Set<() => void>();
  #underWay = 0;
  #leaving = false;

  /** Throws HG_OPTION for a trusted proxy that is no address and no network. */
  constructor(options: FrontOptions) {
    const { clock, wallNow, random = Math.random, cursorsPerKeyMax, cursors, keyStore } = options;
    this.#options = options;
    this.#origins = new Origins(options.trustedProxies);
    this.#keys = new Keys({
      clock,
      wallNow,
      random,
      configured: options.keys,
      upstreams: options.delegate ? options.upstreams : [],
      ...(keyStore === undefined ? {} : { store: keyStore }),
      waitMsMax: options.startWaitMs,
      onLearned: ({ name }) => keyLearned.publish(() => ({ bouncer: name })),
      onDropped: ({ name }) => keyDropped.publish(() => ({ bouncer: name })),
    });
    const about = ({ id, address }: CursorName): { bouncer: string; remoteAddress: string } => ({
      bouncer: this.#keys.nameOf(id),
      remoteAddress: address,
    });
    this.#cursors = new Cursors({
      clock,
      wallNow,
      ...(cursors === undefined ? {} : { store: cursors }),
      perKeyMax: cursorsPerKeyMax,
      onShared: (name) => cursorShared.publish(() => about(name)),
      onEvicted: (name) => cursorEvicted.publish(() => about(name)),
    });
    this.#commits = new Commits(clock, options.ledger);
    this.#polls = new Polls(options, this.#cursors, this.#commits);
    this.#lookUps = new LookUps(options);
    this.#usageMetrics = new UsageMetrics(options);
    this.#passthrough = new Passthrough(options, this.#origins);
  }

  /** The paths of this front. With `passthrough` everything else under `/v1/` goes on to the first upstream. */
  routes(): readonly Route[] {
    const route = (methods: Route['methods'], path: string, handle: Route['handle']): Route => ({
      methods,
      path,
      handle: (exchange) => this.#counted(handle(exchange)),
    });
    const ours = [
      route(READ, PATH.stream, (exchange) => this.#with(exchange, this.#stream)),
      route(READ, PATH.decisions, (exchange) => this.#with(exchange, (it, who) => this.#lookUps.answer(it, who))),
      route(['POST'], PATH.usageMetrics, (exchange) => this.#answerMetrics(exchange)),
      route(READ, PATH.health, (exchange) => replyJson(exchange, 200, UP)),
    ];
    if (!this.#options.passthrough) return ours;
    return [...ours, route('*', PATH.others, (exchange) => this.#passthrough.answer(exchange))];
  }

  /** Whether there is data, and no stop is under way. */
  get ready(): boolean {
    return this.#options.ledger.ready && !this.#leaving;
  }

  /** Bytes of pages that only deliveries keep alive. */
  get pinnedBytes(): number {
    return this.#options.views.pinnedBytes;
  }

  /** What `/status` says of it. */
  status(): FrontStatus {
    return statusOf(this.#options, this.#keys, this.#cursors);
  }

  /** How many bouncers are known, and how far behind the ledger they are. Looks at each. */
  survey(): { readonly cursors: number; readonly behind: Lags } {
    return { cursors: this.#cursors.size, behind: this.#cursors.lags(this.#options.ledger) };
  }

  /** Takes over the keys that are configured from here on. Keys that an upstream vouches for stay. */
  setKeys(keys: readonly BouncerKey[]): void {
    this.#keys.configure(keys);
  }

  /** From here on new clients should go elsewhere. Those that come all the same are served. */
  leave(): void {
    this.#leaving = true;
  }

  /** Resolves when no request is under way that took more than a look. */
  async idle(): Promise<void> {
    if (this.#underWay > 0) await new Promise<void>((resolve) => this.#idle.add(resolve));
  }

  /** Saves where bouncers stand, and stops its timers. */
  close(): void {
    this.#cursors.close();
    this.#commits.close();
  }

  readonly #stream: Answer = (exchange, who, origin) => {
    if (exchange.method === 'HEAD') return replyGoodKey(exchange);
    return this.#polls.answer(exchange, who, this.#callers.of(exchange, who.bouncer.id, origin));
  };

  /** Who is not known to us as a bouncer may be a log processor: those are the upstream's to judge. */
  #answerMetrics(exchange: Exchange): Promise<void> | void {
    if (exchange.header(HEADER.key) === undefined && this.#options.passthrough) {
      const isProcessor = (exchange.header('user-agent') ?? '').startsWith('crowdsec/');
      if (exchange.header('authorization') !== undefined || isProcessor) return this.#passthrough.answer(exchange);
    }
    return this.#with(exchange, (each, who) => this.#usageMetrics.answer(each, who));
  }

  /** Finds out who asks, or says that nobody may. */
  #with(exchange: Exchange, answer: Answer): Promise<void> | void {
    const origin = this.#origins.of(exchange);
    const known = this.#bouncerOf(exchange, origin.address);
    return known instanceof Promise
      ? this.#withLater(exchange, origin, known, answer)
      : this.#withAnswer(exchange, origin, known, answer);
  }

  async #withLater(exchange: Exchange, origin: Origin, asked: Promise<KeyAnswer>, answer: Answer): Promise<void> {
    const known = await asked;
    if (!exchange.closed) await this.#withAnswer(exchange, origin, known, answer);
  }

  #withAnswer(exchange: Exchange, origin: Origin, known: KeyAnswer, answer: Answer): Promise<void> | void {
    const { address } = origin;
    if (known === 'refused') return replyForbidden(exchange);
    if (known === 'unchecked') {
      const agent = agentOf(exchange.header('user-agent'));
      const fact = { agent, route: exchange.path, remoteAddress: address };
      return replyNotYet(this.#options, exchange, fact, 'key not checked');
    }
    return answer(exchange, { bouncer: known, address }, origin);
  }

  #bouncerOf(exchange: Exchange, address: string): KeyAnswer | Promise<KeyAnswer> {
    const { bouncersAllowedOu } = this.#options;
    const certified: Bouncer | undefined =
      bouncersAllowedOu.length === 0 ? undefined : certifiedOf(exchange.peer, bouncersAllowedOu, address);
    if (certified !== undefined) return certified;
    const key = exchange.header(HEADER.key);
    return key === undefined ? 'refused' : this.#keys.check(key);
  }

  #counted(answering: Promise<void> | void): Promise<void> | void {
    if (!(answering instanceof Promise)) return;
    this.#underWay++;
    return answering.finally(() => {
      this.#underWay--;
      if (this.#underWay > 0) return;
      for (const resolve of this.#idle) resolve();
      this.#idle.clear();
    });
  }
}
