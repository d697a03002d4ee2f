import type { Change } from '../../../dataset/index.ts';
import type { Exchange } from '../../../delivery/index.ts';
import type { FrontOptions } from '../deps.ts';
import type { Directory } from '../directory.ts';
import type { ParsedContext } from '../evaluation/context.ts';
import type { Evaluated, EvaluationRequest } from '../evaluation/types.ts';

/** What of an evaluator this side uses. */
export interface Evaluating {
  /** All flags that an audience sees, or some of them, for one context. */
  evaluate(request: EvaluationRequest): Promise<Evaluated>;
  parseContext(json: string): ParsedContext | { readonly error: string };
  /** Which flags may have another value after these changes. */
  affected(environmentId: string, changes: readonly Change[]): readonly string[] | Promise<readonly string[]>;
}

/** What the vendor's service said about goals. */
interface GoalsReply {
  readonly status: number;
  /** Names in lower case. Those that speak about the connection are dropped. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** What browsers and phones are served with. */
export interface ClientSideOptions {
  readonly front: FrontOptions;
  readonly directory: Pick<Directory, 'find' | 'findPublic' | 'leadsTo'>;
  readonly evaluations: Evaluating;
  /** The largest body of a request that holds a context, in bytes. */
  readonly bodyBytesMax: number;
  /** Pings of one change are spread over this time, in milliseconds; 0 sends all at once. */
  readonly pingJitterMs: number;
  /** How many open streams of one environment may be evaluated at a time after a change. Default 8. */
  readonly evaluationsMax?: number;
  /** How long a full reply waits for its turn, in milliseconds. Default the front's `streamWaitMsMax`. */
  readonly waitMsMax?: number;
  /** Asks the service for goals; absent: there is no service. A rejection is answered 502. */
  readonly goals?: (envId: string, headers: Readonly<Record<string, string>>) => Promise<GoalsReply>;
}

/** One path of this side, as the front has them: methods other than those named are answered 405. */
export interface ClientRoute {
  readonly methods: readonly string[];
  /** `:name` stands for one segment. */
  readonly path: string;
  readonly handle: (exchange: Exchange, params: Readonly<Record<string, string>>) => Promise<void> | void;
}
