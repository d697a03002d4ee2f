import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  type Change,
  DataSet,
  type Encoding,
  type Item,
  type Plan,
  payloadOf,
  planOf,
  type Shape,
  type Snapshot,
} from './index.ts';

const shape: Shape = { name: 'map', entry: (item) => `${JSON.stringify(item.key)}:${item.text}`, separator: ',' };
const plan: Plan = planOf('{"flags":{', { kind: 'flags', shape }, '},"segments":{', { kind: 'segments', shape }, '}}');

function flag(key: string, version: number, more = ''): Item {
  return { kind: 'flags', key, version, text: JSON.stringify({ key, version, more }) };
}

async function textOf(snapshot: Snapshot, of: Plan, encoding: Encoding): Promise<string> {
  const payload = payloadOf(snapshot, of, encoding);
  const pieces: Uint8Array[] = [];
  for (let group = payload.next(); group !== undefined; group = payload.next()) pieces.push(...(await group));
  const bytes = Buffer.concat(pieces);
  return (encoding === 'gzip' ? gunzipSync(bytes) : bytes).toString();
}

describe('DataSet', () => {
  it('loads, changes, and gives whole copies in both encodings', async () => {
    const set = new DataSet({ name: 'test', kinds: ['flags', 'segments'] });
    expect(set.ready).toBe(false);
    const items = Array.from({ length: 3000 }, (_, at) => flag(`flag-${at}`, 1, 'x'.repeat(100)));
    expect((await set.replace(items)).result).toBe('loaded');
    expect(set.snapshot().count).toBe(3000);
    const before = set.snapshot();
    const change: Change = { kind: 'flags', key: 'flag-7', version: 2, item: flag('flag-7', 2) };
    expect((await set.apply([change])).result).toBe('changed');
    for (const encoding of ['identity', 'gzip'] as const) {
      const parsed = JSON.parse(await textOf(set.snapshot(), plan, encoding)) as {
        flags: Record<string, { version: number }>;
      };
      expect(Object.keys(parsed.flags)).toHaveLength(3000);
      expect(parsed.flags['flag-7']?.version).toBe(2);
    }
    expect(set.since({ digest: before.digest, clock: before.clock, view: 'v' })).toMatchObject({
      kind: 'changes',
      keys: [change],
    });
  });
});
