import { type Clock, type Fact, HeadgateError, systemClock, type Timer } from '../kernel/index.ts';
import { ChangeTimes, type Taken } from './change-times.ts';
import type { Block, Channel } from './channel.ts';
import { ClientList, type Linked } from './client-list.ts';
import { blockOf, encodeComment } from './sse.ts';

/** The log that live clients follow: blocks at the offsets `first` (inclusive) to `next` (exclusive). */
export interface LiveLog {
  readonly first: number;
  readonly next: number;
  /** Shared by all clients, and best made on first demand. Empty: nothing for this view. Undefined: not in the log. */
  block(offset: number): Block | undefined;
}

/** One open stream: a cursor in the log, and nothing else. */
export interface LiveClient<T> {
  readonly channel: Channel;
  /** The next offset it gets. */
  readonly cursor: number;
  /** The caller's own: who it is, the checksum of its compressed stream. */
  readonly value: T;
}

/** How a group sends. */
export interface LiveGroupOptions<T> {
  readonly log: LiveLog;
  readonly clock?: Clock;
  /** Time between heartbeats, in milliseconds. 0 sends none. Default 15 s. */
  readonly heartbeatMs?: number;
  /** What a heartbeat is. Default an empty comment. */
  readonly heartbeat?: Block;
  /** How long a stream may stay open, in milliseconds. Default Infinity. */
  readonly clientMsMax?: number;
  /** By up to this share, 0 to 1, an age is cut short at random, so that what came together does not go together. Default 0. */
  readonly clientMsJitter?: number;
  /** How long one slice of a pass may last, in milliseconds. Default 5. */
  readonly sliceMsMax?: number;
  /** How long a client that is being closed may take for its last bytes before it is reset. Default 10 s. */
  readonly leaveMsMax?: number;
  /** Called for each client whose cursor fell off the log, when it is closed. */
  readonly onLost?: (value: T) => void;
  /** Called for each block sent to each client, heartbeats included. */
  readonly onSent?: (client: LiveClient<T>, block: Block) => void;
  /** Made known, while somebody listens: how long changes took to be taken, by how many clients. Heartbeats are none. */
  readonly taken?: Fact<Taken>;
  /** The last bytes of a stream that is ended cleanly, such as the trailer of a compressed one. */
  readonly closing?: (client: LiveClient<T>) => Uint8Array;
  readonly random?: () => number;
  /** Runs something once the event loop has turned. Default `setImmediate`. */
  readonly nextTurn?: (run: () => void) => void;
}

/** Numbers for a dashboard. */
export interface LiveStats {
  readonly clients: number;
  /** Clients whose sockets hold bytes back at this moment. */
  readonly behind: number;
  /** Blocks sent, over all clients. */
  readonly sent: number;
  readonly heartbeats: number;
  /** Clients whose cursor fell off the log. */
  readonly lost: number;
  /** Clients closed for their age. */
  readonly aged: number;
}

/** How to close all clients. */
export interface CloseAllOptions {
  /** Over how long the closes are spread, in milliseconds. 0: as soon as the loop allows. */
  readonly overMs: number;
  /** The last block, behind all that a client misses. */
  readonly last?: Block;
}

/** Bounds a slice also where time stands still. */
const CLIENTS_PER_SLICE = 1000;
/** One client that misses much must not hold up the rest: it goes on in the next pass. */
const BLOCKS_PER_VISIT = 64;
const AGE_STEP_MS = 1000;
const CLOSE_STEP_MS = 50;
/** Ten thousand disconnects at once block the loop for 0.4 s: at least so many a second, and more only if they must. */
const AGED_PER_STEP = 500;

