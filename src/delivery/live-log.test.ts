import { describe, expect, it } from 'vitest';
import { DataSet } from '../dataset/index.ts';
import { liveLogOf } from './live-log.ts';
import { eventBlock } from './sse.ts';

async function changed(dataSet: DataSet, version: number): Promise<void> {
  const item = { kind: 'price', key: 'a', version, text: String(version) };
  await dataSet.apply([{ ...item, item }]);
}

async function loaded(logMaxBatches: number): Promise<DataSet> {
  const dataSet = new DataSet({ name: 'prices', kinds: ['price'], logMaxBatches });
  await dataSet.replace([]);
  return dataSet;
}

describe('a log of blocks', () => {
  it('has the offsets of the log of batches, as it grows and loses its oldest', async () => {
    const dataSet = await loaded(2);
    const log = liveLogOf(dataSet.log, 'live', ({ digest }) => eventBlock({ data: digest }));
    for (const version of [1, 2, 3, 4]) {
      await changed(dataSet, version);
      expect([log.first, log.next]).toEqual([dataSet.log.first, dataSet.log.next]);
    }
    expect(log.next - log.first).toBe(2);
    expect(log.block(log.first - 1)).toBeUndefined();
    expect(log.block(log.next)).toBeUndefined();
    const newest = Buffer.from(log.block(log.next - 1)?.bytes ?? []).toString();
    expect(newest).toBe(`data: ${dataSet.snapshot().digest}\n\n`);
  });

  // fails when the memo is removed: every client would then have a block of its own
  it('makes each block once, and one for each name', async () => {
    const dataSet = await loaded(10);
    await changed(dataSet, 1);
    const made: string[] = [];
    const logOf = (name: string): ReturnType<typeof liveLogOf> =>
      liveLogOf(dataSet.log, name, () => {
        made.push(name);
        return eventBlock({ data: name });
      });
    const [one, same, other] = [logOf('one'), logOf('one'), logOf('other')];
    const offset = dataSet.log.first;
    expect(one.block(offset)).toBe(one.block(offset));
    expect(same.block(offset)).toBe(one.block(offset));
    expect(other.block(offset)).not.toBe(one.block(offset));
    expect(made).toEqual(['one', 'other']);
  });
});
