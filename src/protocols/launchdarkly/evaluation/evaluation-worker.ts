import { parentPort } from 'node:worker_threads';
import { ThreadRoom } from './thread-room.ts';
import type { FromThread, ToThread } from './types.ts';

// The thread that evaluates; `thread.ts` starts it.
const room = new ThreadRoom(
  (message: FromThread) => {
    if (message.type !== 'evaluated') return parentPort?.postMessage(message);
    const { keyEnds, versions, ends } = message.packed;
    parentPort?.postMessage(message, [keyEnds.buffer, versions.buffer, ends.buffer]);
  },
  (thrown) => {
    // outside of the promise, so that it ends this thread with its message
    queueMicrotask(() => {
      throw thrown;
    });
  },
);
// a malformed flag can throw in a microtask of the vendor's; it is answered for as such, and must not end the thread
process.on('unhandledRejection', () => {});
parentPort?.on('message', (message: ToThread) => room.handle(message));
