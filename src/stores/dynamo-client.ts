import type * as Sdk from '@aws-sdk/client-dynamodb';
import { HeadgateError, messageOf } from '../kernel/index.ts';

/** Where a table of DynamoDB is. Region and credentials are those of AWS's own variables and files. */
export interface DynamoOptions {
  readonly tableName: string;
  /** What stands before the names of this environment, with a colon; with none nothing does. */
  readonly prefix?: string;
  /** Another address than that of the service. */
  readonly url?: string;
  /** How long connecting may take; default 5 s. */
  readonly connectTimeoutMs?: number;
  /** How long an answer may take; default 5 s. */
  readonly readTimeoutMs?: number;
}

/** A value as DynamoDB writes it. */
interface Attribute {
  readonly S?: string;
  readonly N?: string;
  readonly SS?: readonly string[];
}
export type Row = Readonly<Record<string, Attribute | undefined>>;

/** A write that is only done if its condition holds. */
export interface Condition {
  readonly expression: string;
  readonly names: Readonly<Record<string, string>>;
  readonly values?: Readonly<Record<string, Attribute>>;
}

const PACKAGE = '@aws-sdk/client-dynamodb';
const TIMEOUT_MS = 5000;

/** One table, asked through AWS's own package, which is loaded when it is first needed. Every method rejects with HG_STORE. */
export class DynamoTable {
  readonly #options: DynamoOptions;
  #loaded: Promise<{ readonly sdk: typeof Sdk; readonly client: Sdk.DynamoDBClient }> | undefined;

  constructor(options: DynamoOptions) {
    if (options.tableName === '') {
      throw new HeadgateError('HG_OPTION', 'Cannot use DynamoDB: the name of its table must be a text, got none');
    }
    this.#options = options;
  }

  /** The address that was given, without user and password; undefined: that of the service. */
  get address(): string | undefined {
    return this.#options.url?.replace(/^(\w+:\/\/)[^/?#]*@/, '$1');
  }

  /** A name with the prefix of this environment. */
  named(name: string): string {
    const { prefix = '' } = this.#options;
    return prefix === '' ? name : `${prefix}:${name}`;
  }

  /** As it is now, not as it was a moment ago. */
  async get(namespace: string, key: string): Promise<Row | undefined> {
    return this.#use(async ({ sdk, client }) => {
      const Key = { namespace: { S: namespace }, key: { S: key } };
      const input = { TableName: this.#options.tableName, Key, ConsistentRead: true };
      return (await client.send(new sdk.GetItemCommand(input))).Item as Row | undefined;
    });
  }

  /** Everything in a namespace, in groups. */
  async *query(namespace: string): AsyncGenerator<readonly Row[]> {
    let start: Row | undefined;
    do {
      const from = start;
      const answer = await this.#use(({ sdk, client }) =>
        client.send(
          new sdk.QueryCommand({
            TableName: this.#options.tableName,
            ConsistentRead: true,
            KeyConditionExpression: '#namespace = :namespace',
            ExpressionAttributeNames: { '#namespace': 'namespace' },
            ExpressionAttributeValues: { ':namespace': { S: namespace } },
            ...(from === undefined ? {} : { ExclusiveStartKey: from as Record<string, Sdk.AttributeValue> }),
          }),
        ),
      );
      yield (answer.Items ?? []) as Row[];
      start = answer.LastEvaluatedKey as Row | undefined;
    } while (start !== undefined);
  }

  /** False when the condition did not hold. */
  put(row: Row, condition?: Condition): Promise<boolean> {
    return this.#conditional(({ sdk, client }) => {
      const Item = row as Record<string, Sdk.AttributeValue>;
      return client.send(
        new sdk.PutItemCommand({ TableName: this.#options.tableName, Item, ...conditionOf(condition) }),
      );
    });
  }

  /** False when the condition did not hold. */
  delete(namespace: string, key: string, condition: Condition): Promise<boolean> {
    return this.#conditional(({ sdk, client }) => {
      const Key = { namespace: { S: namespace }, key: { S: key } };
      return client.send(
        new sdk.DeleteItemCommand({ TableName: this.#options.tableName, Key, ...conditionOf(condition) }),
      );
    });
  }

  async close(): Promise<void> {
    const loaded = await this.#loaded?.catch(() => undefined);
    loaded?.client.destroy();
  }

  async #conditional(
    run: (loaded: { sdk: typeof Sdk; client: Sdk.DynamoDBClient }) => Promise<unknown>,
  ): Promise<boolean> {
    return this.#use(async (loaded) => {
      try {
        await run(loaded);
        return true;
      } catch (thrown) {
        if (thrown instanceof Error && thrown.name === 'ConditionalCheckFailedException') return false;
        throw thrown;
      }
    });
  }

  async #use<T>(run: (loaded: { sdk: typeof Sdk; client: Sdk.DynamoDBClient }) => Promise<T>): Promise<T> {
    this.#loaded ??= this.#load();
    try {
      return await run(await this.#loaded);
    } catch (thrown) {
      if (thrown instanceof HeadgateError) throw thrown;
      const message = `Cannot use the table ${this.#options.tableName} of DynamoDB: it must answer, got ${messageOf(thrown)}`;
      throw new HeadgateError('HG_STORE', message, { cause: thrown });
    }
  }

  async #load(): Promise<{ readonly sdk: typeof Sdk; readonly client: Sdk.DynamoDBClient }> {
    const { url, connectTimeoutMs = TIMEOUT_MS, readTimeoutMs = TIMEOUT_MS } = this.#options;
    const sdk = await loadSdk(() => import('@aws-sdk/client-dynamodb'));
    const client = new sdk.DynamoDBClient({
      maxAttempts: 2,
      requestHandler: { connectionTimeout: connectTimeoutMs, requestTimeout: readTimeoutMs },
      ...(url === undefined ? {} : { endpoint: url }),
    });
    return { sdk, client };
  }
}

/** The package is optional: it weighs more than everything else, and few need it. */
export async function loadSdk<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (thrown) {
    const message = `Cannot use DynamoDB: the package ${PACKAGE} must be installed beside Headgate, got ${messageOf(thrown)}`;
    throw new HeadgateError('HG_STORE', message, { cause: thrown });
  }
}

function conditionOf(condition: Condition | undefined): {
  ConditionExpression?: string;
  ExpressionAttributeNames?: Record<string, string>;
  ExpressionAttributeValues?: Record<string, Sdk.AttributeValue>;
} {
  if (condition === undefined) return {};
  return {
    ConditionExpression: condition.expression,
    ExpressionAttributeNames: condition.names,
    ...(condition.values === undefined
      ? {}
      : { ExpressionAttributeValues: condition.values as Record<string, Sdk.AttributeValue> }),
  };
}
