import { gunzip } from 'node:zlib';
import type { Exchange } from '../../delivery/index.ts';
import { messageOf } from '../../kernel/index.ts';
import type { ForwardReply, FrontOptions, Upstream } from './deps.ts';
import { factOf, notForwarded, type Who } from './facts.ts';
import { collected, forwardRequest } from './forward.ts';
import { BadBody, readMetrics } from './metrics-schema.ts';
import { replyMessage } from './replies.ts';
import { HEADER, TEXT } from './words.ts';

/** Bouncers give it 10 s. */
const FORWARD_MS_MAX = 5000;

/** Answers of an upstream that say something about the body, and not about the upstream or the key. */
const OF_THE_BODY = new Set([400, 422]);

/**
 * Usage metrics: checked as the local API checks them, and passed on under the bouncer's own key. What cannot be passed on
 * is accepted all the same: a bouncer can do nothing about it, and would send it again for ever.
 */
export class UsageMetrics {
  readonly #front: FrontOptions;

  constructor(front: FrontOptions) {
    this.#front = front;
  }

  async answer(exchange: Exchange, who: Who): Promise<void> {
    const body = await readBody(exchange, this.#front.bodyBytesMax);
    if (body === undefined) return;
    const problem = await problemOf(exchange, body, this.#front.bodyBytesMax);
    if (exchange.closed) return;
    if (problem !== undefined) return replyMessage(exchange, problem.status, problem.message);
    const reply = await this.#forward(exchange, who, body);
    if (exchange.closed) return;
    if (reply === undefined) exchange.reply(201, {});
    else exchange.reply(reply.status, typeOf(reply.headers), reply.body);
  }

  /** The upstream's answer where it counts. */
  async #forward(
    exchange: Exchange,
    who: Who,
    body: Buffer,
  ): Promise<{ status: number; headers: ForwardReply['headers']; body: Buffer } | undefined> {
    const upstream = this.#upstreamOf(who);
    // a bouncer by certificate has no key that an upstream could know it by
    if (upstream === undefined || exchange.header(HEADER.key) === undefined) return undefined;
    const controller = new AbortController();
    const timer = this.#front.clock.after(FORWARD_MS_MAX, () => controller.abort());
    try {
      const reply = await upstream.forward(
        forwardRequest(exchange, { address: who.address, body, signal: controller.signal }),
      );
      const answer = await collected(reply, this.#front.bodyBytesMax);
      if (reply.status === 201 || OF_THE_BODY.has(reply.status)) return { ...reply, body: answer };
      this.#failed(exchange, who, reply.status, undefined);
    } catch (error) {
      this.#failed(exchange, who, undefined, error);
    } finally {
      timer.cancel();
    }
    return undefined;
  }

  #upstreamOf({ bouncer }: Who): Upstream | undefined {
    return this.#front.upstreams[bouncer.upstream ?? 0];
  }

  #failed(exchange: Exchange, who: Who, status: number | undefined, error: unknown): void {
    notForwarded.publish(() => ({ ...factOf(exchange, who), status, error }));
  }
}

function typeOf(headers: ForwardReply['headers']): Record<string, string> {
  const type = headers['content-type'];
  return type === undefined ? {} : { 'content-type': type };
}

/** Undefined: it is too large, which is answered, or the client has left. */
async function readBody(exchange: Exchange, bytesMax: number): Promise<Buffer | undefined> {
  try {
    return await exchange.body(bytesMax);
  } catch {
    if (!exchange.closed) replyMessage(exchange, 400, TEXT.bodyTooLarge);
    return undefined;
  }
}

async function problemOf(
  exchange: Exchange,
  body: Buffer,
  bytesMax: number,
): Promise<{ status: number; message: string } | undefined> {
  try {
    const reported = readMetrics((await decoded(exchange, body, bytesMax)).toString());
    if ('fault' in reported) return { status: 422, message: reported.fault };
    if (reported.processors > 1) return { status: 400, message: TEXT.manyProcessors };
    if (reported.components === 0) return { status: 400, message: TEXT.missingComponent };
    if (reported.components > 1) return { status: 400, message: TEXT.manyComponents };
    return undefined;
  } catch (error) {
    if (error instanceof BadBody) return { status: 400, message: error.message };
    throw error;
  }
}

function decoded(exchange: Exchange, body: Buffer, bytesMax: number): Promise<Buffer> {
  if (exchange.header('content-encoding')?.toLowerCase() !== 'gzip') return Promise.resolve(body);
  return new Promise((resolve, reject) => {
    gunzip(body, { maxOutputLength: bytesMax }, (error, whole) => {
      if (error === null) resolve(whole);
      else
        reject(
          new BadBody('code' in error && error.code === 'ERR_BUFFER_TOO_LARGE' ? TEXT.bodyTooLarge : messageOf(error)),
        );
    });
  });
}
