/** Lets one at a time in, in the order of arrival. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  /** Resolves when it is the caller's turn, with what ends it; calling that again does nothing. */
  async take(): Promise<() => void> {
    let done: () => void = () => {};
    const before = this.#last;
    this.#last = new Promise((resolve) => {
      done = resolve;
    });
    await before;
    return done;
  }
}
