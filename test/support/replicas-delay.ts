import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

interface Late {
  readonly dueMs: number;
  readonly give: () => void;
}

/** Stands between a replica and its upstream, and can hold back what the upstream says. */
export class DelayedPath {
  readonly url: string;
  /** What the upstream has said. */
  bytes = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #lates: Late[] = [];
  #delayMs = 0;
  #timer: NodeJS.Timeout | undefined;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** @param port - of what it leads to, on loopback. */
  static async open(port: number): Promise<DelayedPath> {
    const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const path = new DelayedPath(server);
    server.on('connection', (near) => path.#join(near, port));
    return path;
  }

  /** From now on what the upstream says arrives so much later; with 0, all of it at once. */
  holdBack(delayMs: number): void {
    this.#delayMs = delayMs;
    if (delayMs === 0) this.#give(Number.POSITIVE_INFINITY);
  }

  /** Ends every connection with a reset. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#server.close();
    this.cut();
    await once(this.#server, 'close');
  }

  #join(near: Socket, port: number): void {
    const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', (isFault) => {
        this.#sockets.delete(socket);
        if (isFault || socket === near) other.destroy();
      });
    }
    near.on('data', (bytes) => void far.write(bytes));
    near.on('end', () => void far.end());
    far.on('data', (bytes) => {
      this.bytes += bytes.length;
      this.#later(() => void near.write(bytes));
    });
    far.on('end', () => this.#later(() => void near.end()));
  }

  /** One line for all connections keeps the order within each. */
  #later(give: () => void): void {
    if (this.#delayMs === 0 && this.#lates.length === 0) give();
    else {
      this.#lates.push({ dueMs: performance.now() + this.#delayMs, give });
      this.#arm();
    }
  }

  #give(untilMs: number): void {
    while (this.#lates[0] !== undefined && this.#lates[0].dueMs <= untilMs) this.#lates.shift()?.give();
    this.#arm();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const [first] = this.#lates;
    if (first === undefined) return;
    const waitMs = Math.max(0, Math.ceil(first.dueMs - performance.now()));
    this.#timer = setTimeout(() => this.#give(performance.now()), waitMs);
  }
}
