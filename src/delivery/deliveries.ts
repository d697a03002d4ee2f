import { channel as diagnosticsChannel } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { type Clock, HeadgateError, systemClock, type Timer } from '../kernel/index.ts';
import { bytesOf } from './channel.ts';
import { ProgressDeadline } from './deadline.ts';
import { type DeliverOptions, Delivery, type DeliveryProgress, type Outcome, type Report } from './delivery.ts';
import { FairTime } from './fair-time.ts';
import { kernelHeldBytes } from './kernel-socket.ts';
import { ReadyQueue } from './ready-queue.ts';
import { slowestOf } from './slowest.ts';

export type {
  DeliverOptions,
  DeliveryAbout,
  DeliveryProgress,
  HeldSlot,
  Outcome,
  Report,
  Source,
} from './delivery.ts';

/** How deliveries are sent. */
export interface DeliveriesOptions {
  readonly clock?: Clock;
  /** Bytes that all deliveries together may write before the event loop turns. Default 1 MiB. */
  readonly turnBytesMax?: number;
  /** Whether the kernel may be asked what it holds, which brings native code into the process. Default true. */
  readonly askKernel?: boolean;
  /** How long they may take for it, encoding included. Default 8 ms. */
  readonly turnMsMax?: number;
  /** How many bytes one write has, about. Default 64 KiB: more costs memory under TLS, and hides progress. */
  readonly writeBytes?: number;
  /**
   * To how many it grows, over HTTP/1.1 in the clear, for a reader that takes its writes at once. Default 256 KiB: a fifth
   * more throughput, and at the first write that is not taken at once it is small again.
   */
  readonly writeBytesMax?: number;
  /** How often deadlines are looked at. Default 250 ms. */
  readonly sweepMs?: number;
  /** The slowest steady reader that is served. Default 64 KiB/s. */
  readonly floorBytesPerSecond?: number;
  /** How far a reader may fall behind that. Default 30 s, which holds without the low-water mark; see `slackMsFor`. */
  readonly slackMs?: number;
  /** How much of a lead counts. Default half of `slackMs`. */
  readonly creditMs?: number;
  /** After how long without progress a reader gives its place up to those who wait. Default 100 ms. */
  readonly parkAfterMs?: number;
  /**
   * The same while no other delivery has anything to send. Default 25 ms: then all who hold a place wait for their readers,
   * and every millisecond more is one in which nothing is sent to anybody.
   */
  readonly parkIdleAfterMs?: number;
  /** Runs something once the event loop has turned. Default `setImmediate`; tests turn the loop themselves. */
  readonly nextTurn?: (run: () => void) => void;
}

/** Numbers for a dashboard. */
export interface DeliveriesStats {
  readonly active: number;
  readonly parked: number;
  readonly started: number;
  readonly ended: Readonly<Record<Outcome, number>>;
  readonly bytes: number;
  /** How often a place was given up. */
  readonly parks: number;
}

/** What a step costs the ration at least: tiny pieces cost calls, if not bytes. Bounds the writes of one turn to 256. */
const STEP_BYTES_MIN = 4096;

/** A system call takes a microsecond: so many are asked about in a millisecond. */
const KERNEL_ASKED_MAX = 1000;

/** A write whose callback comes within this was taken at once; a round through a busy loop takes as long. */
const AT_ONCE_MS = 10;

const facts = diagnosticsChannel('headgate:delivery');

/**
 * Sends full copies to many clients at once, each under a progress deadline, all of them under one ration per turn.
 *
 *   deliver() ─► ready queue ─► pump: up to turnBytesMax per turn of the loop ─► channel.write ─► taken ─► ready queue …
 *                                                          sweep, every 250 ms, looks at all that are writing
 *
 * @example
 * const deliveries = new Deliveries({ slackMs: slackMsFor('set') });
 *
 * async function answer(exchange: Exchange, source: Source, slot: HeldSlot): Promise<void> {
 *   const channel = exchange.open(200, { 'content-type': 'application/json' });
 *   const { outcome } = await deliveries.deliver({ channel, source, slot });
 *   if (outcome === 'completed') channel.end();
 * }
 */
