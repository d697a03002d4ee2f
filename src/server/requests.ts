import type { ServerResponse } from 'node:http';
import type { Http2ServerResponse } from 'node:http2';
import type { Exchange } from '../delivery/index.ts';
import { Fact } from '../kernel/index.ts';

/** A request, once its answer is over. */
export interface RequestFact {
  /** The path of the route as it was registered; `404`, `405` or `redirect` where none answered. */
  readonly route: string;
  readonly method: string;
  readonly status: number;
  /** From the request to the end of its answer, which a stream has when it is closed. */
  readonly ms: number;
  /** False: the client went away first, or the answer was cut. */
  readonly complete: boolean;
}

/** A request is over: the most frequent fact of all. */
export const requested: Fact<RequestFact> = new Fact('headgate:server.requested');

/** Requests under way. Nothing is counted while nobody listens to {@link requested}. */
export class Requests {
  #active = 0;

  get active(): number {
    return this.#active;
  }

  begin(route: string, exchange: Exchange, response: ServerResponse | Http2ServerResponse): void {
    if (!requested.isHeard) return;
    const beganMs = performance.now();
    this.#active++;
    exchange.onClose((complete) => {
      this.#active--;
      const { statusCode: status } = response;
      const ms = performance.now() - beganMs;
      requested.publish(() => ({ route, method: exchange.method, status, ms, complete }));
    });
  }
}
