import type { Http2Session, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Server } from 'node:net';
import type { RawSockets } from '../delivery/index.ts';
import type { Clock } from '../kernel/index.ts';

/** What the sessions of a server need. */
export interface SessionsOptions {
  readonly clock: Clock;
  readonly rawSockets: RawSockets;
  /** How long a session without streams stays, in milliseconds. 0: for ever, as with node:http. */
  readonly idleMs: number;
}

/** How long the client of a session that we closed has for closing its side: two of the worst round trips, and change. */
const CLOSE_MS_MAX = 2000;

/**
 * The HTTP/2 sessions of a server. node:http2 keeps one open for as long as its client does; here one that has had no stream
 * for a while is closed, as node:http closes a connection.
 *
 * One timer per session, armed anew when it fires, not at each request.
 */
export function trackSessions(server: Server, options: SessionsOptions): ReadonlySet<ServerHttp2Session> {
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
    // a session's failure ends its streams, which tell their own listeners
    session.on('error', () => undefined);
    if (options.idleMs > 0) closeWhenIdle(session, options);
  });
  return sessions;
}

function closeWhenIdle(session: ServerHttp2Session, options: SessionsOptions): void {
  const { clock, idleMs } = options;
  const streams = new Set<ServerHttp2Stream>();
  /** Streams that the client reset, seen by the last look. */
  let lost: readonly ServerHttp2Stream[] = [];
  let idleSinceMs = clock.now();
  session.on('stream', (stream: ServerHttp2Stream) => {
    streams.add(stream);
    stream.once('close', () => {
      streams.delete(stream);
      if (streams.size === 0) idleSinceMs = clock.now();
    });
  });
  const look = (): void => {
    for (const stream of lost) stream.destroy();
    // Node tells nothing more of a stream that is reset without an error while it still has something to send, and keeps it
    lost = [...streams].filter((stream) => stream.closed && !stream.destroyed);
    const leftMs = streams.size > 0 ? idleMs : idleSinceMs + idleMs - clock.now();
    if (leftMs > 0) timer = clock.after(leftMs, look);
    else closeNow(session, options);
  };
  let timer = clock.after(idleMs, look);
  session.once('close', () => timer.cancel());
}

/**
 * Says so (GOAWAY) and closes our side. Node then waits for the client to close its own, and for ever when that is not there
 * any more; what the client still reads of its last response stays in the kernel either way.
 */
function closeNow(session: Http2Session, { clock, rawSockets }: SessionsOptions): void {
  // kept, because a destroyed session has forgotten its socket
  const raw = rawSockets.ofSession(session);
  session.close();
  if (raw === undefined) return;
  const timer = clock.after(CLOSE_MS_MAX, () => raw.destroy());
  raw.once('close', () => timer.cancel());
}
