/**
 * How much memory data take: the process alone, once they are loaded, and when a full copy in every form has been sent.
 * See README.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/sizing.js
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SDK_KEY, type Size, writeArchive } from './data.ts';
import { Headgate } from './processes.ts';

const MIB = 2 ** 20;
/** The first holds nearly nothing: what it takes is the process. */
const SIZES: readonly Size[] = [
  { flags: 20, segments: 0 },
  { flags: 2000, segments: 50 },
  { flags: 20_000, segments: 100 },
  { flags: 100_000, segments: 500 },
];

/** Every form in which an SDK can ask for a full copy. A stream is left once its first event is there. */
const FORMS: readonly (readonly [path: string, encoding: string])[] = [
  ['/sdk/flags', 'identity'],
  ['/sdk/flags', 'gzip'],
  ['/sdk/poll', 'identity'],
  ['/sdk/poll', 'gzip'],
  ['/sdk/latest-all', 'identity'],
];

/** Resident memory now, and the most there was. */
function residentOf(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]);
  return { now: kib('VmRSS') * 1024, peak: kib('VmHWM') * 1024 };
}

async function copy(port: number, path: string, encoding: string): Promise<number> {
  const headers = { authorization: SDK_KEY, 'accept-encoding': encoding, 'user-agent': 'GoClient/7.14.6' };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  const { byteLength } = await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`Cannot measure: ${path} was answered ${response.status}`);
  return byteLength;
}

interface Row {
  readonly copyBytes: number;
  readonly loadedBytes: number;
  readonly copiedBytes: number;
  readonly peakBytes: number;
}

async function measure(folder: string, size: Size): Promise<Row> {
  const path = join(folder, `${size.flags}.tar.gz`);
  await writeArchive(path, size);
  const server = await Headgate.start(join(folder, 'headgate.yaml'), {
    server: { host: '127.0.0.1', port: 0, drainDelay: 0 },
    flags: { sources: [{ type: 'archive', path }] },
    admin: { port: 0 },
  });
  try {
    const loadedBytes = residentOf(server.pid).now;
    let copyBytes = 0;
    for (const [at, encoding] of FORMS) copyBytes = Math.max(copyBytes, await copy(server.port, at, encoding));
    const { now, peak } = residentOf(server.pid);
    return { copyBytes, loadedBytes, copiedBytes: now, peakBytes: peak };
  } finally {
    await server.stop();
  }
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-sizing-'));
try {
  console.log(`Node ${process.version}, ${process.arch}, one environment; MiB\n`);
  console.log('| flags | full copy | loaded | copied in every form | peak | peak above the process, in full copies |');
  console.log('|---|---|---|---|---|---|');
  let processBytes: number | undefined;
  for (const size of SIZES) {
    const { copyBytes, loadedBytes, copiedBytes, peakBytes } = await measure(folder, size);
    processBytes ??= peakBytes;
    const mib = (bytes: number): string => (bytes / MIB).toFixed(1);
    const times = size === SIZES[0] ? '' : ((peakBytes - processBytes) / copyBytes).toFixed(1);
    console.log(
      `| ${size.flags} | ${[copyBytes, loadedBytes, copiedBytes, peakBytes].map(mib).join(' | ')} | ${times} |`,
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
