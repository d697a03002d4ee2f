import { type DynamoOptions, DynamoTable } from './dynamo-client.ts';
import { type BigSegmentStore, membershipOf } from './vendor-segments.ts';

const METADATA = 'big_segments_metadata';
const USER = 'big_segments_user';

/**
 * Reads big segments from DynamoDB, in the layout of the vendor's relay and SDKs. It needs the package
 * `@aws-sdk/client-dynamodb`, and rejects with HG_STORE without it.
 *
 * @example
 * const segments = openDynamoBigSegments({ tableName: 'flags', prefix: 'production' });
 * await segments.close();
 */
export function openDynamoBigSegments(options: DynamoOptions): BigSegmentStore {
  const table = new DynamoTable(options);
  return {
    async membership(contextHash) {
      const row = await table.get(table.named(USER), contextHash);
      return membershipOf(row?.['included']?.SS ?? [], row?.['excluded']?.SS ?? []);
    },
    async updatedMs() {
      const name = table.named(METADATA);
      const ms = Number((await table.get(name, name))?.['synchronizedOn']?.N);
      return Number.isNaN(ms) ? undefined : ms;
    },
    close: () => table.close(),
  };
}
