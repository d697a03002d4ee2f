import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import type net from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Exchange,
  exchangeOf,
  type RawSockets,
  type Receipts,
  setLowWater,
  trackRawSockets,
  type Transport,
} from '../../src/delivery/index.ts';
import type { Clock } from '../../src/kernel/index.ts';

export const TRANSPORTS: readonly Transport[] = ['http1', 'https1', 'h2c', 'h2'];

let made: { readonly key: string; readonly cert: string } | undefined;

/** A self-signed certificate for localhost, made once per run and kept nowhere. */
function certificate(): { readonly key: string; readonly cert: string } {
  if (made !== undefined) return made;
  const folder = mkdtempSync(join(tmpdir(), 'headgate-tls-'));
  const [keyPath, certPath] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const subject = ['-subj', '/CN=localhost', '-days', '2', '-nodes', '-batch'];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
  try {
    execFileSync('openssl', ['req', '-x509', ...curve, ...subject, '-keyout', keyPath, '-out', certPath], {
      stdio: 'pipe',
    });
    made = { key: readFileSync(keyPath, 'utf8'), cert: readFileSync(certPath, 'utf8') };
  } finally {
    rmSync(folder, { recursive: true });
  }
  return made;
}

export interface Rig {
  readonly transport: Transport;
  readonly port: number;
  readonly server: net.Server;
  readonly rawSockets: RawSockets;
  /** What was answered twice. */
  readonly faults: readonly string[];
  close(): Promise<void>;
}

export interface RigOptions {
  readonly clock?: Clock;
  readonly keepAliveTimeout?: number;
  readonly receipts?: Receipts;
  /** `false` leaves the kernel's buffers as they are: it takes megabytes that nobody reads. */
  readonly lowWater?: boolean;
}

