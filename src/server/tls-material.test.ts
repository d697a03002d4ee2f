import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { authority, selfSigned } from '../../test/support/tls.ts';
import { tlsContextOf } from './tls-material.ts';

/** A server with a list of authorities, and whether it believes a client of an authority that the system trusts. */
const TRY = `
  const [tls, { cert, key, clientCert, clientKey, ca }] = [require('node:tls'), JSON.parse(process.argv[1])];
  const options = { cert, key, requestCert: true, rejectUnauthorized: false, ...(ca === null ? {} : { ca }) };
  const server = tls.createServer(options, (socket) => {
    console.log(socket.authorized);
    process.exit();
  });
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    tls.connect({ port, host: '127.0.0.1', cert: clientCert, key: clientKey, rejectUnauthorized: false });
  });
`;

// Fails when tlsContextOf() leaves `ca` out: then Node takes the authorities that the system trusts, for clients too.
it('without authorities of our own nobody can vouch for a client, not even those that the system trusts', () => {
  const [trusted, own] = [authority('trusted'), selfSigned()];
  const client = trusted.issue('/CN=anybody');
  const { ca } = tlsContextOf(own);
  const folder = mkdtempSync(join(tmpdir(), 'headgate-ca-'));
  try {
    writeFileSync(join(folder, 'extra.pem'), trusted.cert);
    const believes = (list: readonly Buffer[] | null): string => {
      const given = {
        cert: own.cert.toString(),
        key: own.key.toString(),
        clientCert: client.cert.toString(),
        clientKey: client.key.toString(),
        ca: list,
      };
      const env = { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, 'extra.pem') };
      return execFileSync(process.execPath, ['-e', TRY, JSON.stringify(given)], { env, encoding: 'utf8' }).trim();
    };
    expect([believes(null), believes(ca)]).toEqual(['true', 'false']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
