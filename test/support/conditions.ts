/** Generous: the machine may be busy with other work, and a condition that holds is seen at once. */
const WAIT_MS_MAX = 20_000;

/** Something that changes now and then, and tells when. */
export class Changing {
  readonly #listeners = new Set<() => void>();

  /** Tells those who wait to look again. */
  protected changed(): void {
    for (const listener of Array.from(this.#listeners)) listener();
  }

  /** Calls `listener` at each change. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Waits until `holds`, which is asked at each change. */
  until(what: string, holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#listeners.delete(look);
        reject(new Error(`Cannot see ${what}: nothing for ${WAIT_MS_MAX} ms, got ${this.describe()}`));
      }, WAIT_MS_MAX);
      const look = (): void => {
        if (!holds()) return;
        clearTimeout(timer);
        this.#listeners.delete(look);
        resolve();
      };
      this.#listeners.add(look);
    });
  }

  /** For the message of a wait that failed. */
  protected describe(): string {
    return 'no more';
  }
}

/** Lets the event loop turn, so that sockets and callbacks have their say. */
export async function turns(count = 1): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

/** Waits until `holds`, asked at every turn of the event loop: for what tells nobody when it changes. */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const byMs = performance.now() + WAIT_MS_MAX;
  while (!holds()) {
    if (performance.now() > byMs) throw new Error(`Cannot see ${what}: nothing for ${WAIT_MS_MAX} ms`);
    await turns();
  }
}
