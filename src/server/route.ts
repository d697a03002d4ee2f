import type { Exchange } from '../delivery/index.ts';

/** Some methods of one path, and who answers them. Several routes may share a path. */
export interface Route {
  /** In capitals; `'*'` stands for every method. Other methods are answered 405. */
  readonly methods: readonly string[] | '*';
  /** `:name` stands for one segment, `/*` at the end for everything below that no other route answers. */
  readonly path: string;
  /** @param params - the segments by name; what `*` stands for, as `*`. */
  readonly handle: (exchange: Exchange, params: Readonly<Record<string, string>>) => Promise<void> | void;
}
