import { type Block, blockOf, type Channel, encodeEvent, type Exchange } from '../delivery/index.ts';
import type { Clock, Timer } from '../kernel/index.ts';
import type { Bucket, State, Timeline } from '../observability/index.ts';
import type { Route } from '../server/index.ts';

/** What viewers are shown. */
export interface LiveParts {
  readonly clock: Clock;
  readonly state: () => State;
  readonly timeline: () => Timeline;
  /** Told when a state cannot be read: a fault of ours. */
  readonly onFailure: (error: unknown) => void;
}

/** People who look at once; each costs little, and there is no reason for more. */
const VIEWERS_MAX = 16;
const STATE_MS = 1000;
/** Whoever takes nothing for so long gives its place to the next: a laptop that was closed. */
const STALLED_MS_MAX = 60_000;
/** How long a viewer may take for its last bytes. */
const LEAVE_MS_MAX = 500;
const RETRY_AFTER_SECONDS = 10;

const PLAIN = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const;

interface Viewer {
  readonly channel: Channel;
  /** Since when its socket holds bytes back; undefined: it does not. */
  behindSinceMs: number | undefined;
  /** It was passed over when a bucket was told. */
  hasGap: boolean;
}

/**
 * `/api/state` and `/api/live`: what the page shows, once and as it changes.
 *
 * A viewer whose socket holds bytes back is passed over, and nothing is kept for it: a state is told by the next one, and for
 * buckets that it missed it is told the whole timeline again. A state is read and written once, for all viewers. Nothing is
 * done while there are none.
 */
export class Live {
  readonly routes: readonly Route[];
  readonly #parts: LiveParts;
  readonly #viewers = new Set<Viewer>();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: LiveParts) {
    this.#parts = parts;
    this.routes = [
      { methods: ['GET'], path: '/api/state', handle: ours((exchange) => this.#answerState(exchange)) },
      { methods: ['GET'], path: '/api/live', handle: ours((exchange) => this.#open(exchange)) },
    ];
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Tells a bucket that was closed. */
  bucket(bucket: Bucket): void {
    if (this.#viewers.size === 0) return;
    const block = eventOf('bucket', bucket);
    for (const viewer of this.#viewers) if (!this.#send(viewer, block)) viewer.hasGap = true;
  }

  /** Ends all viewers; later ones are refused. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    const left = [...this.#viewers];
    for (const { channel } of left) channel.end();
    if (left.length > 0) {
      this.#parts.clock.after(LEAVE_MS_MAX, () => {
        for (const { channel } of left) channel.kill();
      });
    }
  }

  #answerState(exchange: Exchange): void {
    const body = JSON.stringify(this.#parts.state());
    exchange.reply(200, { ...PLAIN, 'content-type': 'application/json' }, body);
  }

  #open(exchange: Exchange): void {
    if (this.#isClosed || this.#viewers.size >= VIEWERS_MAX) {
      const headers = {
        ...PLAIN,
        'content-type': 'text/plain; charset=utf-8',
        'retry-after': `${RETRY_AFTER_SECONDS}`,
      };
      const cause = this.#isClosed ? 'a stop is under way' : `at most ${VIEWERS_MAX} may watch at once`;
      exchange.reply(503, headers, `${cause}\n`);
      return;
    }
    const { state, timeline } = this.#parts;
    // before the answer begins: what fails here is answered 500
    const first = blockOf(textOf('timeline', timeline()) + textOf('state', state()));
    const channel = exchange.open(200, { ...PLAIN, 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' });
    const viewer: Viewer = { channel, behindSinceMs: undefined, hasGap: false };
    this.#viewers.add(viewer);
    channel.onDrain(() => (viewer.behindSinceMs = undefined));
    channel.onClose(() => this.#forget(viewer));
    this.#send(viewer, first);
    if (this.#viewers.size > 0) this.#timer ??= this.#tickLater();
  }

  #forget(viewer: Viewer): void {
    this.#viewers.delete(viewer);
    if (this.#viewers.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #tickLater(): Timer {
    return this.#parts.clock.after(STATE_MS, () => {
      this.#timer = this.#tickLater();
      try {
        this.#tick();
      } catch (error) {
        this.#parts.onFailure(error);
        for (const { channel } of this.#viewers) channel.kill();
      }
    });
  }

  #tick(): void {
    const nowMs = this.#parts.clock.now();
    const ready: Viewer[] = [];
    for (const viewer of this.#viewers) {
      if (viewer.behindSinceMs === undefined) ready.push(viewer);
      else if (nowMs - viewer.behindSinceMs >= STALLED_MS_MAX) viewer.channel.kill();
    }
    if (ready.length === 0) return;
    const state = textOf('state', this.#parts.state());
    const gap = ready.some(({ hasGap }) => hasGap)
      ? blockOf(textOf('timeline', this.#parts.timeline()) + state)
      : undefined;
    const block = blockOf(state);
    for (const viewer of ready) this.#send(viewer, viewer.hasGap && gap !== undefined ? gap : block);
    for (const viewer of ready) viewer.hasGap = false;
  }

  /** Whether it was sent: nothing is, while its socket holds bytes back. */
  #send(viewer: Viewer, block: Block): boolean {
    if (viewer.behindSinceMs !== undefined) return false;
    if (!viewer.channel.send(block)) viewer.behindSinceMs = this.#parts.clock.now();
    return true;
  }
}

/**
 * Refuses what a page of another site asks for in somebody's browser. It could not read the answer, but it could take every
 * place that there is for viewers. Only browsers say where they ask from.
 */
function ours(handle: (exchange: Exchange) => void): (exchange: Exchange) => void {
  return (exchange) => {
    const from = exchange.header('sec-fetch-site') ?? 'none';
    if (from === 'none' || from === 'same-origin') return handle(exchange);
    exchange.reply(403, { ...PLAIN, 'content-type': 'text/plain; charset=utf-8' }, 'not for pages of other sites\n');
  };
}

function textOf(event: string, data: object): string {
  return encodeEvent({ event, data: JSON.stringify(data) });
}

function eventOf(event: string, data: object): Block {
  return blockOf(textOf(event, data));
}
