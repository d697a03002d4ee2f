import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { messageOf } from '../../../kernel/index.ts';
import type { EvaluationThread, FromThread, ToThread } from './types.ts';

/** Absent when this runs from source, as under a test runner; the work is then done on this thread. */
const WORKER = new URL('./evaluation-worker.js', import.meta.url);
/**
 * The SDK hands the entries of a list to one call as its arguments, which lie on the stack: eight bytes for each member of a
 * segment. The memory is taken as it is used.
 */
const STACK_MB = 64;

/** Begins a thread that evaluates. */
export function beginThread(): EvaluationThread {
  return existsSync(fileURLToPath(WORKER)) ? new WorkerThread(WORKER) : new ThisThread();
}

/** A thread of its own. */
export class WorkerThread implements EvaluationThread {
  readonly #worker: Worker;
  #ended = false;

  constructor(file: URL) {
    this.#worker = new Worker(file, { resourceLimits: { stackSizeMb: STACK_MB } });
  }

  post(message: ToThread): void {
    this.#worker.postMessage(message);
  }

  onMessage(listener: (message: FromThread) => void): void {
    this.#worker.on('message', listener);
  }

  onEnd(listener: (cause: string) => void): void {
    const told = (cause: string): void => {
      if (this.#ended) return;
      this.#ended = true;
      listener(cause);
    };
    this.#worker.on('error', (error) => told(messageOf(error)));
    this.#worker.on('exit', (code) => told(`it ended with ${code}`));
  }

  hold(busy: boolean): void {
    if (busy) this.#worker.ref();
    else this.#worker.unref();
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.#worker.terminate();
  }
}

/** The same on this thread. */
class ThisThread implements EvaluationThread {
  readonly #listeners: ((message: FromThread) => void)[] = [];
  readonly #endListeners: ((cause: string) => void)[] = [];
  /** Loaded by the first message: whoever evaluates nothing loads no SDK. */
  #room: Promise<{ handle(message: ToThread): void }> | undefined;
  #ended = false;

  post(message: ToThread): void {
    this.#room ??= this.#begin();
    void this.#room.then((room) => room.handle(message));
  }

  onMessage(listener: (message: FromThread) => void): void {
    this.#listeners.push(listener);
    this.#room ??= this.#begin();
  }

  onEnd(listener: (cause: string) => void): void {
    this.#endListeners.push(listener);
  }

  hold(): void {}

  async end(): Promise<void> {
    this.#ended = true;
  }

  async #begin(): Promise<{ handle(message: ToThread): void }> {
    const { ThreadRoom } = await import('./thread-room.ts');
    return new ThreadRoom(
      (message) => this.#tell(message),
      (thrown) => {
        if (!this.#ended) for (const listener of this.#endListeners) listener(messageOf(thrown));
      },
    );
  }

  #tell(message: FromThread): void {
    setImmediate(() => {
      if (!this.#ended) for (const listener of this.#listeners) listener(message);
    });
  }
}
