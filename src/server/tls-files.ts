import { readFile, stat } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import type { ClientVerification, TlsMaterial } from './tls-material.ts';

/** Where certificate and key are, and what clients must show. */
export interface TlsFiles {
  readonly certPath: string;
  readonly keyPath: string;
  readonly minVersion: '1.0' | '1.1' | '1.2' | '1.3';
  /** The authorities that client certificates must come from. */
  readonly clientCaPath?: string;
  readonly clientVerification?: ClientVerification;
}

/** Certificates are renewed days ahead: a look every ten seconds is early enough, and costs two `stat` calls. */
const WATCH_MS = 10_000;

/** Reads certificate and key, and makes sure that they belong together. Rejects with `HG_TLS`. */
async function readTls(files: TlsFiles): Promise<TlsMaterial> {
  const { certPath, keyPath, minVersion, clientVerification } = files;
  const [cert, key] = await use(`certificate ${certPath} with ${keyPath}`, async () => {
    const pair = await Promise.all([readFile(certPath), readFile(keyPath)]);
    createSecureContext({ cert: pair[0], key: pair[1] });
    return pair;
  });
  const clientCa = await readClientCa(files.clientCaPath);
  return {
    cert,
    key,
    minVersion,
    ...(clientCa === undefined ? {} : { clientCa }),
    ...(clientVerification === undefined ? {} : { clientVerification }),
  };
}

async function readClientCa(path: string | undefined): Promise<Buffer | undefined> {
  if (path === undefined) return undefined;
  return use(`client authorities ${path}`, async () => {
    const clientCa = await readFile(path);
    // OpenSSL ignores what is no certificate, and an empty list would refuse every client
    new X509Certificate(clientCa);
    createSecureContext({ ca: clientCa });
    return clientCa;
  });
}

async function use<T>(what: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw new HeadgateError('HG_TLS', `Cannot use ${what}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Reads certificate, key and client authorities now, and again whenever one of the files changes, so that a renewal needs no
 * restart. What cannot be used is told to `onFailure`; the last good one stays in use.
 *
 * @example
 * ```ts no-run
 * const files = { certPath: '/etc/headgate/tls.crt', keyPath: '/etc/headgate/tls.key', minVersion: '1.2' } as const;
 * const watched = await watchTls(files, systemClock, { onChange: (tls) => console.log(tls.cert.length), onFailure: console.error });
 * watched.stop();
 * ```
 */
export async function watchTls(
  files: TlsFiles,
  clock: Clock,
  listener: { onChange: (tls: TlsMaterial) => void; onFailure: (error: unknown) => void },
): Promise<{ readonly tls: TlsMaterial; stop(): void }> {
  let seen = await stampOf(files);
  const tls = await readTls(files);
  let timer: Timer | undefined;
  const look = async (): Promise<void> => {
    try {
      const now = await stampOf(files);
      if (now !== seen) {
        listener.onChange(await readTls(files));
        seen = now;
      }
    } catch (error) {
      listener.onFailure(error);
    }
    if (timer !== undefined) timer = clock.after(WATCH_MS, () => void look());
  };
  timer = clock.after(WATCH_MS, () => void look());
  return {
    tls,
    stop() {
      timer?.cancel();
      timer = undefined;
    },
  };
}

async function stampOf({ certPath, keyPath, clientCaPath }: TlsFiles): Promise<string> {
  const paths = [certPath, keyPath, ...(clientCaPath === undefined ? [] : [clientCaPath])];
  try {
    const stats = await Promise.all(paths.map((path) => stat(path)));
    return stats.map(({ mtimeMs, size, ino }) => `${mtimeMs}/${size}/${ino}`).join();
  } catch (error) {
    throw new HeadgateError('HG_TLS', `Cannot look at ${paths.join(', ')}: ${messageOf(error)}`, { cause: error });
  }
}