/** Ten thousand of these: few fields, no queue, one closure until its socket first holds something back. */
class Client<T> implements LiveClient<T>, Linked<Client<T>> {
  readonly channel: Channel;
  readonly value: T;
  cursor: number;
  expiresAtMs: number;
  place: 'listed' | 'leaving' | 'ended' | 'gone' = 'listed';
  /** Its socket holds bytes back. */
  isBehind = false;
  /** Bytes of the change that they end with; 0: a heartbeat. */
  heldBytes = 0;
  onClose: (() => void) | undefined;
  onDrain: (() => void) | undefined;
  previous: Client<T> | undefined;
  next: Client<T> | undefined;

  constructor(channel: Channel, cursor: number, value: T, expiresAtMs: number) {
    this.channel = channel;
    this.cursor = cursor;
    this.value = value;
    this.expiresAtMs = expiresAtMs;
  }
}

/**
 * All open streams of one view in one encoding.
 *
 *   log:   … │ 41 │ 42 │ 43 │ 44 │ next = 45
 *                   ▲              ▲
 *              slow client     everybody else     a client is where it is; nothing is queued for it
 *
 * A client whose socket holds bytes is passed over, and goes on from its own cursor when they are gone. One whose cursor
 * is no longer in the log is closed: it comes back for a catch-up or a full copy. A stream whose channel belongs to a
 * delivery is in no group; one that waits for its first data is in a group with an empty log.
 *
 * @example
 * const blocks = [eventBlock({ data: 'one' })];
 * const log: LiveLog = {
 *   first: 0,
 *   get next() {
 *     return blocks.length;
 *   },
 *   block: (offset) => blocks[offset],
 * };
 * const group = new LiveGroup<string>({ log, heartbeatMs: 15_000 });
 *
 * function follow(exchange: Exchange): void {
 *   const channel = exchange.open(200, { 'content-type': 'text/event-stream' });
 *   group.add(channel, 0, exchange.remoteAddress);
 * }
 *
 * blocks.push(eventBlock({ data: 'two' }));
 * group.publish();
 */
export class LiveGroup<T> {
  readonly #options: LiveGroupOptions<T>;
  readonly #log: LiveLog;
  readonly #clock: Clock;
  readonly #heartbeat: Block;
  readonly #heartbeatMs: number;
  readonly #clientMsMax: number;
  readonly #leaveMsMax: number;
  readonly #sliceMsMax: number;
  readonly #nextTurn: (run: () => void) => void;
  readonly #times: ChangeTimes | undefined;
  readonly #list = new ClientList<Client<T>>();
  readonly #byChannel = new Map<Channel, Client<T>>();
  /** Being closed: what they miss and the end is under way. In the order of their deadlines. */
  readonly #leaving = new Map<Client<T>, { readonly byMs: number; readonly last: Block | undefined }>();
  #isTelling = false;
  #isPassing = false;
  #passAgain = false;
  #behind = 0;
  #sent = 0;
  #heartbeats = 0;
  #lost = 0;
  #aged = 0;
  #heartbeatTimer: Timer | undefined;
  #ageTimer: Timer | undefined;
  #leaveTimer: Timer | undefined;
  #closing: CloseAllOptions | undefined;
  #onEmpty: (() => void)[] = [];

  /** @throws HeadgateError `HG_OPTION` for a time that is negative, or a share outside 0 to 1. */
  constructor(options: LiveGroupOptions<T>) {
    this.#options = options;
    this.#log = options.log;
    this.#clock = options.clock ?? systemClock;
    this.#heartbeat = options.heartbeat ?? blockOf(encodeComment());
    this.#heartbeatMs = inRange('heartbeatMs', options.heartbeatMs ?? 15_000);
    this.#clientMsMax = inRange('clientMsMax', options.clientMsMax ?? Number.POSITIVE_INFINITY);
    this.#leaveMsMax = inRange('leaveMsMax', options.leaveMsMax ?? 10_000);
    this.#sliceMsMax = inRange('sliceMsMax', options.sliceMsMax ?? 5);
    this.#times = options.taken === undefined ? undefined : new ChangeTimes(options.taken);
    inRange('clientMsJitter', options.clientMsJitter ?? 0, 1);
    this.#nextTurn = options.nextTurn ?? ((run) => void setImmediate(run));
  }

