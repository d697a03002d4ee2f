/** One run and how many wait for it. */
interface Flight<T> {
  readonly controller: AbortController;
  readonly result: Promise<T>;
  callers: number;
}

/**
 * One run for all who ask for the same thing at the same time.
 *
 * The key must name everything that decides the content (position, view, encoding): whoever joins gets what the
 * one who came first asked for. Nothing is kept: once a run has settled, well or badly, the next caller starts a
 * new one.
 *
 * @example
 * const flights = new SingleFlight();
 * let runs = 0;
 * const encode = async () => { runs++; return 'pages'; };
 * const both = await Promise.all([flights.run('digest:view:gzip', encode), flights.run('digest:view:gzip', encode)]);
 * console.log(both.join(), runs); // pages,pages 1
 */
export class SingleFlight<T> {
  readonly #flights: Map<string, Flight<T>> = new Map();

  /** Runs in progress. */
  get size(): number {
    return this.#flights.size;
  }

  /**
   * Joins the run for `key`, or starts it.
   *
   * @param start - called at once if there is no run for `key`. Its signal aborts when every caller has given up.
   * @param signal - this caller's own; when it aborts, only this caller's promise rejects, with the signal's reason.
   * @returns what the run resolves to; rejects as the run does.
   */
  run(key: string, start: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    const flight = this.#flights.get(key) ?? this.#begin(key, start);
    flight.callers++;
    return new Promise((resolve, reject) => {
      flight.result.then(resolve, reject);
      if (signal === undefined) return;
      const leave = (): void => {
        reject(signal.reason);
        flight.callers--;
        if (flight.callers === 0) this.#giveUp(key, flight, signal.reason);
      };
      // `start` may have aborted the very signal it was called for: that event has gone by
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave);
      // a long-lived signal must not collect a listener for every run
      const landed = (): void => signal.removeEventListener('abort', leave);
      flight.result.then(landed, landed);
    });
  }

  #begin(key: string, start: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    // async, so that a `start` that throws is a run that failed
    const run = async (): Promise<T> => start(controller.signal);
    const flight: Flight<T> = { controller, result: run(), callers: 0 };
    this.#flights.set(key, flight);
    const forget = (): void => this.#forget(key, flight);
    flight.result.then(forget, forget);
    return flight;
  }

  /** The flight is forgotten first: whoever asks now must not join a run that is being stopped. */
  #giveUp(key: string, flight: Flight<T>, reason: unknown): void {
    this.#forget(key, flight);
    flight.controller.abort(reason);
  }

  /** The key may have a newer flight by now. */
  #forget(key: string, flight: Flight<T>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
  }
}
