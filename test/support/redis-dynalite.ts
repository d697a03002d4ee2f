import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
// @ts-expect-error it comes without types
import dynalite from 'dynalite';

/** A DynamoDB in this process, with one table as the vendor's relay and SDKs use it. */
export class Dynalite {
  readonly tableName = 'table';
  readonly url: string;
  readonly client: DynamoDBClient;
  readonly #server: Server;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
    this.client = new DynamoDBClient({ endpoint: url });
  }

  /** AWS's region and credentials must stand in the environment. */
  static async start(): Promise<Dynalite> {
    const server = dynalite({ createTableMs: 0 }) as Server;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const started = new Dynalite(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const names = ['namespace', 'key'];
    await started.client.send(
      new CreateTableCommand({
        TableName: started.tableName,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: names.map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
        KeySchema: names.map((AttributeName, at) => ({ AttributeName, KeyType: at === 0 ? 'HASH' : 'RANGE' })),
      }),
    );
    return started;
  }

  stop(): void {
    this.client.destroy();
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