/** A server of one transport on a free port of loopback, with the low-water mark where the machine allows it. */
export async function openRig(
  transport: Transport,
  handle: (exchange: Exchange) => void,
  options: RigOptions = {},
): Promise<Rig> {
  const server = serverOf(transport);
  if (options.keepAliveTimeout !== undefined) Object.assign(server, { keepAliveTimeout: options.keepAliveTimeout });
  const rawSockets = trackRawSockets(server);
  const faults: string[] = [];
  const context = {
    rawSockets,
    onMisuse: (fault: string) => void faults.push(fault),
    ...(options.clock === undefined ? {} : { clock: options.clock }),
    ...(options.receipts === undefined ? {} : { receipts: options.receipts }),
  };
  const open = new Set<net.Socket>();
  server.on('connection', (socket: net.Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.on('request', (req: http.IncomingMessage, res: http.ServerResponse) => handle(exchangeOf(req, res, context)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  if (options.lowWater ?? true) setLowWater(server);
  return {
    transport,
    server,
    rawSockets,
    faults,
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

function serverOf(transport: Transport): net.Server {
  switch (transport) {
    case 'http1':
      return http.createServer();
    case 'https1':
      return https.createServer(certificate());
    case 'h2c':
      return http2.createServer();
    case 'h2':
      return http2.createSecureServer(certificate());
  }
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Bytes read so far. */
  readonly bytes: number;
  /** The last thousand characters read so far. */
  readonly text: string;
  /** `whole`: the end of the body was seen. `broken`: the transport said that it is not whole. */
  readonly ended: Promise<'whole' | 'broken'>;
  /** Reads on, after it was opened without reading. */
  read(): void;
  /** Goes away in the middle. */
  leave(): void;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  /** `false`: reads nothing until `read()`. */
  readonly reads?: boolean;
  /** Another request on the same connection. */
  readonly over?: Connection;
}

/** A connection of a client: what `ask` can use again. */
export type Connection = http2.ClientHttp2Session | http.Agent;

export function connect(rig: Rig): Connection {
  const scheme = rig.transport === 'h2' || rig.transport === 'https1' ? 'https' : 'http';
  if (rig.transport === 'http1') return new http.Agent({ keepAlive: true, maxSockets: 1 });
  if (rig.transport === 'https1') return new https.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  const session = http2.connect(`${scheme}://127.0.0.1:${rig.port}`, { rejectUnauthorized: false });
  session.on('error', () => {});
  return session;
}

export function disconnect(connection: Connection): void {
  connection.destroy();
}

/** Asks a server, and answers when the head of its answer is there. */
export function ask(rig: Rig, path = '/', options: AskOptions = {}): Promise<Answer> {
  const over = options.over ?? connect(rig);
  return over instanceof http.Agent
    ? askOverHttp1(rig, path, { ...options, over })
    : askOverHttp2(path, { ...options, over });
}

interface Head {
  readonly status: number;
  readonly headers: Answer['headers'];
  readonly reads: boolean;
  isWhole(): boolean;
  leave(): void;
}

/** What both kinds of answer share: the counting, and the verdict. */
function answerOf(stream: NodeJS.ReadableStream, head: Head): Answer {
  let bytes = 0;
  let text = '';
  let sawEnd = false;
  stream.on('error', () => {});
  stream.on('end', () => (sawEnd = true));
  const answer: Answer = {
    status: head.status,
    headers: head.headers,
    get bytes() {
      return bytes;
    },
    get text() {
      return text;
    },
    ended: new Promise((resolve) => stream.on('close', () => resolve(sawEnd && head.isWhole() ? 'whole' : 'broken'))),
    read: () => {
      stream.on('data', (data: Buffer) => {
        bytes += data.byteLength;
        text = (text + data.toString('latin1', Math.max(0, data.byteLength - 1000))).slice(-1000);
      });
    },
    leave: () => head.leave(),
  };
  if (head.reads) answer.read();
  return answer;
}

function askOverHttp1(rig: Rig, path: string, options: AskOptions & { readonly over: http.Agent }): Promise<Answer> {
  const { method = 'GET', headers = {}, body, reads = true, over } = options;
  const request = rig.transport === 'https1' ? https.request : http.request;
  const target = { host: '127.0.0.1', port: rig.port, path, method, headers, agent: over, rejectUnauthorized: false };
  return new Promise((resolve, reject) => {
    const req = request(target);
    req.on('error', reject);
    req.once('response', (res) => {
      const isWhole = (): boolean => res.complete;
      const leave = (): void => void res.socket?.destroy();
      resolve(answerOf(res, { status: res.statusCode ?? 0, headers: res.headers, reads, isWhole, leave }));
    });
    req.end(body);
  });
}

function askOverHttp2(
  path: string,
  options: AskOptions & { readonly over: http2.ClientHttp2Session },
): Promise<Answer> {
  const { method = 'GET', headers = {}, body, reads = true, over } = options;
  return new Promise((resolve, reject) => {
    const stream = over.request({ ':path': path, ':method': method, ...headers }, { endStream: body === undefined });
    stream.on('error', reject);
    stream.once('response', (head) => {
      const isWhole = (): boolean => stream.rstCode === 0 && !stream.aborted;
      const leave = (): void => stream.close(http2.constants.NGHTTP2_CANCEL);
      resolve(
        answerOf(stream, {
          status: Number(head[':status']),
          headers: head as Answer['headers'],
          reads,
          isWhole,
          leave,
        }),
      );
    });
    if (body !== undefined) stream.end(body);
  });
}

/**
 * How many connections of this server the kernel still has, whoever closed them; undefined where it cannot be seen.
 * A connection that was closed while its client read nothing stays here for minutes; one that was reset does not.
 */
export function kernelConnections(port: number): number | undefined {
  if (process.platform !== 'linux') return undefined;
  const LISTEN = '0A';
  const TIME_WAIT = '06';
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) =>
    readFileSync(path, 'latin1').trim().split('\n').slice(1),
  );
  const columns = rows.map((row) => row.trim().split(/\s+/));
  return columns.filter(([, local, , state]) => local?.endsWith(suffix) && state !== LISTEN && state !== TIME_WAIT)
    .length;
}
