import type { Audience } from '../directory.ts';
import { ChangeTimes } from '../../../delivery/index.ts';
import type { Environment, Survey } from '../environment.ts';
import type { Evaluated } from '../evaluation/types.ts';
import type { ClientSideOptions } from './deps.ts';
import { taken } from '../facts.ts';
import { FingerprintIndex } from './fingerprints.ts';
import type { OpenStream } from './open-stream.ts';
import { PingFeed } from './pings.ts';
import { Turns } from './turns.ts';
import { ValueFeed, type ValueStream } from './value-feed.ts';
import { Visible } from './visible.ts';

/** How many evaluations of open streams of one environment are under way at a time. */
const EVALUATIONS_MAX = 8;
/** What all streams of one environment and audience may take for knowing what they were sent: 16 MiB is 2,000 streams of 1,000 flags. */
const FINGERPRINT_BYTES_MAX = 64 * 1024 * 1024;
/** Before the first evaluation: two thousand flags have three times as much, most environments less. */
const EXPECTED: Expected = { bytes: 64 * 1024, flags: 512 };

/** What a full reply was the last time. */
interface Expected {
  readonly bytes: number;
  readonly flags: number;
}

/** What is known of one audience of one environment. */
export interface AudienceState {
  readonly visible: Visible;
  readonly prints: FingerprintIndex;
  expected: Expected;
}

/** One environment as browsers and phones follow it. */
export class ClientFeeds {
  readonly environment: Environment;
  readonly pings: PingFeed;
  readonly values: ValueFeed;
  /** Catch-ups of those who come back: not in line behind all that are open. */
  readonly catchUps: Turns;
  /** When the data changed, and what streams of values have taken of it. */
  readonly times: ChangeTimes = new ChangeTimes(taken);
  readonly #states = new Map<Audience, AudienceState>();
  readonly #unsubscribe: () => void;

  /** @param follow - brings a stream of values up to date */
  constructor(environment: Environment, options: ClientSideOptions, follow: (stream: ValueStream) => void) {
    const evaluationsMax = options.evaluationsMax ?? EVALUATIONS_MAX;
    this.environment = environment;
    this.pings = new PingFeed(options.front, options.pingJitterMs);
    this.values = new ValueFeed(options.front, new Turns(evaluationsMax), follow);
    this.catchUps = new Turns(evaluationsMax);
    this.#unsubscribe = environment.data.subscribe((event) => {
      for (const { visible } of this.#states.values()) {
        if (event.type === 'batch') visible.changed(event.batch);
        else visible.forget();
      }
      this.times.changed(environment.data.log, options.front.clock.now());
      this.pings.publish();
      this.values.wake();
    });
  }

  /** How many streams are open. */
  get size(): number {
    return this.pings.size + this.values.size;
  }

  streams(): OpenStream[] {
    return [...this.pings.streams(), ...this.values.streams()];
  }

  /** Tells of each open stream, and how many changes it has yet to be told of. */
  survey(look: Survey): void {
    this.pings.survey(look);
    const { next } = this.environment.data.log;
    // one that was sent nothing yet misses all there is
    for (const stream of this.values.streams())
      look(stream, stream.cursor < 0 ? Number.POSITIVE_INFINITY : next - stream.cursor);
  }

  of(audience: Audience): AudienceState {
    let state = this.#states.get(audience);
    if (state === undefined) {
      state = {
        visible: new Visible(audience),
        prints: new FingerprintIndex(FINGERPRINT_BYTES_MAX),
        expected: EXPECTED,
      };
      this.#states.set(audience, state);
    }
    return state;
  }

  /** Notes a full evaluation: what this audience sees, and how large it is. */
  evaluated(audience: Audience, { flags, offset }: Evaluated, bytes: number): void {
    const state = this.of(audience);
    if (flags.length > 0) state.expected = { bytes, flags: flags.length };
    const { log } = this.environment.data;
    // servers see everything, and nobody deletes anything with them
    if (audience === 'server' || state.visible.isKnown || offset < log.first || offset > log.next) return;
    state.visible.seen(
      flags.map(({ key }) => key),
      offset,
    );
    // what changed since is not in what was evaluated
    for (let at = offset; at < log.next; at++) {
      const batch = log.at(at);
      if (batch !== undefined) state.visible.changed(batch);
    }
  }

  /** What the values of so many flags take, about. */
  expectedBytes(audience: Audience, flags: number): number {
    const { expected } = this.of(audience);
    return (expected.bytes / expected.flags) * flags;
  }

  /** Ends a stream in good order. */
  end(stream: OpenStream): void {
    this.pings.end(stream);
    this.values.end(stream);
  }

  async closeStreams(overMs: number): Promise<void> {
    await Promise.all([this.pings.close(overMs), this.values.close(overMs)]);
  }

  close(): void {
    this.#unsubscribe();
    void this.closeStreams(0);
  }
}
