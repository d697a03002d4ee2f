import { Changing } from './conditions.ts';
import { connect, type Connection, type Reply } from './connections.ts';
import { Fdv1Client, Fdv2Client } from './flags-model.ts';
import { SseReader } from './sse-reader.ts';

export interface RelayClientOptions {
  readonly key: string;
  readonly protocol: 'fdv1' | 'fdv2';
  readonly filter?: string;
}

/** Of each protocol one that takes a catch-up when it comes back. */
const USER_AGENT = { fdv1: 'NodeJSClient/9.13.7', fdv2: 'GoClient/7.14.6' } as const;

/**
 * A server SDK, written by hand: it keeps what it holds over its connections, comes back by `Last-Event-ID` when its stream ends, and
 * notes what no SDK should ever see.
 */
export class RelayClient extends Changing {
  readonly model: Fdv1Client | Fdv2Client;
  readonly options: RelayClientOptions;
  /** Statuses of the answers that were no stream. */
  readonly refusals: number[] = [];
  /** How often a stream of it ended, when the first one did (Unix time in milliseconds), and how often one was cut. */
  ended = 0;
  endedMs: number | undefined;
  cut = 0;
  opened = 0;
  #key: string;
  #connect: () => Connection;
  #connection: Connection | undefined;
  #reader: SseReader | undefined;
  #lastEventId: string | undefined;
  #earlierComments = 0;
  /** Whether it opens another stream when one ends. */
  #returns = true;

  constructor(connection: () => Connection, options: RelayClientOptions) {
    super();
    this.#connect = connection;
    this.options = options;
    this.#key = options.key;
    this.model = options.protocol === 'fdv2' ? new Fdv2Client() : new Fdv1Client();
    this.open();
  }

  get comments(): number {
    return this.#earlierComments + (this.#reader?.comments ?? 0);
  }

  get isOpen(): boolean {
    return this.#reader !== undefined && this.#reader.reply.over === undefined;
  }

  /** What the next stream will be opened with. */
  set key(key: string) {
    this.#key = key;
  }

  /** Its next stream is another relay's. */
  moveTo(port: number): void {
    this.#connect = () => connect('http1', port);
  }

  /** Its stream may end for good. */
  letEnd(): void {
    this.#returns = false;
  }

  /** The version of a flag that it holds; undefined: it holds none. */
  version(key: string): number | undefined {
    const text = this.model.contents.get(`flags/${key}`);
    return text === undefined ? undefined : (JSON.parse(text) as { version: number }).version;
  }

  /** Waits until it holds a flag in this version; undefined: until it holds none. */
  async holds(key: string, version: number | undefined): Promise<void> {
    await this.until(`version ${version} of ${key}`, () => this.model.ready && this.version(key) === version);
  }

  /** Opens a stream, whatever came of the one before. */
  open(): void {
    this.leave();
    const { protocol, filter } = this.options;
    const connection = this.#connect();
    this.#connection = connection;
    const named = this.#lastEventId === undefined ? {} : { 'last-event-id': this.#lastEventId };
    const query = filter === undefined ? '' : `?filter=${filter}`;
    const reply = connection.ask({
      path: `${protocol === 'fdv2' ? '/sdk/stream' : '/all'}${query}`,
      headers: { host: 'relay', 'user-agent': USER_AGENT[protocol], authorization: this.#key, ...named },
    });
    void reply.begun().then(() => {
      if (connection === this.#connection) this.#began(reply);
    });
  }

  leave(): void {
    this.#connection?.leave();
    this.#connection = undefined;
    this.#earlierComments = this.comments;
    this.#reader = undefined;
    if (this.model instanceof Fdv2Client) this.model.reconnect();
  }

  protected override describe(): string {
    const { fulls, ready, violations, contents } = this.model;
    const state = JSON.stringify({ key: this.#key, ready, fulls, violations, held: contents.size });
    return `${state}, opened ${this.opened}, refused ${this.refusals.join(' ')}, ended ${this.ended}, cut ${this.cut}`;
  }

  #began(reply: Reply): void {
    if (reply.status !== 200) {
      this.refusals.push(reply.status);
      this.changed();
      return;
    }
    this.opened++;
    const reader = new SseReader(reply);
    this.#reader = reader;
    let taken = 0;
    const take = (): void => {
      for (; taken < reader.events.length; taken++) {
        const seen = this.model.violations.length;
        this.model.take(reader.events[taken]!);
        // a catch-up of the first protocol may begin with an item that the client has
        if (taken === 0 && this.#lastEventId !== undefined) this.model.violations.length = seen;
      }
      this.#lastEventId = reader.lastEventId ?? this.#lastEventId;
      this.changed();
      if (reply.over !== undefined && this.#reader === reader) this.#over(reply.over);
    };
    reader.onChange(take);
    take();
  }

  #over(how: 'whole' | 'cut'): void {
    if (how === 'whole') this.ended++;
    else this.cut++;
    this.endedMs ??= Date.now();
    this.leave();
    this.changed();
    if (this.#returns) this.open();
  }
}
