import {
  DataSet,
  formatPosition,
  type Item,
  type KeptData,
  type Outcome,
  type PendingWrite,
} from '../../dataset/index.ts';
import {
  type Block,
  blockOf,
  type Channel,
  encodeComment,
  encodeEvent,
  type LiveClient,
  LiveGroup,
  type LiveGroupOptions,
  type LiveLog,
} from '../../delivery/index.ts';
import type { Clock, Timer } from '../../kernel/index.ts';
import { CATCH_UP_BYTES_FREE } from './catch-up.ts';
import type { ClientInfo } from './client.ts';
import { type CompressedStream, compressedBlock } from './compressed.ts';
import type { EnvironmentInfo } from './credentials.ts';
import { factOf, lost, taken, takenCompressed } from './facts.ts';
import { type DigestOrder, positionOf } from './positions.ts';
import type { BigSegmentsState, ConnectionState, DataStoreState } from './states.ts';
import { spread } from './spread.ts';
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
  /** Told of each write before any reader sees it; what it waits for is kept by then. */
  readonly prepare?: (environmentId: string, write: PendingWrite) => Promise<void>;
  /** Told when bytes that only deliveries kept alive are free again. */
  readonly onPinnedDropped: () => void;
}

/** Encodings that nobody asked for are let go of; a look a minute finds them soon enough. */
const TRIM_MS = 60_000;

/** One view of one environment, followed live: a log of blocks made once for everybody, and who follows it. */
export interface Feed {
  readonly view: StreamView;
  readonly identity: LiveGroup<StreamClient>;
  readonly gzip: LiveGroup<StreamClient>;
}

/** A stream that is open. */
export interface StreamClient {
  readonly environment: Environment;
  readonly feed: Feed;
  readonly route: string;
  readonly info: ClientInfo;
  readonly channel: Channel;
  /** What it showed: a stream ends with its key. */
  readonly credential: string | undefined;
  /** When it was opened, on the front's clock: its age counts from then. */
  readonly openedMs: number;
  /** Its gzip member, when it is compressed. */
  readonly compressed: CompressedStream | undefined;
  /** Its place in the log, since it first had one. */
  live: LiveClient<StreamClient> | undefined;
}

/** Where a stream finds its changes. */
export function groupOf({ feed, compressed }: StreamClient): LiveGroup<StreamClient> {
  return compressed === undefined ? feed.identity : feed.gzip;
}

/** What is done with streams that live changes alone do not bring up to date. Each keeps its place until then. */
export interface FollowUp {
  /** It needs a full copy: its first data, or the log is broken. */
  readonly refresh: (client: StreamClient) => void;
  /** It has everything before this offset, and misses so much that it needs a slot. */
  readonly catchUp: (client: StreamClient, offset: number) => void;
}

/** Is told of each stream once. `missed`: how many changes it has yet to be sent; Infinity: all there is. */
export type Survey = (
  stream: { readonly audience: 'server' | 'mobile' | 'client'; readonly info: ClientInfo },
  missed: number,
) => void;

/** Streams that follow an environment in a way of their own, and are over when it is. */
export interface Followers {
  /** Tells of those that are open. */
  survey(look: Survey): void;
  /** The environment is over. */
  close(): void;
}

/**
 * One environment: who it is, what it holds, and who follows it.
 *
 * @example
 * const environment = new Environment(
 *   { id: 'production', name: 'production', sdkKeys: [{ value: 'sdk-1' }], ttlMs: 0 },
 *   { clock: systemClock, heartbeatMs: 180_000, logBatchesMax: 100, logBytesMax: 1e6, onPinnedDropped: () => {} },
 *   { refresh: () => {}, catchUp: () => {} },
 * );
 * await environment.load([{ kind: 'flags', key: 'a', version: 1, text: '{"key":"a","version":1}' }], 'effective');
 * console.log(environment.data.snapshot().count, environment.streams); // 1 0
 * environment.close();
 */
export class Environment {
  info: EnvironmentInfo;
  readonly data: DataSet;
  readonly all: Feed;
  readonly flags: Feed;
  readonly objects: Feed;
  /** Streams that are open and have no data yet: they get heartbeats and nothing else. */
  readonly waiting: LiveGroup<StreamClient>;
  readonly waitingCompressed: LiveGroup<StreamClient>;
  /** Unix time of the last change of `state`, in milliseconds. */
  stateSinceMs: number = Date.now();
  /** Unix time at which data last came from the source, in milliseconds; undefined before the first. */
  loadedMs: number | undefined;
  /** Where its data stand among those of other replicas, where they share an order. */
  order: DigestOrder | undefined;
  /** How it is with its source; undefined for files, whose data are there or not. */
  connection: ConnectionState | undefined;
  /** How it is with what keeps its data; undefined: nothing does, or the store is our own. */
  dataStore: DataStoreState | undefined;
  /** How fresh its big segments are; undefined: it has none. */
  bigSegments: BigSegmentsState | undefined;
  /** Streams whose first data has not come yet; they are among those that wait. */
  readonly #expecting = new Set<StreamClient>();
  readonly #followers = new Set<Followers>();
  /** Offset of the latest break in the log: whoever holds data from before it needs a full copy. */
  #brokenAt = 0;
  #fullBytes: number | undefined;
  readonly #clock: Clock;
  readonly #follow: FollowUp;
  readonly #unsubscribe: () => void;
  #trimTimer: Timer;