export class Deliveries {
  readonly #clock: Clock;
  readonly #time: FairTime;
  readonly #turnBytesMax: number;
  readonly #turnMsMax: number;
  readonly #askKernel: boolean;
  readonly #writeBytes: number;
  readonly #writeBytesMax: number;
  readonly #sweepMs: number;
  readonly #parkAfterMs: number;
  readonly #parkIdleAfterMs: number;
  readonly #deadline: { readonly floorBytesPerSecond: number; readonly slackMs: number; readonly creditMs: number };
  readonly #nextTurn: (run: () => void) => void;
  readonly #active = new Set<Delivery>();
  readonly #ready = new ReadyQueue<Delivery>();
  readonly #ended: Record<Outcome, number> = {
    completed: 0,
    client_gone: 0,
    stalled: 0,
    capped: 0,
    error: 0,
    shutdown: 0,
  };
  #pumpArmed = false;
  #sweepTimer: Timer | undefined;
  #sweepEveryMs = 0;
  #watched = 0;
  #parkable = 0;
  #parked = 0;
  #parks = 0;
  #started = 0;
  #bytes = 0;
  #closed = false;

  /** @throws HeadgateError `HG_OPTION` for a number that is not positive. */
  constructor(options: DeliveriesOptions = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#turnBytesMax = positive('turnBytesMax', options.turnBytesMax ?? 1 << 20);
    this.#askKernel = options.askKernel ?? true;
    this.#turnMsMax = positive('turnMsMax', options.turnMsMax ?? 8);
    this.#writeBytes = positive('writeBytes', options.writeBytes ?? 65_536);
    this.#writeBytesMax = positive('writeBytesMax', options.writeBytesMax ?? 4 * this.#writeBytes);
    this.#sweepMs = positive('sweepMs', options.sweepMs ?? 250);
    this.#parkAfterMs = positive('parkAfterMs', options.parkAfterMs ?? 100);
    this.#parkIdleAfterMs = positive('parkIdleAfterMs', options.parkIdleAfterMs ?? this.#parkAfterMs / 4);
    const slackMs = positive('slackMs', options.slackMs ?? 30_000);
    const creditMs = options.creditMs === undefined ? slackMs / 2 : positive('creditMs', options.creditMs);
    const floorBytesPerSecond = positive('floorBytesPerSecond', options.floorBytesPerSecond ?? 65_536);
    this.#deadline = { floorBytesPerSecond, slackMs, creditMs };
    this.#nextTurn = options.nextTurn ?? ((run) => void setImmediate(run));
    this.#time = new FairTime(this.#clock, 2 * this.#sweepMs);
  }

  /** Deliveries between their first and their last byte. */
  get active(): number {
    return this.#active.size;
  }

  stats(): DeliveriesStats {
    return {
      active: this.#active.size,
      parked: this.#parked,
      started: this.#started,
      ended: { ...this.#ended },
      bytes: this.#bytes,
      parks: this.#parks,
    };
  }

  /**
   * What the deliveries in progress would hold, if each had a copy of its own: their sizes together. One whose size is not
   * known yet counts with what it has sent. Looks at all of them.
   */
  copiedBytes(): number {
    let bytes = 0;
    for (const delivery of this.#active) bytes += delivery.source?.bytes ?? delivery.bytes;
    return bytes;
  }

  /**
   * Those in progress that were sent the fewest bytes a second, the slowest first. Left out are those that began within the
   * last second, whose rate says nothing yet, and those of which nobody knows whom they are for.
   *
   * @param count - how many at most.
   */
  slowest(count: number): DeliveryProgress[] {
    return slowestOf(this.#active, count, this.#clock.now());
  }

  /**
   * Bytes that the kernel holds for deliveries in progress: handed over, and not acknowledged by the reader's kernel yet.
   * Undefined where it cannot be asked. Of more than 1,000 deliveries it asks for 1,000, and answers in proportion.
   */
  kernelHeldBytes(): number | undefined {
    if (!this.#askKernel) return undefined;
    if (this.#active.size === 0) return 0;
    const sockets = new Set<Socket>();
    let asked = 0;
    for (const { channel } of this.#active) {
      if (asked === KERNEL_ASKED_MAX) break;
      asked++;
      if (channel.socket !== undefined) sockets.add(channel.socket);
    }
    let bytes: number | undefined;
    for (const socket of sockets) {
      const held = kernelHeldBytes(socket);
      if (held !== undefined) bytes = (bytes ?? 0) + held;
    }
    return bytes === undefined ? undefined : Math.round((bytes * this.#active.size) / asked);
  }

  /**
   * Sends all of a source. Never rejects: the report says how it ended.
   *
   * After `completed` the channel is still open: go on with live events, or end it. After anything else it was killed, and
   * the client cannot take what it got for a whole.
   */
  deliver(options: DeliverOptions): Promise<Report> {
    return new Promise((resolve) => this.#begin(options, resolve));
  }

  /** Ends all deliveries as `shutdown`, and every later one at once. */
  shutdown(): void {
    this.#closed = true;
    for (const delivery of this.#active) this.#finish(delivery, 'shutdown');
  }

  #begin(options: DeliverOptions, settle: (report: Report) => void): void {
    const guarded = options.guarded ?? true;
    const { capMs, source } = options;
    const deadline = guarded ? new ProgressDeadline({ ...this.#deadline, capMs, bytes: source.bytes }) : undefined;
    const delivery = new Delivery(options, deadline, { nowMs: this.#clock.now(), writeBytes: this.#writeBytes });
    delivery.settle = settle;
    delivery.onTaken = (error) => this.#taken(delivery, error);
    this.#started++;
    this.#active.add(delivery);
    if (deadline !== undefined) this.#watched++;
    if (delivery.parking !== undefined) this.#parkable++;
    if (this.#closed) return this.#finish(delivery, 'shutdown');
    delivery.onClose = () => this.#finish(delivery, delivery.isWhole ? 'completed' : 'client_gone');
    options.channel.onClose(delivery.onClose);
    this.#enqueue(delivery);
    this.#armSweep();
  }

  #enqueue(delivery: Delivery): void {
    if (delivery.phase === 'over') return;
    delivery.phase = 'queued';
    this.#ready.push(delivery);
    this.#armPump();
  }

  #armPump(): void {
    if (this.#pumpArmed) return;
    this.#pumpArmed = true;
    this.#nextTurn(() => this.#pump());
  }

  /** One turn's ration. Without it a reader whose kernel takes all at once gets its whole copy before the loop turns. */
  #pump(): void {
    this.#pumpArmed = false;
    let left = this.#turnBytesMax;
    const untilMs = this.#clock.now() + this.#turnMsMax;
    while (left > 0 && this.#clock.now() < untilMs) {
      const delivery = this.#ready.shift();
      if (delivery === undefined) return;
      if (delivery.phase === 'queued') left -= Math.max(STEP_BYTES_MIN, this.#step(delivery));
    }
    if (this.#ready.size > 0) this.#armPump();
  }

  /** Moves a delivery on by one write, or by one read that takes time. Answers the bytes it wrote. */
  #step(delivery: Delivery): number {
    try {
      if (delivery.channel.dead) this.#finish(delivery, 'client_gone');
      else if (delivery.hasPieces || this.#read(delivery)) return this.#write(delivery);
    } catch (error) {
      this.#finish(delivery, 'error', error);
    }
    return 0;
  }

  /** Whether there is something to write now. */
  #read(delivery: Delivery): boolean {
    delivery.phase = 'reading';
    const next = delivery.source?.next(delivery.writeBytes);
    if (next === undefined) {
      this.#complete(delivery);
      return false;
    }
    if (!('then' in next)) {
      delivery.give(next);
      return true;
    }
    next.then(
      (pieces) => this.#wasRead(delivery, pieces),
      (error: unknown) => this.#finish(delivery, 'error', error),
    );
    return false;
  }

  #wasRead(delivery: Delivery, pieces: readonly Uint8Array[] | undefined): void {
    if (delivery.phase === 'over') return;
    if (pieces === undefined) return this.#complete(delivery);
    delivery.give(pieces);
    this.#enqueue(delivery);
  }

  #write(delivery: Delivery): number {
    const pieces = delivery.cut(delivery.writeBytes);
    const bytes = bytesOf(pieces);
    if (bytes === 0 || delivery.onTaken === undefined) {
      this.#enqueue(delivery);
      return 0;
    }
    delivery.phase = 'writing';
    delivery.outstanding = bytes;
    delivery.wroteAtMs = this.#time.now();
    delivery.deadline?.wrote(bytes, delivery.wroteAtMs);
    delivery.channel.write(pieces, delivery.onTaken);
    return bytes;
  }

  #taken(delivery: Delivery, error: Error | undefined): void {
    // the callback of a write that a kill cut short comes without an error on Node 20: the phase is the truth
    if (delivery.phase !== 'writing') return;
    if (error !== undefined || delivery.channel.dead) return this.#finish(delivery, 'client_gone', error);
    const nowMs = this.#time.now();
    delivery.deadline?.took(nowMs);
    this.#resize(delivery, nowMs - delivery.wroteAtMs);
    delivery.bytes += delivery.outstanding;
    this.#bytes += delivery.outstanding;
    delivery.outstanding = 0;
    // the last byte needs no turn and no place: the next response on this connection may want the slot before either comes
    if (delivery.isWhole && !delivery.hasPieces) this.#step(delivery);
    else if (delivery.parkedAtMs === undefined) this.#enqueue(delivery);
    else this.#comeBack(delivery);
  }

  /** Whoever takes a write at once gets a larger one next: fewer calls. Whoever does not is to show progress in small ones. */
  #resize(delivery: Delivery, tookMs: number): void {
    if (delivery.channel.transport !== 'http1' || tookMs > AT_ONCE_MS) delivery.writeBytes = this.#writeBytes;
    else delivery.writeBytes = Math.min(2 * delivery.writeBytes, Math.max(this.#writeBytes, this.#writeBytesMax));
  }

  /** A parked reader reads again: it goes on when it has a place. The wait for it is ours. */
  #comeBack(delivery: Delivery): void {
    delivery.phase = 'resuming';
    delivery.slot?.resume(() => {
      if (delivery.phase !== 'resuming') return;
      this.#unpark(delivery);
      this.#enqueue(delivery);
    });
  }

  #unpark(delivery: Delivery): void {
    if (delivery.parkedAtMs === undefined) return;
    delivery.parkedMs += this.#clock.now() - delivery.parkedAtMs;
    delivery.parkedAtMs = undefined;
    this.#parked--;
  }

  #complete(delivery: Delivery): void {
    const announced = delivery.source?.bytes;
    if (announced === undefined || announced === delivery.bytes) return this.#finish(delivery, 'completed');
    const message = `Cannot complete a delivery: its source announced ${announced} bytes, got ${delivery.bytes}`;
    this.#finish(delivery, 'error', new Error(message));
  }

  #armSweep(): void {
    if (this.#watched + this.#parkable === 0) return;
    const everyMs = this.#sweepEvery();
    if (this.#sweepTimer !== undefined) {
      // the first one that can park does not wait for the slow sweep that is under way
      if (everyMs >= this.#sweepEveryMs) return;
      this.#sweepTimer.cancel();
    }
    this.#time.tick();
    this.#sweepEveryMs = everyMs;
    this.#sweepTimer = this.#clock.after(everyMs, () => this.#sweep());
  }

  #sweepEvery(): number {
    if (this.#parkable === 0) return this.#sweepMs;
    for (const { parking } of this.#active) {
      // all of one limiter, so one knows for all
      if (parking !== undefined)
        return Math.min(this.#sweepMs, (parking() ? this.#parkIdleAfterMs : this.#parkAfterMs) / 2);
    }
    return this.#sweepMs;
  }

  /**
   * Looks for readers that fell behind. Timers run before the loop polls its sockets, so after a long turn the callbacks of
   * writes that were taken still wait behind this very sweep: judgement comes after one more poll.
   */
  #sweep(): void {
    this.#sweepTimer = undefined;
    this.#armSweep();
    const suspects: Delivery[] = [];
    const nowMs = this.#time.now();
    for (const delivery of this.#active) if (this.#isSuspect(delivery, nowMs)) suspects.push(delivery);
    if (suspects.length === 0) return;
    this.#nextTurn(() => this.#nextTurn(() => this.#judge(suspects)));
  }

  #isSuspect(delivery: Delivery, nowMs: number): boolean {
    const deadline = delivery.deadline;
    if (deadline !== undefined && deadline.verdict(nowMs) !== 'fine') return true;
    return this.#mayPark(delivery, nowMs);
  }

  #judge(suspects: readonly Delivery[]): void {
    const nowMs = this.#time.now();
    for (const delivery of suspects) {
      if (delivery.phase === 'over') continue;
      const verdict = delivery.deadline?.verdict(nowMs) ?? 'fine';
      if (verdict !== 'fine') this.#finish(delivery, verdict);
      else if (this.#mayPark(delivery, nowMs)) this.#park(delivery);
    }
  }

  #mayPark(delivery: Delivery, nowMs: number): boolean {
    if (delivery.phase !== 'writing' || delivery.parking === undefined || delivery.parkedAtMs !== undefined)
      return false;
    return nowMs - delivery.wroteAtMs >= (this.#ready.size === 0 ? this.#parkIdleAfterMs : this.#parkAfterMs);
  }

  #park(delivery: Delivery): void {
    if (delivery.parking?.() !== true || delivery.slot?.park() !== true) return;
    delivery.parkedAtMs = this.#clock.now();
    this.#parked++;
    this.#parks++;
  }

  /** The single exit. Whatever happens here, the slot is released and the promise resolves, once. */
  #finish(delivery: Delivery, outcome: Outcome, error?: unknown): void {
    if (delivery.phase === 'over') return;
    delivery.phase = 'over';
    this.#active.delete(delivery);
    if (delivery.deadline !== undefined) this.#watched--;
    if (delivery.parking !== undefined) this.#parkable--;
    if (this.#watched + this.#parkable === 0) {
      this.#sweepTimer?.cancel();
      this.#sweepTimer = undefined;
    }
    this.#unpark(delivery);
    const { settle, onEnd, onClose, channel, slot, bytes, startedAtMs, parkedMs } = delivery;
    if (onClose !== undefined) channel.offClose?.(onClose);
    delivery.drop();
    this.#ended[outcome]++;
    const ms = this.#clock.now() - startedAtMs;
    const report: Report = { outcome, bytes, ms, parkedMs, ...(error === undefined ? {} : { error }) };
    try {
      // before the release: what the kernel holds for this reader is gone when the next one begins
      if (outcome !== 'completed') channel.kill();
    } finally {
      slot?.release();
      settle?.(report);
      onEnd?.(report);
      if (facts.hasSubscribers) facts.publish(report);
    }
  }
}

function positive(name: string, value: number): number {
  if (value > 0) return value;
  throw new HeadgateError('HG_OPTION', `Cannot make deliveries: ${name} must be a positive number, got ${value}`);
}
