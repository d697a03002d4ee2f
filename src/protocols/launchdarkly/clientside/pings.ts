import { type Block, type Channel, blockOf, LiveGroup, type LiveLog } from '../../../delivery/index.ts';
import type { Timer } from '../../../kernel/index.ts';
import type { FrontOptions } from '../deps.ts';
import type { Survey } from '../environment.ts';
import { taken } from '../facts.ts';
import type { OpenStream } from './open-stream.ts';

/** As the vendor's relay writes it: one space as data. Browsers need some data, or no event is told to the page. */
const PING: Block = blockOf('event: ping\ndata:  \n\n');
const NOTHING: Block = blockOf('');

/** Into so many parts the streams are divided whose pings are spread over time. */
const PARTS = 32;

/** The changes so far, as pings: whoever missed several needs one. */
class PingLog implements LiveLog {
  readonly first = 0;
  next = 0;

  block(offset: number): Block {
    return offset === this.next - 1 ? PING : NOTHING;
  }
}

interface PingPart {
  readonly log: PingLog;
  readonly group: LiveGroup<OpenStream>;
  readonly delayMs: number;
  timer: Timer | undefined;
  /** When the change was that its next ping is for. */
  changedAtMs: number;
}

/**
 * Streams that are told that something changed, and ask what it is. All of them ask at once, and each costs an evaluation:
 * with a jitter the pings of one change go out part by part, and changes that come meanwhile are told with them.
 */
export class PingFeed {
  readonly #clock: FrontOptions['clock'];
  readonly #parts: readonly PingPart[];
  #added = 0;

  constructor(front: FrontOptions, jitterMs: number) {
    this.#clock = front.clock;
    const count = jitterMs > 0 ? PARTS : 1;
    this.#parts = Array.from({ length: count }, (_, at) => {
      const log = new PingLog();
      const group = new LiveGroup<OpenStream>({
        log,
        clock: front.clock,
        heartbeatMs: front.heartbeatMs,
        taken,
        ...(front.connectionMsMax === undefined ? {} : { clientMsMax: front.connectionMsMax }),
      });
      return { log, group, delayMs: (jitterMs * at) / count, timer: undefined, changedAtMs: 0 };
    });
  }

  get size(): number {
    return this.#parts.reduce((sum, { group }) => sum + group.size, 0);
  }

  /** @param known - whether there are data: then it is told at once, else with the first */
  add(channel: Channel, stream: OpenStream, known: boolean): void {
    const part = this.#parts[this.#added++ % this.#parts.length] as PingPart;
    if (known) channel.send(PING);
    part.group.add(channel, part.log.next, stream, stream.openedMs);
  }

  /** Something changed. */
  publish(): void {
    for (const part of this.#parts) {
      if (part.timer === undefined) part.changedAtMs = this.#clock.now();
      if (part.delayMs === 0) tell(part);
      else {
        part.timer ??= this.#clock.after(part.delayMs, () => {
          part.timer = undefined;
          tell(part);
        });
      }
    }
  }

  survey(look: Survey): void {
    // a ping that is put off is missed by all of its part
    for (const { group, timer } of this.#parts)
      group.survey((stream, missed) => look(stream, missed + Number(timer !== undefined)));
  }

  streams(): OpenStream[] {
    return this.#parts.flatMap(({ group }) => group.values());
  }

  /** Ends a stream in good order. Does nothing when it is none of these. */
  end(stream: OpenStream): void {
    for (const { group } of this.#parts) group.close(stream.channel);
  }

  async close(overMs: number): Promise<void> {
    for (const part of this.#parts) {
      part.timer?.cancel();
      part.timer = undefined;
    }
    await Promise.all(this.#parts.map(({ group }) => group.closeAll({ overMs })));
  }
}

function tell({ log, group, changedAtMs }: PingPart): void {
  log.next++;
  group.publish(changedAtMs);
}