  /** @param follow - what is done with streams that live changes alone do not bring up to date. */
  constructor(info: EnvironmentInfo, options: EnvironmentOptions, follow: FollowUp) {
    this.info = info;
    this.#follow = follow;
    this.#clock = options.clock;
    this.data = new DataSet({
      name: info.id,
      kinds: KINDS,
      logMaxBatches: options.logBatchesMax,
      logMaxBytes: options.logBytesMax,
      ...(options.prepare === undefined ? {} : { beforeCommit: options.prepare.bind(options, info.id) }),
    });
    const feed = (view: StreamView, name: string): Feed => ({
      view,
      identity: identityGroup(new ViewLog(this.data, view, { name, frame: blockOf }), options),
      gzip: gzipGroup(new ViewLog(this.data, view, { name: `${name}/gzip`, frame: compressedBlock }), options),
    });
    this.all = feed(ALL_STREAM, 'all');
    this.flags = feed(FLAGS_STREAM, 'flags');
    this.objects = feed(OBJECTS_STREAM, 'objects');
    this.waiting = identityGroup(NOTHING_TO_SAY, options);
    this.waitingCompressed = gzipGroup(NOTHING_TO_SAY, options);
    const unsubscribe = this.data.subscribe((event) => {
      if (event.type === 'reset') this.#restart();
      else if (event.batch.bytes < CATCH_UP_BYTES_FREE) this.#publish();
      else this.#hold();
    });
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

  /** Takes over everything that the source holds now. Streams that waited for the first data get it. */
  async load(items: Iterable<Item> | AsyncIterable<Item>, versions: 'source' | 'effective'): Promise<Outcome> {
    const outcome = await this.data.replace(items, versions);
    this.loadedMs = Date.now();
    if (outcome.result === 'loaded') this.#begin();
    return outcome;
  }

  /**
   * Takes over what was kept of an earlier life, up to date at `savedMs` (Unix time; 0 where that is not known). Rejects when
   * data are there already.
   */
  async restore(kept: KeptData, savedMs: number): Promise<void> {
    await this.data.restore(kept);
    if (savedMs !== 0) this.loadedMs = savedMs;
    this.#begin();
  }

  /** The first data are there. */
  #begin(): void {
    this.stateSinceMs = Date.now();
    for (const client of this.#expecting) {
      this.stopWaiting(client);
      if (!client.channel.dead) this.#follow.refresh(client);
    }
    this.#expecting.clear();
  }

  /** Keeps an open stream alive with heartbeats until it is its turn; with `expecting`, until there is data. */
  wait(client: StreamClient, expecting = false): void {
    // what waits is sent heartbeats, and perhaps an end: neither may come before the header of its gzip member
    const header = client.compressed?.begin();
    if (header !== undefined) client.channel.send(blockOf(header));
    this.#waitingFor(client).add(client.channel, 0, client, client.openedMs);
    if (!expecting) return;
    this.#expecting.add(client);
    client.channel.onClose(() => this.#expecting.delete(client));
  }

  /** Ends that: whoever waited is sent to again. */
  stopWaiting(client: StreamClient): void {
    this.#waitingFor(client).remove(client.channel);
  }

  /** Whether changes alone can bring data of this offset up to date, as far as versions are concerned. */
  unbrokenSince(offset: number): boolean {
    return offset >= this.#brokenAt;
  }

  /** Ends the streams of which `isOver` says so, spread over time: their clients come back. */
  endStreams(isOver: (client: StreamClient) => boolean): void {
    const over = this.#groups().flatMap((group) => [...group.values()].filter((client) => isOver(client)));
    spread(this.#clock, over, (client) => {
      // by now it may follow another log, or none: then it is in the middle of a copy, and the next look finds it
      if (isOver(client)) for (const group of this.#groups()) group.close(client.channel);
    });
  }

  /** From here on these end with the environment, and count among its streams by SDK. */
  accompany(followers: Followers): void {
    this.#followers.add(followers);
  }

  /** How many streams of server SDKs are open. */
  get streams(): number {
    return this.#groups().reduce((sum, { size }) => sum + size, 0);
  }

  /** Tells of every open stream, those of followers included. One that waits for a copy has nothing that counts. */
  survey(look: Survey): void {
    for (const { identity, gzip } of [this.all, this.flags, this.objects]) {
      for (const group of [identity, gzip])
        group.survey(({ info }, missed) => look({ audience: 'server', info }, missed));
    }
    for (const group of [this.waiting, this.waitingCompressed]) {
      group.survey(({ info }) => look({ audience: 'server', info }, Number.POSITIVE_INFINITY));
    }
    for (const followers of this.#followers) followers.survey(look);
  }

  /** Bytes of a full copy before compression, as it was last sent on a stream; undefined: none was. */
  get fullBytes(): number | undefined {
    if (!this.data.ready) return undefined;
    const snapshot = this.data.snapshot();
    for (const { view } of [this.objects, this.all]) {
      const bytes = snapshot.knownByteLength(view.full(positionOf(snapshot, view.name)));
      // a changed page has a length again when somebody is sent it
      if (bytes !== undefined) return (this.#fullBytes = bytes);
    }
    return this.#fullBytes;
  }

  /** What stands for the data as they are now; undefined: there are none yet. */
  get position(): string | undefined {
    return this.data.ready ? formatPosition(positionOf(this.data.snapshot(), this.all.view.name)) : undefined;
  }

  /** Stops following the data and closes every stream. */
  close(): void {
    this.#unsubscribe();
    this.#trimTimer.cancel();
    void this.closeStreams(0);
    for (const followers of this.#followers) followers.close();
  }

  /** Closes every stream, spread over `overMs` milliseconds. FDv2 is told goodbye immediately before. */
  async closeStreams(overMs: number): Promise<void> {
    await Promise.all(
      this.#groups().map((group) => {
        if (group === this.objects.identity) return group.closeAll({ overMs, last: GOODBYE });
        if (group === this.objects.gzip) return group.closeAll({ overMs, last: GOODBYE_COMPRESSED });
        return group.closeAll({ overMs });
      }),
    );
  }

  #groups(): readonly LiveGroup<StreamClient>[] {
    const feeds = [this.all, this.flags, this.objects];
    return [...feeds.flatMap(({ identity, gzip }) => [identity, gzip]), this.waiting, this.waitingCompressed];
  }

  #waitingFor(client: StreamClient): LiveGroup<StreamClient> {
    return client.compressed === undefined ? this.waiting : this.waitingCompressed;
  }

