/**
 * A fleet behind one slow link: how many have their copy after a while, and how many bytes were sent for nothing, with
 * slots that share the link below the floor, and with `limits.link`. See README.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/link.js
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SDK_KEY } from './data.ts';
import { Headgate } from './processes.ts';

/** 67 Mbit/s: 128 readers get the floor of 64 KiB/s each. */
const LINK_BYTES_PER_SECOND = 8 * 2 ** 20;
const CLIENTS = 400;
const COPY_BYTES = 2 * 2 ** 20;
const FLAG_BYTES = 32 * 1024;
const SECONDS_MAX = 110;
const TICK_MS = 5;
/** What one reader takes in its turn, and what Node may hold of it beyond that. */
const TURN_BYTES = 8192;
const REQUEST = `GET /sdk/flags HTTP/1.1\r\nhost: headgate\r\nauthorization: ${SDK_KEY}\r\nconnection: close\r\n\r\n`;

const VARIANTS: readonly (readonly [name: string, limits: object])[] = [
  ['384 at once, three times what the link carries', { slots: 256, parked: 128 }],
  ['192 at once, one and a half times', { slots: 128, parked: 64 }],
  ['128 at once, as many as get the floor', { slots: 85, parked: 43 }],
  ['limits.link: 67Mbit/s', { link: '67Mbit/s' }],
];

interface Reader {
  readonly socket: Socket;
  got: number;
  whole: number | undefined;
  refused: boolean;
}

/** All clients read from one account of bytes, in turn; one that is refused or cut comes again after a second or two. */
class Fleet {
  readonly #port: number;
  readonly #readers = new Set<Reader>();
  done = 0;
  cut = 0;
  refused = 0;
  wastedBytes = 0;
  #bytes = 0;

  constructor(port: number) {
    this.#port = port;
  }

  come(): void {
    const socket = connect({ port: this.#port, host: '127.0.0.1', highWaterMark: TURN_BYTES } as never);
    const reader: Reader = { socket, got: 0, whole: undefined, refused: false };
    this.#readers.add(reader);
    socket.on('error', () => {});
    socket.on('readable', () => {});
    socket.once('close', () => this.#over(reader));
    socket.write(REQUEST);
  }

  /** Reads what the link carries, one piece of each in turn. */
  async run(untilMs: number): Promise<void> {
    let lastMs = performance.now();
    let left = 0;
    while (this.done < CLIENTS && performance.now() < untilMs) {
      await sleep(TICK_MS);
      const nowMs = performance.now();
      left = Math.min(left, 0) + ((nowMs - lastMs) * LINK_BYTES_PER_SECOND) / 1000;
      lastMs = nowMs;
      for (let idle = 0; left > 0 && idle < this.#readers.size; ) {
        const [reader] = this.#readers;
        if (reader === undefined) break;
        this.#readers.delete(reader);
        this.#readers.add(reader);
        const bytes = this.#read(reader);
        idle = bytes === 0 ? idle + 1 : 0;
        left -= bytes;
      }
    }
    for (const { socket } of this.#readers) socket.removeAllListeners('close').destroy();
  }

  #read(reader: Reader): number {
    const { socket } = reader;
    const piece = socket.read(Math.min(TURN_BYTES, socket.readableLength)) as Buffer | null;
    if (piece === null) return 0;
    if (reader.whole === undefined) {
      const head = piece.toString('latin1');
      reader.refused = head.startsWith('HTTP/1.1 503');
      reader.whole = head.indexOf('\r\n\r\n') + 4 + Number(/content-length: (\d+)/i.exec(head)?.[1]);
    }
    reader.got += piece.length;
    this.#bytes += piece.length;
    if (reader.got >= reader.whole) socket.destroy();
    return piece.length;
  }

  #over(reader: Reader): void {
    this.#readers.delete(reader);
    if (!reader.refused && reader.whole !== undefined && reader.got >= reader.whole) {
      this.done++;
      return;
    }
    if (reader.refused) this.refused++;
    else this.cut++;
    this.wastedBytes += reader.got;
    setTimeout(() => this.come(), 1000 + Math.random() * 1000).unref();
  }

  get wasted(): string {
    return `${Math.round((100 * this.wastedBytes) / this.#bytes)} %`;
  }
}

async function measure(folder: string, data: string, limits: object): Promise<string> {
  const source = { type: 'file', name: 'production', paths: [data], sdkKey: SDK_KEY };
  const server = await Headgate.start(join(folder, 'headgate.yaml'), {
    server: { host: '127.0.0.1', port: 0, drainDelay: 0 },
    flags: { sources: [source] },
    limits,
    admin: { port: 0 },
  });
  try {
    const fleet = new Fleet(server.port);
    const beganMs = performance.now();
    for (let at = 0; at < CLIENTS; at++) fleet.come();
    await fleet.run(beganMs + SECONDS_MAX * 1000);
    const seconds = Math.round((performance.now() - beganMs) / 1000);
    return [fleet.done, seconds, fleet.cut, fleet.refused, fleet.wasted].join(' | ');
  } finally {
    await server.stop();
  }
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-link-'));
try {
  const flag = (at: number): object => ({ key: `f${at}`, version: 1, on: true, salt: 'x'.repeat(FLAG_BYTES - 50) });
  const flags = Object.fromEntries(Array.from({ length: COPY_BYTES / FLAG_BYTES }, (_, at) => [`f${at}`, flag(at)]));
  const data = join(folder, 'flags.json');
  writeFileSync(data, JSON.stringify({ flags, segments: {} }));
  console.log(`Node ${process.version}, ${CLIENTS} clients, 2 MiB each, on 67 Mbit/s\n`);
  console.log('| | complete | after, s | cut | refused | of all bytes, sent for nothing |');
  console.log('|---|---|---|---|---|---|');
  for (const [name, limits] of VARIANTS) console.log(`| ${name} | ${await measure(folder, data, limits)} |`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
