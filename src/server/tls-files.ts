import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import type { TlsMaterial } from './listener.ts';

/** Where certificate and key are. */
export interface TlsFiles {
  readonly certPath: string;
  readonly keyPath: string;
  readonly minVersion: '1.0' | '1.1' | '1.2' | '1.3';
}

/** Certificates are renewed days ahead: a look every ten seconds is early enough, and costs two `stat` calls. */
const WATCH_MS = 10_000;

/** Reads certificate and key, and makes sure that they belong together. Rejects with `HG_TLS`. */
async function readTls(files: TlsFiles): Promise<TlsMaterial> {
  try {
    const [cert, key] = await Promise.all([readFile(files.certPath), readFile(files.keyPath)]);
    createSecureContext({ cert, key });
    return { cert, key, minVersion: files.minVersion };
  } catch (error) {
    const what = `${files.certPath} with ${files.keyPath}`;
    throw new HeadgateError('HG_TLS', `Cannot use certificate ${what}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Reads certificate and key now, and again whenever one of the files changes, so that a renewal needs no restart. A pair
 * that cannot be used is told to `onFailure`; the last good one stays in use.
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

async function stampOf(files: TlsFiles): Promise<string> {
  try {
    const stats = await Promise.all([stat(files.certPath), stat(files.keyPath)]);
    return stats.map(({ mtimeMs, size, ino }) => `${mtimeMs}/${size}/${ino}`).join();
  } catch (error) {
    throw new HeadgateError('HG_TLS', `Cannot look at ${files.certPath}, ${files.keyPath}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
