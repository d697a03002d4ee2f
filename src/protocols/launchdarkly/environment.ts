import { DataSet, type Item } from '../../dataset/index.ts';
import { type Block, blockOf, encodeEvent, LiveGroup, type LiveLog } from '../../delivery/index.ts';
import type { Clock, Timer } from '../../kernel/index.ts';
import type { EnvironmentInfo } from './credentials.ts';
import { positionOf } from './positions.ts';
import { type StreamClient, tellLost } from './streams.ts';
import { ALL_STREAM, FLAGS_STREAM, OBJECTS_STREAM, type StreamView } from './views.ts';
import { EVENT, KINDS } from './words.ts';

/** What a data set of flags and its live streams need from outside. */
export interface EnvironmentOptions {
  readonly clock: Clock;
  readonly heartbeatMs: number;
  /** Streams are closed after this time, in milliseconds; absent is never. */
  readonly connectionMsMax?: number;
  readonly logBatchesMax: number;
  readonly logBytesMax: number;
  /** Told when bytes that only deliveries kept alive are free again. */
  readonly onPinnedDropped: () => void;
}

/** Encodings that nobody asked for are let go of; a look a minute finds them soon enough. */
const TRIM_MS = 60_000;

/** One view of one environment, followed live: a log of blocks made once for everybody, and who follows it. */
export interface Feed {
  readonly view: StreamView;
  readonly group: LiveGroup<StreamClient>;
}

/** One environment: who it is, what it holds, and who follows it. */
export class Environment {
  info: EnvironmentInfo;
  readonly data: DataSet;
  readonly all: Feed;
  readonly flags: Feed;
  readonly objects: Feed;
  /** Streams that are open and have no data yet: they get heartbeats and nothing else. */
  readonly waiting: LiveGroup<StreamClient>;
  /** Unix time of the last change of `state`, in milliseconds. */
  stateSinceMs: number = Date.now();
  /** Offset of the latest break in the log: whoever holds data from before it needs a full copy. */
  #brokenAt = 0;
  readonly #onReset: (client: StreamClient) => void;
  readonly #unsubscribe: () => void;
  #trimTimer: Timer;

  /** @param onReset - called for each followed stream whose data cannot be brought up to date by changes. */
  constructor(info: EnvironmentInfo, options: EnvironmentOptions, onReset: (client: StreamClient) => void) {
    this.info = info;
    this.#onReset = onReset;
    this.data = new DataSet({
      name: info.id,
      kinds: KINDS,
      logMaxBatches: options.logBatchesMax,
      logMaxBytes: options.logBytesMax,
    });
    const group = (log: LiveLog): LiveGroup<StreamClient> =>
      new LiveGroup<StreamClient>({
        log,
        clock: options.clock,
        heartbeatMs: options.heartbeatMs,
        onLost: tellLost,
        ...(options.connectionMsMax === undefined ? {} : { clientMsMax: options.connectionMsMax }),
      });
    const feed = (view: StreamView, name: string): Feed => ({ view, group: group(new ViewLog(this.data, view, name)) });
    this.all = feed(ALL_STREAM, 'all');
    this.flags = feed(FLAGS_STREAM, 'flags');
    this.objects = feed(OBJECTS_STREAM, 'objects');
    this.waiting = group(NOTHING_TO_SAY);
    const unsubscribe = this.data.subscribe((event) => (event.type === 'batch' ? this.#publish() : this.#restart()));
    const stopFreed = this.data.onFreed(options.onPinnedDropped);
    this.#unsubscribe = () => {
      unsubscribe();
      stopFreed();
    };
    const trim = (): void => {
      this.data.trim(options.clock.now());
      this.#trimTimer = options.clock.after(TRIM_MS, trim);
    };
    this.#trimTimer = options.clock.after(TRIM_MS, trim);
  }

  get feeds(): readonly Feed[] {
    return [this.all, this.flags, this.objects];
  }

  /** Takes over everything that the source holds now. Streams that waited for the first data get it. */
  async load(items: Iterable<Item> | AsyncIterable<Item>, versions: 'source' | 'effective'): Promise<void> {
    const first = !this.data.ready;
    await this.data.replace(items, versions);
    if (!first) return;
    this.stateSinceMs = Date.now();
    for (const client of this.waiting.takeAll()) this.#onReset(client);
  }

  /** Whether changes alone can bring data of this offset up to date, as far as versions are concerned. */
  unbrokenSince(offset: number): boolean {
    return offset >= this.#brokenAt;
  }

  /** How many streams are open. */
  get streams(): number {
    return this.feeds.reduce((sum, { group }) => sum + group.size, this.waiting.size);
  }

  /** Stops following the data and closes every stream. */
  close(): void {
    this.#unsubscribe();
    this.#trimTimer.cancel();
    void this.closeStreams(0);
  }

  /** Closes every stream, spread over `overMs` milliseconds. FDv2 is told goodbye immediately before. */
  async closeStreams(overMs: number): Promise<void> {
    await Promise.all([
      this.all.group.closeAll({ overMs }),
      this.flags.group.closeAll({ overMs }),
      this.objects.group.closeAll({ overMs, last: GOODBYE }),
      this.waiting.closeAll({ overMs }),
    ]);
  }

  #publish(): void {
    for (const { group } of this.feeds) group.publish();
  }

  #restart(): void {
    this.#brokenAt = this.data.snapshot().offset;
    for (const { group } of this.feeds) {
      for (const client of group.takeAll()) this.#onReset(client);
    }
  }
}

const GOODBYE: Block = blockOf(encodeEvent({ event: EVENT.goodbye, data: '{"reason":"restarting","silent":true}' }));

const NOTHING_TO_SAY: LiveLog = { first: 0, next: 0, block: () => undefined };

/** The change log as one view's clients read it. */
class ViewLog implements LiveLog {
  readonly #data: DataSet;
  readonly #view: StreamView;
  readonly #memoKey: string;

  constructor(data: DataSet, view: StreamView, name: string) {
    this.#data = data;
    this.#view = view;
    this.#memoKey = `live/${name}`;
  }

  get first(): number {
    return this.#data.log.first;
  }

  get next(): number {
    return this.#data.log.next;
  }

  block(offset: number): Block | undefined {
    const batch = this.#data.log.at(offset);
    return batch?.memo(this.#memoKey, () => {
      const position = positionOf(batch, this.#view.name);
      return blockOf([...this.#view.changes(batch.changes, position)].join(''));
    });
  }
}
