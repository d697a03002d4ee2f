import { createServer, type IncomingMessage, type Server } from 'node:http';
import net, { type AddressInfo, type Socket } from 'node:net';
import tls from 'node:tls';
import type { Pair } from './tls.ts';

/** Whatever joins two sockets: when one of them is over, so is the other. */
function join(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
    from.pipe(to);
  }
}

/** Listens on a port of the loopback that the system picks. */
async function listening(server: net.Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

/** TLS in front of a server that speaks plainly. */
export async function tlsInFront(pair: Pair, port: number): Promise<{ port: number; stop: () => Promise<void> }> {
  const sockets = new Set<Socket>();
  const server = tls.createServer({ cert: pair.cert, key: pair.key }, (socket) => {
    sockets.add(socket);
    join(socket, net.connect(port, '127.0.0.1'));
  });
  // whoever does not trust it says so by an alert
  server.on('tlsClientError', () => {});
  const own = await listening(server);
  const stop = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { port: own, stop };
}

/** A proxy that lets nobody through without its user and password (RFC 9110, sections 9.3.6 and 11.7). */
export class RelayWorldProxy {
  /** What was asked for with the right credentials, and with others. */
  readonly tunnels: string[] = [];
  readonly refused: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port = 0;

  private constructor(user: string, password: string) {
    const wanted = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
    this.#server = createServer((_request, response) => response.writeHead(405).end());
    this.#server.on('connection', (socket) => this.#sockets.add(socket));
    this.#server.on('connect', (request: IncomingMessage, socket: Socket) => {
      const target = request.url ?? '';
      if (request.headers['proxy-authorization'] === wanted) {
        this.tunnels.push(target);
        this.#tunnel(target, socket);
      } else {
        this.refused.push(target);
        socket.end('HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n');
      }
    });
  }

  static async start(user: string, password: string): Promise<RelayWorldProxy> {
    const proxy = new RelayWorldProxy(user, password);
    proxy.#port = await listening(proxy.#server);
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #tunnel(target: string, socket: Socket): void {
    const [host = '', port = ''] = target.split(':');
    const onward = net.connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      join(socket, onward);
    });
    onward.on('error', () => socket.destroy());
  }
}
