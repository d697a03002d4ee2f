/**
 * Work in order of waiting, so much of it at a time.
 *
 * @example
 * const turns = new Turns(1);
 * const order: number[] = [];
 * await Promise.all([1, 2].map((number) => turns.run(async () => order.push(number))));
 * console.log(order, turns.running, turns.waiting); // [ 1, 2 ] 0 0
 */
export class Turns {
  readonly #max: number;
  readonly #line: (() => void)[] = [];
  /** Where the line begins: taking from the front of a long array would move the rest. */
  #head = 0;
  #running = 0;

  /** @param max - how much may run at a time, at least 1. */
  constructor(max: number) {
    this.#max = max;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#line.length - this.#head;
  }

  /** Runs work when it is its turn, and gives its outcome. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#max) this.#running++;
    else await new Promise<void>((resolve) => this.#line.push(resolve));
    try {
      return await work();
    } finally {
      this.#handOver();
    }
  }

  /** The place goes on to the next one without becoming free between. */
  #handOver(): void {
    const next = this.#line[this.#head];
    if (next === undefined) {
      this.#running--;
      return;
    }
    this.#head++;
    if (this.#head === this.#line.length) {
      this.#line.length = 0;
      this.#head = 0;
    } else if (this.#head >= COMPACT_AT) {
      this.#line.splice(0, this.#head);
      this.#head = 0;
    }
    next();
  }
}

const COMPACT_AT = 1024;
