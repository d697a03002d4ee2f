import type { Server } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { HeadgateError } from '../kernel/index.ts';

/**
 * What is asked of a client's certificate: `none` nothing, `request` one that need not be good, `verify-if-given` a good one
 * or none, `require` a good one. Good: signed by the authorities in `clientCa`. Only a good one makes an exchange's `peer`.
 */
export type ClientVerification = 'none' | 'request' | 'verify-if-given' | 'require';

/** Certificate and key, in PEM, and what is asked of clients. */
export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly minVersion?: '1.0' | '1.1' | '1.2' | '1.3';
  /** Certificates of the authorities that client certificates must come from, in PEM. The system's own never count. */
  readonly clientCa?: Buffer;
  /** Default `none`. Fixed when the server is made: a renewal changes certificates, not demands. */
  readonly clientVerification?: ClientVerification;
}

/** What can be renewed while the server listens. A new context knows no earlier TLS session: who resumes is asked again. */
export function tlsContextOf(tls: TlsMaterial): {
  cert: Buffer;
  key: Buffer;
  minVersion: 'TLSv1' | 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3';
  ca: Buffer[];
} {
  const minVersion = ({ '1.0': 'TLSv1', '1.1': 'TLSv1.1', '1.2': 'TLSv1.2', '1.3': 'TLSv1.3' } as const)[
    tls.minVersion ?? '1.2'
  ];
  // an empty list, because without one every authority that the system trusts could vouch for a client
  return { cert: tls.cert, key: tls.key, minVersion, ca: tls.clientCa === undefined ? [] : [tls.clientCa] };
}

/** What is asked of every client from the start. Throws `HG_TLS` when it cannot be checked. */
export function tlsDemandsOf(tls: TlsMaterial): { requestCert: boolean; rejectUnauthorized: boolean } {
  const { clientVerification = 'none', clientCa } = tls;
  const isChecked = clientVerification === 'verify-if-given' || clientVerification === 'require';
  if (isChecked && clientCa === undefined) {
    throw new HeadgateError('HG_TLS', `Cannot verify client certificates: expected clientCa, got none`);
  }
  return { requestCert: clientVerification !== 'none', rejectUnauthorized: clientVerification === 'require' };
}

/**
 * Closes connections whose client shows a certificate that is not good, before HTTP sees them; one that shows none is let
 * through. Node knows only all or nothing. Call it before anything else listens to the server.
 */
export function guardClients(server: Server): void {
  const listeners = server.listeners('secureConnection') as ((socket: TLSSocket) => void)[];
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket: TLSSocket) => {
    if (!socket.authorized && socket.getPeerX509Certificate() !== undefined) socket.destroy();
    else for (const listener of listeners) listener.call(server, socket);
  });
}
