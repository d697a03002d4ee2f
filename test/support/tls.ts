import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** In PEM. */
export interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

let made: Pair | undefined;

/** A certificate for 127.0.0.1 that nobody else vouches for, made once per process. */
export function selfSigned(): Pair {
  made ??= anotherSelfSigned();
  return made;
}

const CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** One more, with a key of its own. */
export function anotherSelfSigned(): Pair {
  return inFolder((folder) => {
    const names = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
    return makePair(folder, ['-x509', '-days', '2', ...names]);
  });
}

/** Signs certificates of clients. */
export interface Authority extends Pair {
  /** @param subject - as openssl takes it: `/CN=bouncer/OU=bouncers`. */
  issue(subject: string): Pair;
}

/** An authority of its own. */
export function authority(name = 'authority'): Authority {
  const own = inFolder((folder) => makePair(folder, ['-x509', '-days', '2', '-subj', `/CN=${name}`]));
  return {
    ...own,
    issue: (subject) =>
      inFolder((folder) => {
        const [caPath, caKeyPath] = [join(folder, 'ca.pem'), join(folder, 'ca-key.pem')];
        writeFileSync(caPath, own.cert);
        writeFileSync(caKeyPath, own.key);
        const { cert: request, key } = makePair(folder, ['-subj', subject]);
        const requestPath = join(folder, 'request.pem');
        writeFileSync(requestPath, request);
        const by = ['-CA', caPath, '-CAkey', caKeyPath, '-set_serial', '1', '-days', '2'];
        const cert = execFileSync('openssl', ['x509', '-req', '-in', requestPath, ...by], { stdio: 'pipe' });
        return { cert, key };
      }),
  };
}

/** A key, and a certificate or a request for one. */
function makePair(folder: string, args: readonly string[]): Pair {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  execFileSync('openssl', ['req', ...CURVE, '-keyout', key, '-out', cert, ...args], { stdio: 'pipe' });
  return { cert: readFileSync(cert), key: readFileSync(key) };
}

function inFolder<T>(work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-tls-'));
  try {
    return work(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
