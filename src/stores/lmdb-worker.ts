import { parentPort } from 'node:worker_threads';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import { type FileRequest, LmdbFile } from './lmdb-file.ts';

/** A call to the thread of a store. */
export interface FileCall {
  readonly number: number;
  readonly request: FileRequest;
}

/** What became of it. */
export interface FileAnswer {
  readonly number: number;
  readonly pack?: Uint8Array<ArrayBuffer> | undefined;
  /** Its message, when the call failed. */
  readonly failed?: string;
}

const file = new LmdbFile();
let last: Promise<void> = Promise.resolve();

async function answer({ number, request }: FileCall): Promise<void> {
  let told: FileAnswer;
  try {
    told = { number, pack: await file.handle(request) };
  } catch (thrown) {
    told = { number, failed: thrown instanceof HeadgateError ? thrown.message : messageOf(thrown) };
  }
  parentPort?.postMessage(told, told.pack === undefined ? [] : [told.pack.buffer]);
}

parentPort?.on('message', (call: FileCall) => {
  last = last.then(() => answer(call));
});
