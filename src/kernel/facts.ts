import { type Channel, channel, subscribe, unsubscribe } from 'node:diagnostics_channel';

/**
 * A fact that a room makes known, under one name, with one shape. Nothing is built or paid while nobody listens.
 *
 * @example
 * const refused = new Fact<{ reason: string }>('headgate:example.refused');
 * const stop = refused.listen(({ reason }) => console.log(reason)); // full
 * refused.publish(() => ({ reason: 'full' }));
 * stop();
 */
export class Fact<T extends object> {
  readonly name: string;
  readonly #channel: Channel;

  /** @param name - the name on `node:diagnostics_channel`, for listeners outside of this package. */
  constructor(name: string) {
    this.name = name;
    this.#channel = channel(name);
  }

  /** Whether anybody listens: for what must be prepared before the fact is there. */
  get isHeard(): boolean {
    return this.#channel.hasSubscribers;
  }

  /** Makes the fact known. `make` runs only when somebody listens. */
  publish(make: () => T): void {
    if (this.#channel.hasSubscribers) this.#channel.publish(make());
  }

  /** Listens; the answer stops listening. */
  listen(listener: (fact: T) => void): () => void {
    const onMessage = (message: unknown): void => listener(message as T);
    subscribe(this.name, onMessage);
    return () => unsubscribe(this.name, onMessage);
  }
}
