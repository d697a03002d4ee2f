import { Changing } from './conditions.ts';

/** A store of one record that can be made to fail, or to take its time. */
export class AutoConfigRecord extends Changing {
  /** What is kept. */
  bytes: Uint8Array | undefined;
  /** How often something was to be kept. */
  saves = 0;
  /** How often it was asked what is kept. */
  loads = 0;
  failure: Error | undefined;
  #gate: Promise<void> | undefined;
  #open: () => void = () => {};

  /** From now on everything waits until {@link release}. */
  hold(): void {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  release(): void {
    this.#gate = undefined;
    this.#open();
  }

  async load(): Promise<Uint8Array | undefined> {
    this.loads += 1;
    this.changed();
    await this.#gate;
    if (this.failure !== undefined) throw this.failure;
    return this.bytes;
  }

  async save(bytes: Uint8Array): Promise<void> {
    this.saves += 1;
    this.changed();
    await this.#gate;
    if (this.failure !== undefined) throw this.failure;
    this.bytes = bytes;
    this.changed();
  }
}
