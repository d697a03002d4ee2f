import type { Clock, Timer } from '../kernel/index.ts';
import { type Content, type Copy, contentOf } from './content.ts';
import { type Held, type Plan, requestOf } from './plan.ts';
import { type Head, ResponseReader, type ResponseSink } from './response-reader.ts';
import { type Failure, Retries } from './retries.ts';
import type { Ending, Tally } from './tally.ts';
import type { Target } from './target.ts';
import { isUnreachable, type Pace, Wire } from './wire.ts';

/** What all clients share. */
export interface World {
  readonly clock: Clock;
  readonly random: () => number;
  readonly target: Target;
  readonly isInsecure: boolean;
  readonly reconnects: boolean;
  readonly stalledAfterBytes: number;
  readonly leavingAfterBytes: number;
  readonly slowBytesPerSecond: number;
  readonly tally: Tally;
  /** A client got its first copy, or will never get one. */
  readonly onSettled: (client: Client) => void;
}

/** An attempt in progress. */
interface Attempt {
  readonly askedMs: number;
  /** On a connection that had carried an answer before. */
  readonly isReused: boolean;
  lastByteMs: number;
  head: Head | undefined;
  content: Content | undefined;
  /** When the framing said that it had ended: what is in it may be known only later. */
  endedMs: number | undefined;
  /** When everything had come. */
  wholeMs: number | undefined;
  lastEventMs: number;
  bodyBytes: number;
}

const IDLE_LOOK_MS = 500;

/** One client of the herd: it comes, reads as its role says, and comes back as its SDK does. */
export class Client {
  readonly plan: Plan;
  readonly #world: World;
  readonly #retries: Retries;
  readonly #held: Held;
  #wire: Wire | undefined;
  #attempt: Attempt | undefined;
  #reader: ResponseReader | undefined;
  #timer: Timer | undefined;
  #canReuse = false;
  #keepsTagAnyway = false;
  #lookedMs = 0;
  #wireBytes = 0;
  /** When it came, on the herd's clock; undefined before. */
  arrivedMs: number | undefined;
  attempts = 0;
  /** Attempts after one that failed, or after a stream that ended. */
  comebacks = 0;
  /** When the answer that brought the first copy began. */
  firstByteMs: number | undefined;
  /** When it had its first copy. */
  wholeMs: number | undefined;
  /** The size of the body of its first copy, as it came; of a stream, until everything had come. */
  copyBytes = 0;
  /** It will never come again. */
  isGone = false;
  /** When it last stood still; when it was cut standing the first time, and since when it stood then. */
  stoodMs: number | undefined;
  stoodAtCutMs: number | undefined;
  cutMs: number | undefined;
  /** It was made to lose its connection, and when it was up to date again. */
  lostMs: number | undefined;
  backMs: number | undefined;
  backWith: Copy | undefined;

