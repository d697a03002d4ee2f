import type { Exchange } from '../../../delivery/index.ts';
import type { ClientInfo } from '../client.ts';
import type { Environment } from '../environment.ts';
import { factOf, requested } from '../facts.ts';
import { quirksOf } from '../quirks.ts';
import { replyEmpty } from '../replies.ts';
import { spread } from '../spread.ts';
import { STREAM_HEADERS } from '../words.ts';
import type { ClientRoute, ClientSideOptions } from './deps.ts';
import { type DoorKind, doorOf } from './doors.ts';
import { ClientFeeds } from './feeds.ts';
import { Goals } from './goals.ts';
import type { OpenStream } from './open-stream.ts';
import { EvaluatedPolls } from './polls.ts';
import { type Asked, ContextIntake, type Question, questionOf } from './question.ts';
import { ValueStreams } from './streams.ts';
import { MAP, POLL, type Shape } from './values.ts';

/** A few kilobytes are usual: this is a herd of ten thousand. */
const CONTEXTS_BYTES_MAX = 32 * 1024 * 1024;

type Params = Readonly<Record<string, string>>;
type Answer = (asked: Asked, params: Params) => Promise<void> | void;

/**
 * What browsers and phones ask a relay for: flags evaluated for one context, as a whole, as pings, or as changes.
 *
 * A reply with everything costs an evaluation and is charged as a delivery, behind those of servers; what tells a client
 * that it has everything costs nothing and is never refused.
 */
export class ClientSide {
  readonly #options: ClientSideOptions;
  readonly #polls: EvaluatedPolls;
  readonly #streams: ValueStreams;
  readonly #goals: Goals;
  /** For contexts on their way. */
  readonly #intake = new ContextIntake(CONTEXTS_BYTES_MAX);
  readonly #feeds = new Map<Environment, ClientFeeds>();

  constructor(options: ClientSideOptions) {
    this.#options = options;
    this.#polls = new EvaluatedPolls(options);
    this.#streams = new ValueStreams(options);
    this.#goals = new Goals(options.goals);
  }

