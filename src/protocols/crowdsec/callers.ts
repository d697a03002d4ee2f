import { EventEmitter } from 'node:events';
import type { Exchange } from '../../delivery/index.ts';
import type { Origin } from './client.ts';

/** A connection that one bouncer keeps, for as long as it is open. */
export interface Caller {
  readonly isGone: boolean;
  /** Calls `listener` once, when the connection is closed or turns out to carry several bouncers; at once when it is. */
  onGone(listener: () => void): void;
}

/**
 * Tells connections of bouncers from connections of proxies: the first say who asks, the second do not.
 *
 * A connection that carried two keys is pooled by something in between, as is one whose client a proxy names.
 */
export class Callers {
  readonly #known = new WeakMap<object, KnownCaller>();

  /** @param id - of the bouncer that asks. Undefined: the connection says nothing about the client. */
  of(exchange: Pick<Exchange, 'connection'>, id: string, origin: Pick<Origin, 'forwarded'>): Caller | undefined {
    if (origin.forwarded) return undefined;
    const { connection } = exchange;
    const known = this.#known.get(connection);
    if (known === undefined) return this.#meet(connection, id);
    if (known.id === id) return known.isGone ? undefined : known;
    known.id = undefined;
    known.gone();
    return undefined;
  }

  #meet(connection: object, id: string): Caller | undefined {
    // one that is over says so no more: it would be here for ever
    if (!(connection instanceof EventEmitter) || ('destroyed' in connection && connection.destroyed === true))
      return undefined;
    const caller = new KnownCaller(id);
    this.#known.set(connection, caller);
    connection.once('close', () => caller.gone());
    return caller;
  }
}

class KnownCaller implements Caller {
  /** Undefined: of several. No bouncer has that. */
  id: string | undefined;
  isGone = false;
  #listeners: (() => void)[] = [];

  constructor(id: string) {
    this.id = id;
  }

  onGone(listener: () => void): void {
    if (this.isGone) listener();
    else this.#listeners.push(listener);
  }

  gone(): void {
    this.isGone = true;
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }
}
