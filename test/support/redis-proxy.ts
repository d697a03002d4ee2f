import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Stands before a Redis and can hold up what a connection sends, even beyond the connection's own end. */
export class RedisProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #held: (() => void)[] | undefined;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  static async start(port: number): Promise<RedisProxy> {
    const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('Cannot start a proxy: no port');
    const proxy = new RedisProxy(server, `redis://127.0.0.1:${address.port}`);
    server.on('connection', (client: Socket) => proxy.#join(client, connect(port, '127.0.0.1')));
    return proxy;
  }

  /** From now on, what the connections of now send is kept back. */
  hold(): void {
    this.#held = [];
  }

  /** How many pieces are kept back. */
  get held(): number {
    return this.#held?.length ?? 0;
  }

  /** Passes on what was kept back, and says how many pieces that was. */
  release(): number {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const pass of held) pass();
    return held.length;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(client: Socket, server: Socket): void {
    const isOld = this.#held === undefined;
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    }
    client.on('data', (bytes: Buffer) => {
      const pass = (): void => void server.write(bytes);
      if (isOld && this.#held !== undefined) this.#held.push(pass);
      else pass();
    });
    // the end of an old connection stays unknown to Redis as long as its bytes do
    client.on('end', () => {
      if (!isOld || this.#held === undefined) server.end();
    });
    server.on('data', (bytes: Buffer) => client.write(bytes));
    server.on('end', () => client.end());
  }
}