  constructor(plan: Plan, world: World) {
    this.plan = plan;
    this.#world = world;
    this.#retries = new Retries(plan.profile, world.random, plan.everyMs);
    this.#held = {
      hasCopy: false,
      basis: undefined,
      lastEventId: undefined,
      tag: undefined,
      startsUp: true,
    };
  }

  get isConnected(): boolean {
    return this.#attempt !== undefined;
  }

  arrive(): void {
    this.arrivedMs = this.#world.clock.now();
    this.#world.tally.arrived(this.arrivedMs);
    this.#ask();
  }

  /** Looks at what time does: readers that are not steady, and the patience of the SDK. */
  tick(nowMs: number): void {
    const attempt = this.#attempt;
    if (attempt === undefined) return;
    if (this.#wire?.isStanding === true) {
      if (nowMs - this.#lookedMs < IDLE_LOOK_MS) return;
      this.#lookedMs = nowMs;
      this.#wire.look(nowMs);
      return;
    }
    this.#wire?.look(nowMs);
    const { answerMsMax, silenceMsMax } = this.plan.profile;
    if (nowMs - attempt.askedMs > answerMsMax || nowMs - attempt.lastByteMs > silenceMsMax) {
      this.#failed('timeout', 'the client waited long enough');
    }
  }

  /** Takes its connection away, as a load balancer that restarts does. */
  lose(): void {
    const attempt = this.#attempt;
    if (attempt === undefined) {
      // between two polls: the next one makes a new connection
      this.#close();
      return;
    }
    if (this.plan.profile.isStream && attempt.wholeMs !== undefined) this.lostMs = this.#world.clock.now();
    this.#comeBack(healthOf(attempt, this.#world.clock.now()));
  }

  /** Ends it; nothing is counted any more. */
  stop(): void {
    this.#timer?.cancel();
    this.#close();
  }

  #ask(): void {
    const { clock, tally, target, isInsecure } = this.#world;
    const { plan } = this;
    const nowMs = clock.now();
    this.attempts++;
    tally.attempts++;
    const attempt: Attempt = {
      askedMs: nowMs,
      isReused: this.#wire !== undefined,
      lastByteMs: nowMs,
      head: undefined,
      content: undefined,
      endedMs: undefined,
      wholeMs: undefined,
      lastEventMs: nowMs,
      bodyBytes: 0,
    };
    this.#attempt = attempt;
    this.#reader = this.#readerOf(attempt);
    if (this.#wire === undefined) {
      this.#wireBytes = 0;
      const wire: Wire = new Wire(
        {
          onPiece: (piece) => this.#take(piece),
          onClose: (cause) => {
            if (wire === this.#wire) this.#closed(cause);
          },
        },
        { target, pace: this.#pace(), localAddress: plan.localAddress, isInsecure, nowMs },
      );
      this.#wire = wire;
    }
    this.#wire.send(requestOf(plan, this.#held, target));
  }

  #pace(): Pace {
    const { stalledAfterBytes, slowBytesPerSecond } = this.#world;
    const { role } = this.plan;
    if (role === 'stalled') return { kind: 'stalled', afterBytes: stalledAfterBytes };
    return role === 'slow' ? { kind: 'slow', bytesPerSecond: slowBytesPerSecond } : { kind: 'steady' };
  }

  #readerOf(attempt: Attempt): ResponseReader {
    const isCurrent = (): boolean => attempt === this.#attempt;
    const sink: ResponseSink = {
      onHead: (head) => {
        if (isCurrent()) this.#began(attempt, head);
      },
      onBody: (piece) => {
        attempt.bodyBytes += piece.length;
        if (isCurrent()) attempt.content?.feed(piece);
      },
      onEnd: (reusable) => {
        if (isCurrent()) this.#ended(attempt, reusable);
      },
      onBroken: (what) => {
        if (isCurrent()) this.#failed('broken', what);
      },
    };
    return new ResponseReader(sink, (text) => this.#hide(text));
  }

  /** A server may send back the key that it was sent: no report has it. */
  #hide(text: string): string {
    return text.replaceAll(this.plan.key, '(key)');
  }

  #take(piece: Buffer): void {
    const { clock, tally, leavingAfterBytes } = this.#world;
    const nowMs = clock.now();
    this.#wireBytes += piece.length;
    tally.read(piece.length, nowMs);
    if (this.#attempt !== undefined) this.#attempt.lastByteMs = nowMs;
    this.#reader?.feed(piece);
    if (this.plan.role === 'leaving' && this.#wireBytes >= leavingAfterBytes) this.#leave();
    if (this.#wire?.isStanding === true) this.stoodMs = nowMs;
  }

  #began(attempt: Attempt, head: Head): void {
    const { clock, tally } = this.#world;
    const { profile } = this.plan;
    attempt.head = head;
    if (head.status === 200) {
      if (this.wholeMs === undefined) this.firstByteMs = clock.now();
      const { hasCopy, startsUp } = this.#held;
      const mayCatchUp = profile.kind === 'bouncer' ? !startsUp : hasCopy;
      attempt.content = contentOf(profile.kind, isGzip(head), this.#contentSink(attempt), mayCatchUp);
    } else if (head.status !== 304) {
      const retryAfter = head.headers.get('retry-after');
      tally.refusedWith(head.status, retryAfter === undefined ? undefined : this.#hide(retryAfter), clock.now());
      if (profile.forgetsTag !== 'never' && !this.#keepsTagAnyway) this.#held.tag = undefined;
    }
  }

  #contentSink(attempt: Attempt): Parameters<typeof contentOf>[2] {
    const isCurrent = (): boolean => attempt === this.#attempt;
    return {
      onWhole: (copy) => {
        if (isCurrent()) this.#whole(attempt, copy);
      },
      onChange: () => {
        attempt.lastEventMs = this.#world.clock.now();
        this.#world.tally.changes++;
      },
      onBasis: (state) => {
        this.#held.basis = state;
      },
      onBroken: (what) => {
        if (isCurrent()) this.#failed('broken', what);
      },
      onPressure: (isTooMuch) => {
        if (!isCurrent()) return;
        if (isTooMuch) this.#wire?.holdBack();
        else this.#wire?.goOn();
      },
    };
  }

  /** Everything has come. Of a poll, its answer has ended as well. */
  #whole(attempt: Attempt, copy: Copy): void {
    const { clock, tally } = this.#world;
    const nowMs = attempt.endedMs ?? clock.now();
    attempt.wholeMs = nowMs;
    attempt.lastEventMs = nowMs;
    tally.answered(copy);
    this.#held.hasCopy = true;
    if (this.lostMs !== undefined && this.backMs === undefined) {
      this.backMs = nowMs;
      this.backWith = copy;
    }
    if (this.wholeMs === undefined) {
      this.wholeMs = nowMs;
      this.copyBytes = attempt.bodyBytes;
      tally.served(nowMs);
      this.#world.onSettled(this);
    }
    if (!this.plan.profile.isStream) this.#polled(attempt);
  }

  #ended(attempt: Attempt, reusable: boolean): void {
    const { status, headers } = attempt.head!;
    this.#canReuse = reusable;
    attempt.endedMs = this.#world.clock.now();
    if (status === 200) {
      if (this.plan.profile.isStream) this.#streamEnded(attempt, 'end');
      else attempt.content?.ended();
    } else if (status === 304) {
      this.#world.tally.answered('current');
      this.#polled(attempt);
    } else {
      const retryAfter = headers.get('retry-after') ?? '';
      const told = /^\d{1,6}$/.test(retryAfter) ? { retryAfterMs: Number(retryAfter) * 1000 } : {};
      this.#comeBack({ status, ...told });
    }
  }

  /** A poll brought what it should. */
  #polled({ head }: Attempt): void {
    const { headers } = head!;
    this.#attempt = undefined;
    this.#held.startsUp = false;
    if (head!.status === 200) {
      this.#held.tag = headers.get('etag');
      this.#keepsTagAnyway = /stale-if-error/.test(headers.get('cache-control') ?? '');
    }
    // PHP's look-ups keep nothing from one page to the next
    if (this.plan.profile.kind === 'php') this.#held.tag = undefined;
    if (!this.#canReuse || !this.plan.profile.keepsConnection) this.#close();
    this.#wait(this.#retries.served());
  }

  /** The other side closed the connection. */
  #closed(cause: string): void {
    const attempt = this.#attempt;
    const wasStanding = this.#wire?.isStanding === true;
    this.#wire = undefined;
    // between two polls: the next one makes a new connection
    if (attempt === undefined) return;
    if (attempt.isReused && attempt.head === undefined) {
      // closed while the request was on its way: every HTTP library asks once more
      this.#ask();
      return;
    }
    if (wasStanding && this.cutMs === undefined) {
      this.stoodAtCutMs = this.stoodMs;
      this.cutMs = this.#world.clock.now();
    }
    // what came is whole, and is still being inflated; or it is whole by this end
    if (attempt.endedMs !== undefined || (cause === 'end' && this.#reader?.closed() === true)) return;
    if (attempt.wholeMs !== undefined) this.#streamEnded(attempt, cause);
    else if (attempt.head !== undefined) this.#failed('cut', cause);
    else this.#failed(isUnreachable(cause) ? 'unreachable' : 'unanswered', cause);
  }

  /** A stream was closed: after everything had come, or before. */
  #streamEnded(attempt: Attempt, cause: string): void {
    if (attempt.wholeMs === undefined) {
      this.#failed('cut', cause);
      return;
    }
    this.#world.tally.streamsEnded++;
    this.#comeBack(healthOf(attempt, this.#world.clock.now()));
  }

  #failed(ending: Ending, cause: string): void {
    this.#world.tally.ended(ending, cause, this.#world.clock.now());
    this.#comeBack({});
  }

  /** The attempt is over. Comes again when its SDK does. */
  #comeBack(failure: Failure): void {
    const content = this.#attempt?.content;
    this.#held.lastEventId = content?.lastEventId ?? this.#held.lastEventId;
    if (content?.retryMs !== undefined) this.#retries.told(content.retryMs);
    if (this.plan.profile.startsOver === 'after-failure') this.#held.startsUp = true;
    this.#close();
    const waitMs = this.#world.reconnects ? this.#retries.failed(failure) : undefined;
    if (waitMs === undefined) this.#goAway();
    else this.#waitToComeBack(waitMs);
  }

  #leave(): void {
    this.#close();
    this.#goAway();
  }

  #goAway(): void {
    this.isGone = true;
    this.#world.onSettled(this);
  }

  #wait(waitMs: number): void {
    if (waitMs === Number.POSITIVE_INFINITY) return;
    this.#timer = this.#world.clock.after(waitMs, () => this.#ask());
  }

  #waitToComeBack(waitMs: number): void {
    this.#timer = this.#world.clock.after(waitMs, () => {
      this.comebacks++;
      this.#ask();
    });
  }

  #close(): void {
    const wire = this.#wire;
    this.#attempt?.content?.drop();
    this.#attempt = undefined;
    this.#wire = undefined;
    wire?.leave();
  }
}

function isGzip({ headers }: Head): boolean {
  return headers.get('content-encoding')?.toLowerCase() === 'gzip';
}

/** How long a stream had been well: since its last event, as Go's and Node's SDKs measure. */
function healthOf({ wholeMs, lastEventMs }: Attempt, nowMs: number): Failure {
  return wholeMs === undefined ? {} : { healthyMs: nowMs - lastEventMs };
}
