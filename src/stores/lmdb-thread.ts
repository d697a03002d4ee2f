import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import type { FileRequest, LmdbFile } from './lmdb-file.ts';
import type { FileAnswer, FileCall } from './lmdb-worker.ts';

/** Whoever does what is asked of a file, in the order of the calls. */
export interface FileThread {
  /** Packs in a request are given away. Rejects with HG_STORE. */
  call(request: FileRequest): Promise<Uint8Array | undefined>;
  /** Ends it; what it has not answered is rejected. */
  end(): Promise<void>;
}

/** Absent when this runs from source, as under a test runner; the work is then done on this thread. */
const WORKER = new URL('./lmdb-worker.js', import.meta.url);

/** Begins a thread for one file: a commit waits for the disk, and must not hold up the event loop meanwhile. */
export function beginThread(): FileThread {
  return existsSync(fileURLToPath(WORKER)) ? new WorkerThread() : new ThisThread();
}

class ThisThread implements FileThread {
  #file: LmdbFile | undefined;
  #last: Promise<unknown> = Promise.resolve();

  call(request: FileRequest): Promise<Uint8Array | undefined> {
    const answer = this.#last.then(() => this.#handle(request));
    this.#last = answer.catch(() => {});
    return answer;
  }

  async #handle(request: FileRequest): Promise<Uint8Array | undefined> {
    if (this.#file === undefined) {
      // not at the top: whoever uses no store, or has a thread for it, does not load LMDB
      const room = await import('./lmdb-file.ts');
      this.#file = new room.LmdbFile();
    }
    return this.#file.handle(request);
  }

  async end(): Promise<void> {
    await this.#last;
  }
}

interface Waiting {
  readonly resolve: (pack: Uint8Array | undefined) => void;
  readonly reject: (error: HeadgateError) => void;
}

class WorkerThread implements FileThread {
  readonly #worker: Worker = new Worker(WORKER);
  readonly #waiting = new Map<number, Waiting>();
  #number = 0;
  #ended: string | undefined;

  constructor() {
    // a store that is idle keeps no process alive; one that has calls to answer does
    this.#worker.unref();
    this.#worker.on('message', (answer: FileAnswer) => this.#settle(answer));
    this.#worker.on('error', (error) => this.#fail(messageOf(error)));
    this.#worker.on('exit', (code) => this.#fail(`it ended with ${code}`));
  }

  call(request: FileRequest): Promise<Uint8Array | undefined> {
    if (this.#ended !== undefined) return Promise.reject(lost(this.#ended));
    this.#number += 1;
    const call: FileCall = { number: this.#number, request };
    return new Promise((resolve, reject) => {
      this.#waiting.set(call.number, { resolve, reject });
      this.#worker.ref();
      this.#worker.postMessage(call, request.act === 'put' ? [request.pack.buffer as ArrayBuffer] : []);
    });
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #settle({ number, pack, failed }: FileAnswer): void {
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (failed === undefined) waiting?.resolve(pack);
    else waiting?.reject(new HeadgateError('HG_STORE', failed));
  }

  #fail(cause: string): void {
    this.#ended ??= cause;
    for (const { reject } of this.#waiting.values()) reject(lost(this.#ended));
    this.#waiting.clear();
  }
}

function lost(cause: string): HeadgateError {
  return new HeadgateError(
    'HG_STORE',
    `Cannot use the store: its thread has ended, got ${cause}. Set \`store: none\` to do without one`,
  );
}
