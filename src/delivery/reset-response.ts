import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { type Clock, systemClock } from '../kernel/index.ts';
import { probe } from './http2.ts';
import { type RawSockets, resetConnection } from './raw-sockets.ts';

/**
 * Gives a response up that somebody else writes: resets its connection (HTTP/1.1) or its stream (HTTP/2), so that what the
 * client got can never be taken for a whole.
 *
 * @example
 * import http from 'node:http';
 *
 * const server = http.createServer();
 * const rawSockets = trackRawSockets(server);
 * server.on('request', (req, res) => {
 *   res.write('half of it');
 *   resetResponse(req, res, { rawSockets });
 * });
 */
export function resetResponse(
  req: IncomingMessage | Http2ServerRequest,
  res: ServerResponse | Http2ServerResponse,
  context: { readonly rawSockets: RawSockets; readonly clock?: Clock },
): void {
  const { rawSockets, clock = systemClock } = context;
  if (!('stream' in res)) {
    const { socket } = req;
    const raw = rawSockets.ofSocket(socket);
    if (raw === undefined) socket.destroy();
    else resetConnection(raw);
    return;
  }
  const { stream } = res;
  // a stream that is destroyed has forgotten its session
  const { session } = stream;
  if (!stream.closed) stream.close(constants.NGHTTP2_CANCEL);
  stream.destroy();
  if (session !== undefined) probe(session, rawSockets.ofSession(session), clock);
}
