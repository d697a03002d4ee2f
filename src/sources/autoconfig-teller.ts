import { Fact, HeadgateError } from '../kernel/index.ts';
import { stepsBetween } from './autoconfig-order.ts';
import type { AutoConfigMessage, Malformed } from './autoconfig-reps.ts';
import { type AutoConfigEnvironment, AutoConfigState } from './autoconfig-state.ts';

/** Where a configuration came from. */
export type AutoConfigOrigin = 'upstream' | 'cache';

/** What of the automatic configuration was told at once. */
export const autoConfigTold: Fact<{
  readonly from: AutoConfigOrigin;
  readonly upserts: number;
  readonly removes: number;
  /** Descriptions that came and could not be read. */
  readonly malformed: number;
}> = new Fact('headgate:autoconfig.told');

/** Settings of a {@link Teller}. */
interface TellerOptions {
  readonly upsert: (environment: AutoConfigEnvironment) => void;
  readonly remove: (envId: string) => void;
  readonly complete: (from: AutoConfigOrigin) => void;
  readonly failed: (error: HeadgateError) => void;
  /** What is known has changed, and upstream has told everything: it may take the place of what was saved. */
  readonly save: (text: () => string) => void;
}

/** Takes over what upstream or the cache says, and tells what has become of it, in one turn of the event loop each time. */
export class Teller {
  readonly #options: TellerOptions;
  readonly #state = new AutoConfigState();
  /** What the listener has heard. */
  readonly #told = new Map<string, AutoConfigEnvironment>();
  /** By ID: why what came last of it cannot be read. */
  #malformed = new Map<string, string>();
  #heard = false;
  #isWhole = false;

  constructor(options: TellerOptions) {
    this.#options = options;
  }

  /** From upstream. */
  take(message: AutoConfigMessage): void {
    this.#heard ||= message.kind !== 'unknown';
    const isPut = message.kind === 'put';
    const changed = this.#state.apply(message);
    const malformed = this.#judge(message);
    this.#tell('upstream', malformed.length);
    const isFirst = isPut && !this.#isWhole;
    this.#isWhole ||= isPut;
    if ((changed && this.#isWhole) || isFirst) this.#options.save(() => this.#state.save());
    for (const one of malformed) this.#options.failed(unreadable(one));
    if (isPut) this.#options.complete('upstream');
  }

  /** From the cache: it counts as long as upstream has said nothing. */
  restore(text: string): void {
    if (this.#heard) return;
    const malformed = this.#state.restore(text);
    if (malformed === undefined) {
      this.#options.failed(
        new HeadgateError('HG_STORE', 'Cannot use the cache of the automatic configuration: its text has another form'),
      );
      return;
    }
    for (const one of malformed) this.#malformed.set(nameOf(one), one.cause);
    this.#tell('cache', malformed.length);
    for (const one of malformed) this.#options.failed(unreadable(one));
    this.#options.complete('cache');
  }

  #tell(from: AutoConfigOrigin, malformed: number): void {
    let removes = 0;
    const steps = stepsBetween(this.#told, this.#state.environments());
    for (const step of steps) {
      if (step.kind === 'remove') {
        removes += 1;
        this.#options.remove(step.envId);
        this.#told.delete(step.envId);
      } else {
        this.#options.upsert(step.environment);
        this.#told.set(step.environment.envId, step.environment);
      }
    }
    const upserts = steps.length - removes;
    if (steps.length + malformed > 0) autoConfigTold.publish(() => ({ from, upserts, removes, malformed }));
  }

  /** What cannot be read and was not told so before: every put has it again. */
  #judge(message: AutoConfigMessage): Malformed[] {
    if (message.kind === 'patch' || message.kind === 'delete') this.#malformed.delete(nameOf(message));
    if (message.kind !== 'put' && message.kind !== 'malformed') return [];
    const found = message.kind === 'put' ? message.malformed : [message.malformed];
    const fresh = found.filter((one) => this.#malformed.get(nameOf(one)) !== one.cause);
    if (message.kind === 'put') this.#malformed = new Map();
    for (const one of found) this.#malformed.set(nameOf(one), one.cause);
    return fresh;
  }
}

function nameOf({ of, id }: Pick<Malformed, 'of' | 'id'>): string {
  return `${of}/${id}`;
}

function unreadable({ of, id, place, cause }: Malformed): HeadgateError {
  const what = of === 'environments' ? 'an environment' : 'a filter';
  return new HeadgateError(
    'HG_UPSTREAM',
    `Cannot take over ${what} of the automatic configuration, so what is known of it stays: ${place}: ${cause}, got ${id}`,
  );
}