  /** Open streams, those that are being closed included. */
  get size(): number {
    return this.#list.size + this.#leaving.size;
  }

  stats(): LiveStats {
    return {
      clients: this.size,
      behind: this.#behind,
      sent: this.#sent,
      heartbeats: this.#heartbeats,
      lost: this.#lost,
      aged: this.#aged,
    };
  }

  /**
   * Lets a stream follow the log. It gets what it misses at once.
   *
   * @param cursor - the first offset that it gets: everything before it is in what it was sent already.
   * @param sinceMs - when it was opened: its age counts from then, however often it leaves and comes back.
   */
  add(channel: Channel, cursor: number, value: T, sinceMs: number = this.#clock.now()): LiveClient<T> {
    const jitter = 1 - (this.#options.clientMsJitter ?? 0) * (this.#options.random ?? Math.random)();
    const client = new Client(channel, cursor, value, sinceMs + this.#clientMsMax * jitter);
    this.#list.append(client);
    this.#byChannel.set(channel, client);
    client.onClose = () => this.#forget(client);
    channel.onClose(client.onClose);
    if (client.place !== 'listed') return client;
    this.#armTimers();
    if (this.#closing === undefined) this.#advance(client);
    else this.#leave(client, this.#closing.last);
    return client;
  }

  /** Takes a stream out, and leaves it open. Does nothing when it is not in the group. */
  remove(channel: Channel): void {
    const client = this.#byChannel.get(channel);
    if (client !== undefined) this.#forget(client);
  }

  /** What was said of each stream when it was added, in the order in which they came. Those being closed are left out. */
  values(): T[] {
    const values: T[] = [];
    for (let client = this.#list.head; client !== undefined; client = client.next) values.push(client.value);
    return values;
  }

  /**
   * Looks at each stream once: those that are being closed too.
   *
   * @param look - `missed`: how many blocks it has yet to be sent. What its socket holds back counts as one.
   */
  survey(look: (value: T, missed: number) => void): void {
    const { next } = this.#log;
    const visit = ({ cursor, isBehind, value }: Client<T>): void => look(value, next - cursor + Number(isBehind));
    for (let client = this.#list.head; client !== undefined; client = client.next) visit(client);
    for (const client of this.#leaving.keys()) visit(client);
  }

  /** Ends one stream in good order: it gets what it misses first. Does nothing when it is not in the group. */
  close(channel: Channel): void {
    const client = this.#byChannel.get(channel);
    if (client !== undefined) this.#leave(client, undefined);
  }

  /** Takes all streams out, and leaves them open. Those that are being closed stay. */
  takeAll(): T[] {
    const values: T[] = [];
    for (let client = this.#list.head; client !== undefined; client = this.#list.head) {
      values.push(client.value);
      this.#forget(client);
    }
    return values;
  }

  /**
   * Tells that the log has grown. Soon afterwards each client has been sent what it misses.
   *
   * @param changedAtMs - when it was that the data changed, on the group's clock. Default now.
   */
  publish(changedAtMs?: number): void {
    this.#times?.changed(this.#log, changedAtMs ?? this.#clock.now());
    this.#pass();
  }

  #pass(): void {
    if (this.#list.size === 0) return;
    if (this.#isPassing) {
      this.#passAgain = true;
      return;
    }
    this.#isPassing = true;
    this.#walk(
      (client) => this.#advance(client),
      () => {
        this.#isPassing = false;
        if (!this.#passAgain) return;
        this.#passAgain = false;
        this.#pass();
      },
    );
  }

  /**
   * Ends all streams, spread over a time; later ones at once. Each gets what it misses, the last block, and its clean end.
   * Resolves when all are gone; who does not take its last bytes in `leaveMsMax` is reset.
   */
  closeAll(options: CloseAllOptions): Promise<void> {
    this.#closing = options;
    this.#closeDue(this.#clock.now(), this.#list.size);
    return new Promise((resolve) => {
      if (this.size === 0) resolve();
      else this.#onEmpty.push(resolve);
    });
  }

  #walk(visit: (client: Client<T>) => void, done: () => void): void {
    const walk = this.#list.walk(visit);
    const turn = (): void => {
      const untilMs = this.#clock.now() + this.#sliceMsMax;
      const isOver = walk.slice(() => this.#clock.now() >= untilMs, CLIENTS_PER_SLICE);
      this.#tellTaken();
      if (isOver) done();
      else this.#nextTurn(turn);
    };
    this.#nextTurn(turn);
  }

  /** Sends a client what it misses, as far as its socket takes it. */
  #advance(client: Client<T>): void {
    if (client.place === 'ended') return;
    for (let sent = 0; client.cursor < this.#log.next; sent++) {
      const block = client.cursor < this.#log.first ? undefined : this.#log.block(client.cursor);
      if (block === undefined) return this.#lose(client);
      if (client.isBehind) return;
      if (sent === BLOCKS_PER_VISIT && client.place === 'listed') return this.#pass();
      client.cursor++;
      this.#send(client, block);
      if (client.place === 'gone') return;
      if (this.#times !== undefined) this.#sentChange(client, block.bytes.byteLength, this.#times);
    }
    if (client.place === 'leaving' && !client.isBehind) this.#end(client);
  }

  /** Its socket took the change at once, or will have it when it holds nothing back any more. */
  #sentChange(client: Client<T>, bytes: number, times: ChangeTimes): void {
    if (bytes === 0) return;
    if (client.isBehind) client.heldBytes = bytes;
    else times.took(client.cursor - 1, bytes);
    this.#tellSoon(times);
  }

  /** In a pass it is told when the slice is over; between passes, once for all of this turn of the loop. */
  #tellSoon(times: ChangeTimes): void {
    if (this.#isPassing || this.#isTelling || !times.isDue) return;
    this.#isTelling = true;
    this.#nextTurn(() => {
      this.#isTelling = false;
      this.#tellTaken();
    });
  }

  #tellTaken(): void {
    if (this.#times?.isDue === true) this.#times.tell(this.#clock.now());
  }

  #send(client: Client<T>, block: Block): void {
    if (block.bytes.byteLength === 0) return;
    this.#sent++;
    this.#options.onSent?.(client, block);
    if (client.channel.send(block) || client.place === 'gone') return;
    client.isBehind = true;
    this.#behind++;
    client.onDrain ??= () => this.#caughtUp(client);
    client.channel.onDrain(client.onDrain);
  }

  #caughtUp(client: Client<T>): void {
    if (!client.isBehind || client.place === 'gone') return;
    client.isBehind = false;
    this.#behind--;
    if (client.heldBytes > 0 && this.#times !== undefined) {
      this.#times.took(client.cursor - 1, client.heldBytes);
      client.heldBytes = 0;
      this.#tellSoon(this.#times);
    }
    this.#advance(client);
  }

  /** Its cursor is off the log: what it has can no longer be completed. */
  #lose(client: Client<T>): void {
    this.#lost++;
    this.#options.onLost?.(client.value);
    if (client.isBehind) client.channel.kill();
    else this.#end(client);
    this.#forget(client);
  }

