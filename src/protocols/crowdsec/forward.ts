import type { Exchange } from '../../delivery/index.ts';
import type { ForwardReply, ForwardRequest } from './deps.ts';

/** What says something about the request itself, and not about its connection to us. */
const REQUEST_HEADERS = [
  'accept',
  'accept-encoding',
  'accept-language',
  'authorization',
  'content-encoding',
  'content-type',
  'if-modified-since',
  'if-none-match',
  'user-agent',
  'x-api-key',
] as const;

/** A request as it goes on. Its headers are the client's own: what it may do is for the upstream to say. */
export function forwardRequest(
  exchange: Exchange,
  more: { readonly address: string; readonly body?: Buffer; readonly signal: AbortSignal },
): ForwardRequest {
  const headers: Record<string, string> = {};
  for (const name of REQUEST_HEADERS) {
    const value = exchange.header(name);
    if (value !== undefined) headers[name] = value;
  }
  headers['x-forwarded-for'] = more.address;
  const { body, signal } = more;
  return {
    method: exchange.method,
    target: exchange.target,
    headers,
    signal,
    ...(body === undefined || body.length === 0 ? {} : { body }),
  };
}

/** A body as a whole. Rejects when it is larger than `bytesMax`, or cut. */
export async function collected(reply: Pick<ForwardReply, 'body'>, bytesMax: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of reply.body) {
    bytes += part.byteLength;
    if (bytes > bytesMax) throw new Error(`Cannot pass an answer on: it may have ${bytesMax} bytes, got more`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}
