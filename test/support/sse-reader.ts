import { createGunzip } from 'node:zlib';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { Changing } from './conditions.ts';
import type { Reply } from './connections.ts';

/** The events of a stream, read as a client's program reads them: by a parser that is not ours. */
export class SseReader extends Changing {
  readonly reply: Reply;
  readonly events: EventSourceMessage[] = [];
  comments = 0;
  /** What was read, without compression. */
  bytes = 0;
  /** What a client would send as `Last-Event-ID`. */
  lastEventId: string | undefined;
  #fed = 0;

  constructor(reply: Reply) {
    super();
    this.reply = reply;
    const decoder = new TextDecoder();
    const parser = createParser({
      onEvent: (event) => {
        this.events.push(event);
        this.lastEventId = event.id ?? this.lastEventId;
      },
      onComment: () => {
        this.comments++;
      },
      onError: (error) => {
        throw error;
      },
    });
    const take = (part: Buffer): void => {
      this.bytes += part.length;
      parser.feed(decoder.decode(part, { stream: true }));
    };
    const gunzip = reply.headers['content-encoding'] === 'gzip' ? createGunzip() : undefined;
    gunzip?.on('data', (part: Buffer) => {
      take(part);
      this.changed();
    });
    // what a cut leaves of a compressed stream ends in the middle: what came before it counts
    gunzip?.on('error', () => undefined);
    const feed = (): void => {
      for (; this.#fed < reply.parts.length; this.#fed++) {
        const part = reply.parts[this.#fed] as Buffer;
        if (gunzip === undefined) take(part);
        else gunzip.write(part);
      }
      this.changed();
    };
    reply.onChange(feed);
    feed();
  }

  /** Waits for this many events in all, and answers the last of them. */
  async event(count: number): Promise<EventSourceMessage & { json: unknown }> {
    await this.until(`event ${count}`, () => this.events.length >= count);
    const event = this.events[count - 1] as EventSourceMessage;
    return { ...event, json: JSON.parse(event.data) as unknown };
  }

  /** Names of all events so far. */
  get names(): readonly (string | undefined)[] {
    return this.events.map(({ event }) => event);
  }

  protected override describe(): string {
    const state = this.reply.over ?? 'open';
    return `${this.names.slice(-20).join(' ')} (${this.events.length}), ${this.comments} comments, ${state}`;
  }
}