  /** The paths of this side. */
  routes(): readonly ClientRoute[] {
    return [
      ...this.#evalx('/sdk/evalx', 'server'),
      ...this.#evalx('/msdk/evalx', 'mobile'),
      ...this.#evalx('/sdk/evalx/:envId', 'env-id'),
      this.#route('env-id', 'GET', '/eval/:envId/:context', (asked, { context }) => this.#pingFor(asked, context)),
      this.#route('env-id', 'REPORT', '/eval/:envId', (asked) => this.#pingFor(asked, undefined)),
      this.#route('env-id', 'GET', '/ping/:envId', (asked) => this.#ping(asked)),
      this.#route('mobile', 'GET', '/meval/:context', (asked, { context }) => this.#pingFor(asked, context)),
      this.#route('mobile', 'REPORT', '/meval', (asked) => this.#pingFor(asked, undefined)),
      this.#route('mobile', 'GET', '/mping', (asked) => this.#ping(asked)),
      ...this.#fdv2('/sdk/poll/eval', (asked, question) => this.#poll(asked, question, POLL)),
      ...this.#fdv2('/sdk/stream/eval', (asked, question) =>
        this.#streams.open(asked, this.#feedsOf(asked.environment), question),
      ),
      this.#route('env-id', 'GET', '/sdk/goals/:envId', (asked) =>
        this.#goals.answer(asked.exchange, asked.credential ?? ''),
      ),
    ];
  }

  /** How many streams are open. */
  get streams(): number {
    let streams = 0;
    for (const feeds of this.#feeds.values()) streams += feeds.size;
    return streams;
  }

  /** Ends the streams of which `isOver` says so, spread over time: their clients come back. */
  endStreams(isOver: (stream: OpenStream) => boolean): void {
    const over = [...this.#feeds.values()].flatMap((feeds) => feeds.streams().filter(isOver));
    spread(this.#options.front.clock, over, (stream) => {
      if (isOver(stream)) this.#feeds.get(stream.environment)?.end(stream);
    });
  }

  /** Ends the streams whose key no longer leads to their environment. */
  endRevoked(): void {
    const { directory } = this.#options;
    this.endStreams(({ environment, audience, credential }) => !directory.leadsTo(environment, audience, credential));
  }

  /** Closes every stream, spread over `overMs` milliseconds. */
  async closeStreams(overMs: number): Promise<void> {
    await Promise.all([...this.#feeds.values()].map((feeds) => feeds.closeStreams(overMs)));
  }

  /** The eight forms of `evalx`, four with every door. */
  #evalx(path: string, door: DoorKind): ClientRoute[] {
    const get: Answer = (asked, { context }) => this.#evaluate(asked, context);
    const report: Answer = (asked) => this.#evaluate(asked, undefined);
    return [
      this.#route(door, 'GET', `${path}/contexts/:context`, get),
      this.#route(door, 'GET', `${path}/users/:context`, get),
      this.#route(door, 'REPORT', `${path}/context`, report),
      this.#route(door, 'REPORT', `${path}/user`, report),
    ];
  }

  #fdv2(path: string, answer: (asked: Asked, question: Question) => Promise<void>): ClientRoute[] {
    const ask = async (asked: Asked, context: string | undefined): Promise<void> => {
      const question = await this.#questionOf(asked, context);
      if (question !== undefined) await answer(asked, question);
    };
    return [
      this.#route('fdv2', ['POST', 'REPORT'], path, (asked) => ask(asked, undefined)),
      this.#route('fdv2', 'GET', `${path}/:context`, (asked, { context }) => ask(asked, context)),
    ];
  }

  /** Everything that comes to a path goes through its door first. */
  #route(door: DoorKind, method: string | readonly string[], path: string, answer: Answer): ClientRoute {
    const methods = typeof method === 'string' ? [method] : method;
    const { directory } = this.#options;
    const at = doorOf(door, methods);
    return {
      methods: at.methods,
      path,
      handle: (exchange, params) => {
        const entered = at.enter(exchange, params, directory);
        if (entered === undefined) return undefined;
        const { environment } = entered;
        const info = clientInfoOf(exchange);
        requested.publish(() => Object.assign(factOf(environment, path, info), { method: exchange.method }));
        return answer({ ...entered, route: path, info }, params);
      },
    };
  }

  /**
   * Whom a request is about. A body takes its time: what is gone by then must not get streams or memory again, and whoever
   * asked is told why when it comes back.
   */
  async #questionOf(asked: Asked, context: string | undefined): Promise<Question | undefined> {
    const question = await questionOf(asked, context, { ...this.#options, intake: this.#intake });
    const { exchange, environment, audience, credential } = asked;
    if (question === undefined || this.#options.directory.leadsTo(environment, audience, credential)) return question;
    replyEmpty(exchange, 503, { 'retry-after': '1' });
    return undefined;
  }

  async #evaluate(asked: Asked, context: string | undefined): Promise<void> {
    const question = await this.#questionOf(asked, context);
    if (question !== undefined) await this.#poll(asked, question, MAP);
  }

  #poll(asked: Asked, question: Question, shape: Shape): Promise<void> {
    return this.#polls.answer(asked, this.#feedsOf(asked.environment), question, shape);
  }

  /** The context says nothing about pings, but whoever may not ask about it is told so here already. */
  async #pingFor(asked: Asked, context: string | undefined): Promise<void> {
    if ((await this.#questionOf(asked, context)) !== undefined) this.#ping(asked);
  }

  #ping({ exchange, environment, audience, credential, route, info }: Asked): void {
    const { pings } = this.#feedsOf(environment);
    const channel = exchange.open(200, STREAM_HEADERS);
    const openedMs = this.#options.front.clock.now();
    pings.add(channel, { environment, audience, credential, route, info, channel, openedMs }, environment.data.ready);
  }

  #feedsOf(environment: Environment): ClientFeeds {
    const known = this.#feeds.get(environment);
    if (known !== undefined) return known;
    const feeds = new ClientFeeds(environment, this.#options, (stream) => this.#streams.follow(feeds, stream));
    this.#feeds.set(environment, feeds);
    environment.accompany({
      survey: (look) => feeds.survey(look),
      close: () => {
        this.#feeds.delete(environment);
        feeds.close();
      },
    });
    return feeds;
  }
}

/** A page cannot set its `User-Agent`: its SDK says who it is in a header of its own. */
function clientInfoOf(exchange: Exchange): ClientInfo {
  const { remoteAddress } = exchange;
  const agent = exchange.header('x-launchdarkly-user-agent') ?? exchange.header('user-agent');
  return { remoteAddress, quirks: quirksOf(agent) };
}
