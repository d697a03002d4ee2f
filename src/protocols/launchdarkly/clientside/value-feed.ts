import { type Block, blockOf, type Channel, encodeEvent, LiveGroup, type LiveLog } from '../../../delivery/index.ts';
import type { FrontOptions } from '../deps.ts';
import { EVENT } from '../words.ts';
import type { Fingerprints } from './fingerprints.ts';
import type { OpenStream } from './open-stream.ts';
import type { Question } from './question.ts';
import type { Turns } from './turns.ts';

/** A stream of evaluated values: a cursor in the log of its environment, and what it was sent in eight bytes a flag. */
export interface ValueStream extends OpenStream {
  readonly question: Question;
  readonly prints: Fingerprints;
  /** It was sent everything that changes before this offset changed for it. -1: nothing yet. */
  cursor: number;
  /** What was known of big segments when it was sent its values. */
  revision: string;
  /** Whether somebody is bringing it up to date. */
  running: boolean;
  /** Whether nothing is being sent to it: it has heartbeats and an age. */
  resting: boolean;
  /** Ended, or to be ended as soon as what is under way is sent. */
  over: boolean;
}

const NO_BYTES = new Uint8Array(0);
const NOTHING_TO_SAY: LiveLog = { first: 0, next: 0, block: () => undefined };
const GOODBYE: Block = blockOf(encodeEvent({ event: EVENT.goodbye, data: '{"reason":"restarting","silent":true}' }));

/**
 * The streams of evaluated values of one environment.
 *
 * ```
 *   change ─► wake: every stream that is behind gets in line, once
 *               │
 *             turns ─► evaluate for this context ─► send ─► behind again? in line again
 * ```
 *
 * What nobody sends to has heartbeats and an age, and is ended in good order; while something is sent it has neither.
 */
export class ValueFeed {
  /** In line for an evaluation. */
  readonly turns: Turns;
  readonly #follow: (stream: ValueStream) => void;
  readonly #group: LiveGroup<ValueStream>;
  readonly #all = new Map<Channel, ValueStream>();

  constructor(front: FrontOptions, turns: Turns, follow: (stream: ValueStream) => void) {
    this.turns = turns;
    this.#follow = follow;
    this.#group = new LiveGroup<ValueStream>({
      log: NOTHING_TO_SAY,
      clock: front.clock,
      heartbeatMs: front.heartbeatMs,
      ...(front.connectionMsMax === undefined ? {} : { clientMsMax: front.connectionMsMax }),
      // whoever is evaluating for it finds out: what is written behind the end would turn it into a reset
      closing: ({ value }) => {
        value.over = true;
        return NO_BYTES;
      },
    });
  }

  get size(): number {
    return this.#all.size;
  }

  streams(): ValueStream[] {
    return [...this.#all.values()];
  }

  /** A stream that has just been opened. */
  opened(stream: ValueStream): void {
    this.#all.set(stream.channel, stream);
    stream.channel.onClose(() => {
      this.#all.delete(stream.channel);
      stream.prints.release();
    });
  }

  /** Nothing is being sent to it: from here on it is kept alive, or ended if it is over. */
  rest(stream: ValueStream): void {
    if (stream.channel.dead) return;
    stream.resting = true;
    this.#group.add(stream.channel, 0, stream, stream.openedMs);
    if (stream.over) this.#group.close(stream.channel);
  }

  /** Something is about to be sent to it. False: it has been ended, and nothing may follow. */
  take(stream: ValueStream): boolean {
    if (stream.over) {
      // told to end while nothing kept it: between its head and its first data, say
      if (!stream.resting) this.rest(stream);
      return false;
    }
    this.#group.remove(stream.channel);
    stream.resting = false;
    return true;
  }

  /** The data are others. */
  wake(): void {
    for (const stream of this.#all.values()) this.#follow(stream);
  }

  /** Ends a stream in good order, after what is being sent to it. Does nothing when it is none of these. */
  end({ channel }: OpenStream): void {
    const stream = this.#all.get(channel);
    if (stream !== undefined) stream.over = true;
    this.#group.close(channel);
  }

  async close(overMs: number): Promise<void> {
    await this.#group.closeAll({ overMs, last: GOODBYE });
  }
}
