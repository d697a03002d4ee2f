import type { Item } from '../../dataset/index.ts';
import type { Exchange } from '../../delivery/index.ts';
import type { Timer } from '../../kernel/index.ts';
import { clientOf } from './client.ts';
import { ClientSide } from './clientside/client-side.ts';
import type { ClientSideOptions } from './clientside/deps.ts';
import { credentialOf, type EnvironmentInfo } from './credentials.ts';
import type { FrontOptions } from './deps.ts';
import { Directory } from './directory.ts';
import { Environment } from './environment.ts';
import type { Evaluations } from './evaluation/index.ts';
import { EventRoutes, type EventRoutesOptions } from './event-routes.ts';
import { factOf, requested } from './facts.ts';
import { answerItem, Polls } from './polls.ts';
import { replyRefusal } from './replies.ts';
import { environmentStatus, isConnected, isWell, type StatusOptions, statusOf } from './status.ts';
import { Streams } from './streams.ts';
import { ALL_POLL, FLAGS_POLL, OBJECTS_POLL } from './views.ts';
import { KIND_FLAG, KIND_SEGMENT } from './words.ts';

/** One path of this front. Methods other than those named are answered 405. */
export interface Route {
  readonly methods: readonly string[];
  /** `:name` stands for one segment. */
  readonly path: string;
  readonly handle: (exchange: Exchange, params: Readonly<Record<string, string>>) => Promise<void> | void;
}

/** What browsers and phones are served with, as far as the front does not know it. */
interface ClientsOptions extends Pick<ClientSideOptions, 'bodyBytesMax' | 'pingJitterMs' | 'goals'> {
  readonly evaluations: Evaluations;
}

/** What the front is made of. */
export interface FlagsFrontOptions extends FrontOptions {
  /** Absent: flags are not evaluated here, and the routes of browsers and phones are not there. */
  readonly clients?: ClientsOptions;
  /** Absent: the routes of events are not there. */
  readonly events?: Omit<EventRoutesOptions, 'directory'>;
  /** Told of every environment that is no more. */
  readonly onRemoved?: (environmentId: string) => void;
}

/**
 * The flags front: what LaunchDarkly's SDKs ask a relay for, on servers, in browsers and on phones.
 *
 * It knows environments, which a source brings, and answers requests; it knows neither sources nor sockets.
 *
 * @example
 * import { Limiter } from 'headgate/admission';
 * import { Deliveries } from 'headgate/delivery';
 *
 * const front = new FlagsFront({
 *   clock: systemClock, limiter: Limiter.disabled('copies'), deliveries: new Deliveries(), guarded: true, parking: false,
 *   streamWaitMsMax: 10_000, pollWaitMsMax: 1000, aheadWaitMsMax: 5000, disconnectedMs: 60_000, staleAsDegraded: false, heartbeatMs: 180_000, compression: true,
 *   catchUp: 'safe', logBatchesMax: 10_000, logBytesMax: 1e8, onPinnedDropped: () => {},
 * });
 * const environment = { id: 'production', name: 'production', sdkKeys: [{ value: 'sdk-1' }], ttlMs: 0 };
 * await front.load(environment, [{ kind: 'flags', key: 'a', version: 1, text: '{"key":"a","version":1}' }], 'effective');
 * front.environmentsKnown();
 * console.log(front.ready, front.routes().length); // true 8
 * front.remove('production');
 */
export class FlagsFront {
  readonly #options: FlagsFrontOptions;
  readonly #streams: Streams;
  readonly #polls: Polls;
  readonly #directory: Directory;
  readonly #clients: ClientSide | undefined;
  #lookTimer: Timer | undefined;
  #leaving = false;
  /** Whether it is still waited for every environment's first data. */
  #isPatient = true;

