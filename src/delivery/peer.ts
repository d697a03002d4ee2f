import type { Http2Session } from 'node:http2';
import { TLSSocket } from 'node:tls';

/** A client that has shown a certificate which our authorities have signed. */
export interface Peer {
  /** The subject's CN; the last one when it has several; empty when it has none. */
  readonly commonName: string;
  /** The subject's OUs, in order. */
  readonly organizationalUnits: readonly string[];
}

/** Looked at once per connection: a certificate does not change, and taking it apart costs. */
const peers = new WeakMap<object, Peer | null>();

/**
 * Who is at the other end, by a verified certificate; undefined when there is none.
 *
 * @param connection - the socket of HTTP/1, the session of HTTP/2.
 */
export function peerOf(connection: object): Peer | undefined {
  let peer = peers.get(connection);
  if (peer === undefined) {
    const socket = tlsSocketOf(connection);
    peer = (socket === undefined ? undefined : verifiedPeer(socket)) ?? null;
    peers.set(connection, peer);
  }
  return peer ?? undefined;
}

type Certified = Pick<TLSSocket, 'authorized' | 'getPeerCertificate'>;

function tlsSocketOf(connection: object): Certified | undefined {
  if (connection instanceof TLSSocket) return connection;
  const { encrypted, destroyed, socket } = connection as Partial<Http2Session>;
  return encrypted === true && destroyed !== true ? (socket as TLSSocket) : undefined;
}

function verifiedPeer(socket: Certified): Peer | undefined {
  // a resumed session is `authorized` also when there never was a certificate: the subject is what counts
  if (!socket.authorized) return undefined;
  // typed as if it were always there
  const { subject } = socket.getPeerCertificate() as { subject?: { CN?: string | string[]; OU?: string | string[] } };
  if (subject === undefined) return undefined;
  return { commonName: listOf(subject.CN).at(-1) ?? '', organizationalUnits: listOf(subject.OU) };
}

function listOf(value: string | string[] | undefined): readonly string[] {
  return value === undefined ? [] : typeof value === 'string' ? [value] : value;
}
