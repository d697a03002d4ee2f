import { dropped, type EventsFact, failed, received, sent, stopped } from './facts.ts';
import type { DropCause, EnvironmentEventStats, EventTally, FailureCause } from './types.ts';

interface Sum {
  payloads: number;
  events: number;
  bytes: number;
}

interface Account {
  readonly received: Sum;
  readonly sent: Sum;
  readonly failed: Record<FailureCause, Sum>;
  readonly dropped: Record<DropCause, Sum>;
}

/** How a try went that did not succeed. */
export interface Failure {
  readonly cause: FailureCause;
  readonly status: number | undefined;
  readonly error: unknown;
  readonly tries: number;
  /** The payload is given up. */
  readonly final: boolean;
}

/** Counts what became of events, and makes it known. */
export class Ledger {
  readonly #accounts = new Map<string, Account>();

  received(fact: EventsFact, tally: EventTally): void {
    add(this.#account(fact).received, tally);
    received.publish(() => ({ ...fact, ...tally }));
  }

  sent(fact: EventsFact, tally: EventTally, how: { readonly tries: number; readonly tookMs: number }): void {
    add(this.#account(fact).sent, tally);
    sent.publish(() => ({ ...fact, ...tally, ...how }));
  }

  failed(fact: EventsFact, tally: EventTally, how: Failure): void {
    if (how.final) add(this.#account(fact).failed[how.cause], tally);
    failed.publish(() => ({ ...fact, ...tally, ...how }));
  }

  dropped(fact: EventsFact, tally: EventTally, cause: DropCause): void {
    add(this.#account(fact).dropped[cause], tally);
    dropped.publish(() => ({ ...fact, ...tally, cause }));
  }

  stopped(fact: EventsFact, status: number): void {
    stopped.publish(() => ({ ...fact, status }));
  }

  forget(environment: string): void {
    this.#accounts.delete(environment);
  }

  stats(): Record<string, EnvironmentEventStats> {
    return structuredClone(Object.fromEntries(this.#accounts));
  }

  #account({ environment }: EventsFact): Account {
    let account = this.#accounts.get(environment);
    if (account === undefined) this.#accounts.set(environment, (account = newAccount()));
    return account;
  }
}

function newAccount(): Account {
  return {
    received: nothing(),
    sent: nothing(),
    failed: { network: nothing(), status: nothing(), refused: nothing() },
    dropped: { full: nothing(), invalid: nothing(), 'too-large': nothing(), refused: nothing(), closed: nothing() },
  };
}

function nothing(): Sum {
  return { payloads: 0, events: 0, bytes: 0 };
}

function add(sum: Sum, { payloads, events, bytes }: EventTally): void {
  sum.payloads += payloads;
  sum.events += events;
  sum.bytes += bytes;
}
