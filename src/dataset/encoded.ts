import { Fact } from '../kernel/index.ts';

/** Something was encoded: a page in one shape, or the pages that an answer needed and nobody had made yet. */
export interface PagesEncoded {
  /** Items of a data set, or decisions of a ledger. */
  readonly data: 'items' | 'decisions';
  readonly encoding: 'identity' | 'gzip';
  /** What came of it. */
  readonly bytes: number;
  /** Time in this thread; of what is compressed until it was there, in a thread of the pool or in line for one. */
  readonly ms: number;
}

/** Told once for each piece of work, however many clients are sent it. */
export const pagesEncoded: Fact<PagesEncoded> = new Fact('headgate:dataset.encoded');
