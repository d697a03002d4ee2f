import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let made: { cert: Buffer; key: Buffer } | undefined;

/** A certificate for 127.0.0.1 that nobody else vouches for, made once per process. */
export function selfSigned(): { cert: Buffer; key: Buffer } {
  made ??= anotherSelfSigned();
  return made;
}

/** One more, with a key of its own. */
export function anotherSelfSigned(): { cert: Buffer; key: Buffer } {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-tls-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const names = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const args = ['req', '-x509', ...curve, '-keyout', key, '-out', cert, '-days', '2', ...names];
  execFileSync('openssl', args, { stdio: 'pipe' });
  const pair = { cert: readFileSync(cert), key: readFileSync(key) };
  rmSync(folder, { recursive: true });
  return pair;
}
