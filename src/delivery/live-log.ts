import type { Block } from './channel.ts';
import type { LiveLog } from './live.ts';

/** A log of batches, each of which remembers what was made of it. The log of a data set is one. */
export interface BatchLog<B extends Remembering> {
  /** Offsets in [first, next) can be read. */
  readonly first: number;
  readonly next: number;
  at(offset: number): B | undefined;
}

/** Something that is made into others, each of them once. */
export interface Remembering {
  /** What `make` gives, made once per key. */
  memo<T>(key: string, make: () => T): T;
}

/**
 * A log of batches as live clients follow it: each batch is made into a block once, when the first of them needs it.
 *
 * @param name - of what the blocks show, and in which encoding. No other log of the same batches may have it.
 * @example
 * const event: Block = eventBlock({ data: 'one' });
 * const batches = [{ memo: <T>(_: string, make: () => T): T => make() }];
 * const log = liveLogOf({ first: 0, next: 1, at: (offset) => batches[offset] }, 'events', () => event);
 * console.log(log.next, log.block(0) === event, log.block(1)); // 1 true undefined
 */
export function liveLogOf<B extends Remembering>(log: BatchLog<B>, name: string, make: (batch: B) => Block): LiveLog {
  return {
    get first(): number {
      return log.first;
    },
    get next(): number {
      return log.next;
    },
    block(offset: number): Block | undefined {
      const batch = log.at(offset);
      return batch?.memo(name, () => make(batch));
    },
  };
}
