import { Departure, type Exchange, type Source } from '../../delivery/index.ts';
import { agentOf, type Origins } from './client.ts';
import type { ForwardReply, FrontOptions } from './deps.ts';
import { notForwarded } from './facts.ts';
import { collected, forwardRequest } from './forward.ts';
import { replyMessage, replyUnavailable } from './replies.ts';
import { TEXT } from './words.ts';

/** Ours to set: about our connection to the client, or about our reply. */
const OURS = new Set(['connection', 'date', 'keep-alive', 'trailer', 'transfer-encoding', 'upgrade']);

/** Everything under `/v1/` that is not for us goes on to the first upstream, as it came, and its answer comes back. */
export class Passthrough {
  readonly #front: FrontOptions;
  readonly #origins: Origins;

  constructor(front: FrontOptions, origins: Origins) {
    this.#front = front;
    this.#origins = origins;
  }

  async answer(exchange: Exchange): Promise<void> {
    const upstream = this.#front.upstreams[0];
    if (upstream === undefined) return exchange.reply(404, {});
    const body = await this.#body(exchange);
    if (body === undefined) return;
    using departure = new Departure(exchange);
    const { address } = this.#origins.of(exchange);
    let reply: ForwardReply;
    try {
      reply = await upstream.forward(forwardRequest(exchange, { address, body, signal: departure.signal }));
    } catch (error) {
      if (exchange.closed) return;
      this.#failed(exchange, address, error);
      return replyUnavailable(exchange, TEXT.noUpstream, this.#front.limiter.retryAfterSeconds());
    }
    await this.#relay(exchange, address, reply);
  }

  async #body(exchange: Exchange): Promise<Buffer | undefined> {
    if (exchange.method === 'GET' || exchange.method === 'HEAD') return Buffer.alloc(0);
    try {
      return await exchange.body(this.#front.bodyBytesMax);
    } catch {
      if (!exchange.closed) replyMessage(exchange, 413, TEXT.bodyTooLarge);
      return undefined;
    }
  }

  async #relay(exchange: Exchange, address: string, reply: ForwardReply): Promise<void> {
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(reply.headers)) if (!OURS.has(name)) headers[name] = value;
    const isBodyless = exchange.method === 'HEAD' || reply.status === 204 || reply.status === 304;
    try {
      // without a length HTTP/1.0 could not tell the end from a cut
      if (isBodyless || exchange.httpVersion === '1.0') {
        const body = await collected(reply, this.#front.bodyBytesMax);
        if (!exchange.closed) exchange.reply(reply.status, headers, body);
        return;
      }
    } catch (error) {
      this.#failed(exchange, address, error);
      if (!exchange.closed) replyUnavailable(exchange, TEXT.noUpstream, this.#front.limiter.retryAfterSeconds());
      return;
    }
    if (exchange.closed) return;
    const channel = exchange.open(reply.status, headers);
    const { deliveries, guarded } = this.#front;
    const report = await deliveries.deliver({ channel, source: sourceOf(reply), guarded });
    if (report.outcome === 'completed') channel.end();
    else if (report.outcome === 'error') this.#failed(exchange, address, report.error);
  }

  #failed(exchange: Exchange, remoteAddress: string, error: unknown): void {
    notForwarded.publish(() => ({
      bouncer: undefined,
      agent: agentOf(exchange.header('user-agent')),
      route: exchange.path,
      remoteAddress,
      status: undefined,
      error,
    }));
  }
}

function sourceOf({ headers, body }: ForwardReply): Source {
  const iterator = body[Symbol.asyncIterator]();
  const length = headers['content-length'];
  return {
    bytes: length === undefined ? undefined : Number(length),
    async next() {
      const { done, value } = await iterator.next();
      return done === true ? undefined : [value];
    },
  };
}
