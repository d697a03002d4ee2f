import { LapiError } from './lapi-error.ts';
import type { LapiClient } from './lapi-client.ts';

/** A request of a client that is passed on. */
export interface ForwardRequest {
  readonly method: string;
  /** Path and query, as sent. */
  readonly target: string;
  /** By name in lower case. The client's own credentials are among them; ours are not added. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal?: AbortSignal;
}

/** What the local API answered. */
export interface ForwardReply {
  readonly status: number;
  /** By name in lower case, without those that speak of one connection only (RFC 9110 section 7.6.1). */
  readonly headers: Readonly<Record<string, string>>;
  /** To be read to its end or left; throws HG_SOURCE when the answer is cut. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** How many are under way at once; each is a connection. */
const UNDER_WAY_MAX = 64;
/** How many wait for a connection: each holds its body, which the caller bounds. */
const WAITING_MAX = 256;
/** RFC 9110 section 7.6.1, and what is set anew: the authority, and the length of a body that we have whole. */
const OF_ONE_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
]);
const SET_ANEW: ReadonlySet<string> = new Set(['host', 'content-length']);

/** How many requests of clients may be passed on at once. */
export const FORWARD_SOCKETS_MAX: number = UNDER_WAY_MAX;

/** Passes requests on as they are, through a pool of their own: no number of them keeps us from pulling. */
export class Forwarder {
  readonly #client: LapiClient;
  /** Requests whose answer has not begun. */
  #pending = 0;

  constructor(client: LapiClient) {
    this.#client = client;
  }

  /** Resolves when the head of the answer is here. Rejects with HG_SOURCE when there is none. */
  async forward(request: ForwardRequest): Promise<ForwardReply> {
    if (this.#pending >= UNDER_WAY_MAX + WAITING_MAX) {
      const { name } = this.#client;
      const cause = `${WAITING_MAX} others may wait, got one more`;
      throw new LapiError('unreachable', `Cannot pass a request on to the local API ${name}: ${cause}`);
    }
    const { method, target, body, signal } = request;
    this.#pending += 1;
    try {
      const headers = passedOn(request.headers, SET_ANEW);
      const reply = await this.#client.request({ method, target, headers, body, signal, decode: false });
      return { status: reply.status, headers: passedOn(reply.headers), body: reply.body };
    } finally {
      this.#pending -= 1;
    }
  }
}

function passedOn(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  leftOut: ReadonlySet<string> = new Set(),
): Record<string, string> {
  const named = String(headers['connection'] ?? '')
    .toLowerCase()
    .split(',');
  const ofThisConnection = new Set(named.map((name) => name.trim()));
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const isLeftOut = OF_ONE_CONNECTION.has(name) || leftOut.has(name) || ofThisConnection.has(name);
    if (value !== undefined && !isLeftOut) kept[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return kept;
}
