declare module 'express-queue' {
  import type { RequestHandler } from 'express';

  /** What its documentation says; it has no types of its own. */
  function queueOf(options: { activeLimit: number; queuedLimit: number }): RequestHandler & {
    readonly queue: { getLength(): number; readonly activeCount: number };
  };
  export default queueOf;
}
