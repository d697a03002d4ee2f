import { ServerResponse } from 'node:http';
import { Http2ServerResponse } from 'node:http2';
import type { Source } from '../delivery/index.ts';
import type { NodeResponse } from './types.ts';

/** About as much at a time as the engine would write. */
const BYTES_WANTED = 65_536;

/**
 * Whether somebody has put his own `write` in place of the response's, as middleware that compresses does. What reaches the
 * client is his to say then, and the response must not be written around him.
 */
export function isWrapped(res: NodeResponse): boolean {
  const own: object = 'stream' in res ? Http2ServerResponse.prototype : ServerResponse.prototype;
  return Reflect.get(res, 'write') !== Reflect.get(own, 'write');
}

/** How far a payload has got through a wrapped response. */
export interface Passage {
  bytes: number;
  /** The response is over: nothing more is wanted. */
  over: boolean;
}

/**
 * Writes a source to a response by its own `write`, no further than it has room, until all is written or nobody wants it.
 * Callbacks of writes are not asked for: who wraps a response may not hand them on.
 */
export async function writeThrough(res: NodeResponse, source: Source, passage: Passage): Promise<void> {
  // one listener for all writes: who wraps a response may put it elsewhere, where it cannot be taken back
  let wake: (() => void) | undefined;
  res.on('drain', () => wake?.());
  while (!passage.over) {
    const pieces = await source.next(BYTES_WANTED);
    for (const piece of pieces ?? []) {
      if (passage.over) return;
      passage.bytes += piece.byteLength;
      const room = new Promise<void>((resolve) => (wake = resolve));
      if (!(res as ServerResponse).write(piece)) await room;
    }
    if (pieces === undefined) return;
  }
}