  constructor(options: FlagsFrontOptions) {
    this.#options = options;
    this.#streams = new Streams(options);
    this.#polls = new Polls(options);
    this.#directory = new Directory({
      clock: options.clock,
      make: (info) => this.#make(info),
      onRevoked: () => this.endRevoked(),
    });
    const { clients } = options;
    this.#clients = clients && new ClientSide({ ...clients, front: options, directory: this.#directory });
    this.#lookLater();
  }

  /** Which credentials lead to which environment. */
  get directory(): Directory {
    return this.#directory;
  }

  /**
   * From here on the list of environments is known: a key that none of them has is refused, not asked to wait. Not so while it
   * is not certain: the list is an old one, and the key may have been added since.
   */
  environmentsKnown(isCertain = true): void {
    this.#directory.settle(isCertain);
  }

  /** Ends the streams whose key is no longer one of their environment, or has expired. */
  endRevoked(): void {
    for (const environment of this.environments()) {
      environment.endStreams(({ credential }) => !this.#directory.leadsTo(environment, 'server', credential));
    }
    this.#clients?.endRevoked();
  }

  /** Every environment, in the order in which they came. */
  environments(): readonly Environment[] {
    return this.#directory.environments();
  }

  /** Adds an environment, or takes over what changed about it. */
  upsert(info: EnvironmentInfo): Environment {
    return this.#directory.upsert(info);
  }

  /** Adds an environment together with everything that it holds. `versions`: whether a source's versions are to be trusted. */
  async load(
    info: EnvironmentInfo,
    items: Iterable<Item> | AsyncIterable<Item>,
    versions: 'source' | 'effective',
  ): Promise<void> {
    await this.upsert(info).load(items, versions);
  }

  /** Forgets an environment and closes its streams. */
  remove(id: string): void {
    const environment = this.#directory.remove(id);
    if (environment === undefined) return;
    this.#options.clients?.evaluations.detach(id);
    environment.close();
    this.#options.onRemoved?.(id);
  }

  /** From here on new clients should go elsewhere. Those that come all the same are served. */
  leave(): void {
    this.#leaving = true;
  }

  /**
   * Whether new clients should come here: every environment has data, and no stop is under way. Once that was so, or was
   * waited for in vain, some data are enough: an environment that is added, or whose key is refused upstream, must not take
   * every replica away from all the others.
   */
  get ready(): boolean {
    if (!this.#directory.complete || this.#leaving) return false;
    const environments = this.environments();
    if (environments.every(({ data }) => data.ready)) this.#isPatient = false;
    return !this.#isPatient && (environments.length === 0 || environments.some(({ data }) => data.ready));
  }

  /** From here on environments without data keep nobody away from those with data. */
  waitNoLonger(): void {
    this.#isPatient = false;
  }

  /** What `/status` says of the environments, in the vendor's shape. */
  status(): { environments: Record<string, object>; healthy: boolean } {
    return statusOf(this.environments(), this.#directory.complete, this.#statusOptions());
  }

  /** One environment: by its ID or name, or by its project's key and its own; and the filter of its data, if any. */
  statusAt({
    names,
    filter,
  }: {
    names: readonly string[];
    filter: string | undefined;
  }): object | 'unknown' | 'not yet' {
    const [first = '', second] = names;
    const found = this.environments().find(({ info }) => {
      if (info.filterKey !== filter) return false;
      if (second !== undefined) return info.projKey === first && info.envKey === second;
      return info.envId === first || (info.parentId ?? info.id) === first || info.name === first;
    });
    if (found !== undefined) return environmentStatus(found, this.#statusOptions());
    return this.#directory.complete ? 'unknown' : 'not yet';
  }

  /** A stream that was in the middle of a copy when its key went is found by the next look. */
  #lookLater(): void {
    const { clock, credentialLookMs } = this.#options;
    if (credentialLookMs === undefined) return;
    this.#lookTimer = clock.after(credentialLookMs, () => {
      this.endRevoked();
      this.#lookLater();
    });
  }

  /** Whether `/status` calls all of them well. */
  get healthy(): boolean {
    const options = this.#statusOptions();
    return this.#directory.complete && this.environments().every((environment) => isWell(environment, options));
  }

  /** Whether `/status` calls an environment connected. */
  isConnected(environment: Environment): boolean {
    return isConnected(environment, this.#statusOptions());
  }

  #statusOptions(): StatusOptions {
    const { disconnectedMs, staleAsDegraded } = this.#options;
    return { nowMs: Date.now(), disconnectedMs, staleAsDegraded };
  }

  /** A flag as its source has it. */
  flagText(environmentId: string, key: string): string | undefined {
    return this.#directory.get(environmentId)?.data.snapshot().get(KIND_FLAG, key)?.text;
  }

  /** Open streams. */
  get streams(): number {
    const ofServers = this.environments().reduce((sum, { streams }) => sum + streams, 0);
    return ofServers + (this.#clients?.streams ?? 0);
  }

  #make(info: EnvironmentInfo): Environment {
    const environment = new Environment(info, this.#options, {
      refresh: (client) => void this.#streams.refresh(client),
      catchUp: (client, offset) => void this.#streams.follow(client, offset),
    });
    this.#options.clients?.evaluations.attach(info.id, environment.data);
    return environment;
  }

  /** The paths of this front. */
  routes(): readonly Route[] {
    const stream = (path: string, feed: 'all' | 'flags' | 'objects'): Route => ({
      methods: ['GET'],
      path,
      handle: (exchange) => this.#with(exchange, path, (env) => this.#streams.open(exchange, env, env[feed], path)),
    });
    const poll = (path: string, view: typeof ALL_POLL): Route => ({
      methods: ['GET'],
      path,
      handle: (exchange) => this.#with(exchange, path, (env) => this.#polls.answer(exchange, env, view, path)),
    });
    const item = (path: string, kind: string): Route => ({
      methods: ['GET'],
      path: `${path}/:key`,
      handle: (exchange, params) =>
        this.#with(exchange, `${path}/:key`, (env) => answerItem(exchange, env, kind, params['key'] ?? '')),
    });
    return [
      stream('/all', 'all'),
      stream('/flags', 'flags'),
      stream('/sdk/stream', 'objects'),
      poll('/sdk/latest-all', ALL_POLL),
      poll('/sdk/flags', FLAGS_POLL),
      poll('/sdk/poll', OBJECTS_POLL),
      item('/sdk/flags', KIND_FLAG),
      item('/sdk/segments', KIND_SEGMENT),
      ...(this.#clients?.routes() ?? []),
      ...this.#eventRoutes(),
    ];
  }

  #eventRoutes(): readonly Route[] {
    const { events } = this.#options;
    return events === undefined ? [] : new EventRoutes({ ...events, directory: this.#directory }).routes();
  }

  /** Bytes of pages that only deliveries keep alive. */
  get pinnedBytes(): number {
    let bytes = 0;
    for (const { data } of this.environments()) bytes += data.pinnedBytes;
    return bytes;
  }

  /** Forgets every environment: nothing is sent and nothing runs afterwards. */
  close(): void {
    this.#lookTimer?.cancel();
    for (const { info } of this.environments()) this.remove(info.id);
  }

  /** Closes every stream, spread over `overMs` milliseconds. */
  async closeStreams(overMs: number): Promise<void> {
    const ofServers = this.environments().map((environment) => environment.closeStreams(overMs));
    await Promise.all([...ofServers, this.#clients?.closeStreams(overMs)]);
  }

  /** Finds the environment of the credential, or says why there is none. */
  #with(
    exchange: Exchange,
    route: string,
    answer: (environment: Environment) => Promise<void> | void,
  ): Promise<void> | void {
    const credential = credentialOf(exchange.header('authorization'));
    const found = this.#directory.find('server', credential, exchange.query.get('filter') ?? undefined);
    if ('status' in found) return replyRefusal(exchange, found);
    const { environment } = found;
    const { method } = exchange;
    requested.publish(() => Object.assign(factOf(environment, route, clientOf(exchange)), { method }));
    return answer(environment);
  }
}