  #leave(client: Client<T>, last: Block | undefined): void {
    if (client.place !== 'listed') return;
    this.#list.remove(client);
    client.place = 'leaving';
    this.#leaving.set(client, { byMs: this.#clock.now() + this.#leaveMsMax, last });
    this.#leaveTimer ??= this.#clock.after(this.#leaveMsMax, () => this.#killOverdue());
    this.#advance(client);
  }

  /** The clean end. The client stays until its channel says that it is over, or its time is up. */
  #end(client: Client<T>): void {
    // what is held back now comes before the end; when it has been taken there is nothing more to do
    client.place = client.place === 'listed' ? 'listed' : 'ended';
    const last = this.#leaving.get(client)?.last;
    if (last !== undefined) this.#send(client, last);
    const closing = this.#options.closing?.(client);
    if (closing !== undefined && closing.byteLength > 0) client.channel.send(blockOf(closing));
    client.channel.end();
  }

  #killOverdue(): void {
    this.#leaveTimer = undefined;
    const nowMs = this.#clock.now();
    for (const [client, { byMs }] of this.#leaving) {
      if (byMs > nowMs) {
        this.#leaveTimer = this.#clock.after(byMs - nowMs, () => this.#killOverdue());
        return;
      }
      client.channel.kill();
      this.#forget(client);
    }
  }

  #closeDue(beganAtMs: number, total: number): void {
    const overMs = this.#closing?.overMs ?? 0;
    const leftMs = overMs - (this.#clock.now() - beganAtMs + CLOSE_STEP_MS);
    const stay = leftMs > 0 ? Math.floor((total * leftMs) / overMs) : 0;
    const untilMs = this.#clock.now() + this.#sliceMsMax;
    while (this.#list.head !== undefined && this.#list.size > stay) {
      if (this.#clock.now() >= untilMs) return this.#nextTurn(() => this.#closeDue(beganAtMs, total));
      this.#leave(this.#list.head, this.#closing?.last);
    }
    if (this.#list.size > 0) this.#clock.after(CLOSE_STEP_MS, () => this.#closeDue(beganAtMs, total));
  }

  #forget(client: Client<T>): void {
    if (client.place === 'gone') return;
    if (client.place === 'listed') this.#list.remove(client);
    this.#leaving.delete(client);
    client.place = 'gone';
    if (client.isBehind) this.#behind--;
    if (this.#byChannel.get(client.channel) === client) this.#byChannel.delete(client.channel);
    if (client.onClose !== undefined) client.channel.offClose?.(client.onClose);
    if (this.size > 0) return;
    this.#disarmTimers();
    const listeners = this.#onEmpty;
    this.#onEmpty = [];
    for (const listener of listeners) listener();
  }

  #armTimers(): void {
    if (this.#heartbeatMs > 0) this.#heartbeatTimer ??= this.#clock.after(this.#heartbeatMs, () => this.#beat());
    if (this.#clientMsMax < Number.POSITIVE_INFINITY) {
      this.#ageTimer ??= this.#clock.after(AGE_STEP_MS, () => this.#closeAged());
    }
  }

  #disarmTimers(): void {
    for (const timer of [this.#heartbeatTimer, this.#ageTimer, this.#leaveTimer]) timer?.cancel();
    this.#heartbeatTimer = undefined;
    this.#ageTimer = undefined;
    this.#leaveTimer = undefined;
  }

  #beat(): void {
    this.#heartbeatTimer = undefined;
    this.#armTimers();
    this.#walk(
      (client) => {
        // what it has not taken keeps the connection alive, or is about to show that it is dead
        if (client.isBehind) return;
        this.#heartbeats++;
        this.#send(client, this.#heartbeat);
      },
      () => {},
    );
  }

  #closeAged(): void {
    this.#ageTimer = undefined;
    const nowMs = this.#clock.now();
    let left = Math.max(AGED_PER_STEP, Math.ceil((2 * this.size * AGE_STEP_MS) / this.#clientMsMax));
    for (let client = this.#list.head; client !== undefined && left > 0; ) {
      const next: Client<T> | undefined = client.next;
      if (client.expiresAtMs <= nowMs) {
        left--;
        this.#aged++;
        this.#leave(client, undefined);
      }
      client = next;
    }
    if (this.#list.size > 0) this.#armTimers();
  }
}

function inRange(name: string, value: number, max: number = Number.POSITIVE_INFINITY): number {
  if (value >= 0 && value <= max) return value;
  throw new HeadgateError('HG_OPTION', `Cannot make a live group: ${name} must be between 0 and ${max}, got ${value}`);
}