  #publish(): void {
    for (const group of this.#groups()) group.publish();
  }

  /** A change as large as a copy is not sent to everybody at once: each gets it when it has a slot. */
  #hold(): void {
    this.#takeAll((client) => this.#follow.catchUp(client, client.live?.cursor ?? 0));
  }

  #restart(): void {
    this.#brokenAt = this.data.snapshot().offset;
    this.#takeAll((client) => this.#follow.refresh(client));
  }

  #takeAll(then: (client: StreamClient) => void): void {
    for (const { identity, gzip } of [this.all, this.flags, this.objects]) {
      for (const client of [...identity.takeAll(), ...gzip.takeAll()]) then(client);
    }
  }
}

function identityGroup(log: LiveLog, options: EnvironmentOptions): LiveGroup<StreamClient> {
  return new LiveGroup<StreamClient>({ ...groupOptions(options), log });
}

/** Heartbeats and changes are compressed once; what differs per stream is a checksum of eight bytes. */
function gzipGroup(log: LiveLog, options: EnvironmentOptions): LiveGroup<StreamClient> {
  return new LiveGroup<StreamClient>({
    ...groupOptions(options),
    log,
    heartbeat: HEARTBEAT_COMPRESSED,
    taken: takenCompressed,
    onSent: ({ value }, block) => value.compressed?.sent(block),
    closing: ({ value }) => value.compressed?.trailer() ?? NOTHING,
  });
}

function groupOptions(options: EnvironmentOptions): Omit<LiveGroupOptions<StreamClient>, 'log'> {
  return {
    clock: options.clock,
    heartbeatMs: options.heartbeatMs,
    taken,
    onLost: ({ environment, route, info }) => lost.publish(() => factOf(environment, route, info)),
    ...(options.connectionMsMax === undefined ? {} : { clientMsMax: options.connectionMsMax }),
  };
}

const NOTHING = new Uint8Array(0);
const HEARTBEAT_COMPRESSED: Block = compressedBlock(Buffer.from(encodeComment()));
const GOODBYE_TEXT = encodeEvent({ event: EVENT.goodbye, data: '{"reason":"restarting","silent":true}' });
const GOODBYE: Block = blockOf(GOODBYE_TEXT);
const GOODBYE_COMPRESSED: Block = compressedBlock(Buffer.from(GOODBYE_TEXT));

/** A batch of which this view shows nothing. */
const EMPTY: Block = blockOf('');

const NOTHING_TO_SAY: LiveLog = { first: 0, next: 0, block: () => undefined };

/** The change log as one view's clients read it. */
class ViewLog implements LiveLog {
  readonly #data: DataSet;
  readonly #view: StreamView;
  readonly #memoKey: string;
  readonly #frame: (bytes: Uint8Array) => Block;

  /** @param encoding - its name, which no other encoding of any view of this data has, and how it makes blocks. */
  constructor(data: DataSet, view: StreamView, encoding: { name: string; frame: (bytes: Uint8Array) => Block }) {
    this.#data = data;
    this.#view = view;
    this.#memoKey = `live/${encoding.name}`;
    this.#frame = encoding.frame;
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
      const text = [...this.#view.changes(batch.changes, position)].join('');
      return text === '' ? EMPTY : this.#frame(Buffer.from(text));
    });
  }
}
