import { gunzipSync } from 'node:zlib';
import { EventForwarder, type EventForwarderOptions, type InboundEvents } from '../../src/events/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import type { OutboundReply, OutboundRequest } from '../../src/outbound/index.ts';
import { Changing } from './conditions.ts';

/** What a scripted events service does with a request: answers it, lets it fail, or keeps it waiting. */
export type Answer = number | 'fails' | 'waits';

/** A request that it got. */
export interface SeenPost {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Inflated. */
  readonly text: string;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

/** An events service that answers as it is told, request by request, and 202 when it was told nothing. */
export class ScriptedEvents extends Changing {
  readonly posts: SeenPost[] = [];
  readonly answers: Answer[] = [];
  /** What it does with requests beyond those that it was told of. */
  usual: Answer = 202;
  replyHeaders: Readonly<Record<string, string>> = {};
  /** Requests that are kept waiting. */
  readonly #waiting: (() => void)[] = [];

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Answers what waits. */
  release(): void {
    for (const go of this.#waiting.splice(0)) go();
  }

  async send({ url, headers = {}, body = new Uint8Array(), signal }: OutboundRequest): Promise<OutboundReply> {
    const text = gunzipSync(body).toString();
    const events = JSON.parse(text) as SeenPost['events'];
    this.posts.push({ path: url.pathname, headers, text, events });
    const answer = this.answers.shift() ?? this.usual;
    if (answer === 'waits') {
      await new Promise<void>((resolve, reject) => {
        this.#waiting.push(resolve);
        signal?.addEventListener('abort', () => reject(new Error('aborted')));
        this.changed();
      });
    }
    this.changed();
    if (answer === 'fails') throw new Error('no connection');
    return {
      status: answer === 'waits' ? 202 : answer,
      header: (name) => this.replyHeaders[name],
      body: (async function* () {})(),
      text: () => Promise.resolve(''),
      discard: () => {},
    };
  }

  protected override describe(): string {
    return `${this.posts.length} posts, ${this.#waiting.length} waiting`;
  }
}

/** A forwarder on a clock that stands still, before a scripted events service. */
export function startForwarder(options: Partial<EventForwarderOptions> = {}): {
  clock: FakeClock;
  upstream: ScriptedEvents;
  forwarder: EventForwarder;
} {
  const clock = new FakeClock();
  const upstream = new ScriptedEvents();
  const forwarder = new EventForwarder({
    outbound: upstream,
    uri: 'http://events.test',
    flushIntervalMs: 5000,
    capacity: 1000,
    inlineUsers: false,
    bytesMax: 10_000_000,
    clock,
    random: () => 0,
    ...options,
  });
  return { clock, upstream, forwarder };
}

/** A post of these events; of a server's SDK with the newest schema unless said otherwise. */
export function postOf(events: unknown, more: Partial<InboundEvents> = {}): InboundEvents {
  return {
    environmentId: 'env',
    sdkKey: 'sdk-1',
    audience: 'server',
    what: 'bulk',
    path: '/bulk',
    headers: { 'x-launchdarkly-event-schema': '4' },
    body: Buffer.from(typeof events === 'string' ? events : JSON.stringify(events)),
    ...more,
  };
}

/** The same of an SDK that does not summarize. */
export function oldPostOf(events: unknown, schema = 2, more: Partial<InboundEvents> = {}): InboundEvents {
  return postOf(events, { headers: { 'x-launchdarkly-event-schema': String(schema) }, ...more });
}
