import { describe, expect, it } from 'vitest';
import { flag, gone, put } from '../../test/support/dataset-kit.ts';
import { Slices } from '../kernel/index.ts';
import type { Batch, Change } from './index.ts';
import { ChangeLog, changeBytes } from './log.ts';

const slices = new Slices();
const BASE = { digest: 'base', clock: 0 };

function makeLog(maxBatches = 100, maxBytes = 1e9, next = 0): ChangeLog {
  return new ChangeLog({ maxBatches, maxBytes }, BASE, next);
}

async function append(log: ChangeLog, digest: string, ...changes: Change[]): Promise<Batch> {
  const prepared = await log.prepare(changes, slices);
  const reach = log.reachAfter(prepared);
  await log.enter(prepared, slices);
  const batch = log.append(prepared, { digest, clock: 1 });
  await log.forget(log.evict(), slices);
  expect(log.reach).toBe(reach);
  return batch;
}

describe('ChangeLog', () => {
  it('gives batches by offset, and nothing outside', async () => {
    const log = makeLog(100, 1e9, 7);
    expect([log.first, log.next]).toEqual([7, 7]);
    const batches = [await append(log, 'a', put(flag('k', 1))), await append(log, 'b', put(flag('k', 2)))];
    expect([log.first, log.next]).toEqual([7, 9]);
    expect([6, 7, 8, 9, 7.5, Number.NaN].map((offset) => log.at(offset))).toEqual([
      undefined,
      ...batches,
      undefined,
      undefined,
      undefined,
    ]);
    expect(batches.map(({ offset }) => offset)).toEqual([7, 8]);
  });

  it('weighs changes by texts and keys, in UTF-8', async () => {
    const log = makeLog();
    const item = flag('é', 1, 'é');
    expect(changeBytes(put(item))).toBe(2 + Buffer.byteLength(item.text));
    expect(changeBytes(gone('é', 1))).toBe(2);
    const batch = await append(log, 'a', put(item), gone('é', 1, 'segments'));
    expect([batch.bytes, log.bytes]).toEqual([4 + Buffer.byteLength(item.text), batch.bytes]);
  });

  it('catches up with the latest change of each key touched, deletions included', async () => {
    const log = makeLog();
    await append(log, 'a', put(flag('k', 1)), put(flag('l', 1)));
    await append(log, 'b', put(flag('k', 2)), put({ ...flag('l', 5), kind: 'segments' }));
    await append(log, 'c', gone('l', 2), put(flag('m', 1)));
    const all = log.since(0);
    expect(all).toMatchObject({ kind: 'changes', from: 0, to: 3, digest: 'c', clock: 1 });
    expect(all.keys).toMatchObject([
      put(flag('k', 2)),
      put({ ...flag('l', 5), kind: 'segments' }),
      gone('l', 2),
      put(flag('m', 1)),
    ]);
    expect(all.bytes).toBe(all.keys.reduce((sum, change) => sum + changeBytes(change), 0));
    expect(log.since(2).keys).toMatchObject([gone('l', 2), put(flag('m', 1))]);
    expect(log.since(3)).toMatchObject({ from: 3, to: 3, keys: [], bytes: 0 });
  });

  it('shares one catch-up among those who come back to one state, until the next batch', async () => {
    const log = makeLog();
    await append(log, 'a', put(flag('k', 1)));
    const first = log.since(0);
    expect(log.since(0)).toBe(first);
    expect(first.memo('fdv2', () => 1)).toBe(1);
    expect(log.since(0).memo('fdv2', () => 2)).toBe(1);
    expect(log.since(0).memo('fdv1', () => 2)).toBe(2);
    await append(log, 'b', put(flag('k', 2)));
    expect(log.since(0)).not.toBe(first);
    expect(log.since(0).memo('fdv2', () => 3)).toBe(3);
    // what was handed out stays what it was
    expect(first.keys).toMatchObject([put(flag('k', 1))]);
  });

  it('remembers catch-ups for 64 states', async () => {
    const log = makeLog();
    for (let at = 0; at < 70; at++) await append(log, `d${at}`, put(flag('k', at)));
    const kept = Array.from({ length: 66 }, (_, from) => log.since(from)).filter(
      (each, from) => log.since(from) === each,
    );
    expect(kept).toHaveLength(64);
  });

  it('encodes a batch once per key, also when that gives undefined', async () => {
    const batch = await append(makeLog(), 'a', put(flag('k', 1)));
    let made = 0;
    for (let asked = 0; asked < 3; asked++) batch.memo('x', () => void made++);
    batch.memo('y', () => void made++);
    expect(made).toBe(2);
  });

  it('shows readers nothing of a batch that is only prepared', async () => {
    const log = makeLog();
    await append(log, 'a', put(flag('k', 1)));
    const prepared = await log.prepare([put(flag('k', 2))], slices);
    await log.enter(prepared, slices);
    // fails when a superseded entry is hidden before what supersedes it can be seen
    expect(log.since(0).keys).toMatchObject([put(flag('k', 1))]);
    log.append(prepared, { digest: 'b', clock: 2 });
    expect(log.since(0).keys).toMatchObject([put(flag('k', 2))]);
  });

  it('names the earliest state of a digest, as far back as it reaches', async () => {
    const log = makeLog(3);
    await append(log, 'a', put(flag('k', 1)));
    await append(log, 'base', gone('k', 2));
    await append(log, 'a', put(flag('k', 3)));
    expect([log.stateOf('base'), log.stateOf('a'), log.stateOf('x')]).toEqual([0, 1, undefined]);
    expect([log.stateAt('a', 1, 1), log.stateAt('x', 1, 1)]).toEqual([3, undefined]);
    await append(log, 'base', gone('k', 4));
    expect([log.first, log.stateOf('base'), log.stateOf('a')]).toEqual([1, 2, 1]);
    await append(log, 'c', put(flag('k', 5)));
    expect([log.first, log.stateOf('base'), log.stateOf('a')]).toEqual([2, 2, 3]);
    for (const digest of ['d', 'e', 'f']) await append(log, digest, put(flag('k', 6)));
    expect([log.first, log.stateOf('base'), log.stateOf('a'), log.stateOf('c')]).toEqual([5, undefined, undefined, 5]);
  });

  it('evicts the oldest beyond the count and beyond the bytes, and keeps the newest', async () => {
    const counted = makeLog(2);
    for (const digest of ['a', 'b', 'c', 'd']) await append(counted, digest, put(flag(digest, 1)));
    expect([counted.first, counted.next]).toEqual([2, 4]);
    expect(counted.bytes).toBe(counted.at(2)!.bytes + counted.at(3)!.bytes);
    const one = changeBytes(put(flag('k', 1)));
    const weighed = makeLog(100, 2 * one);
    for (const digest of ['a', 'b', 'c']) await append(weighed, digest, put(flag('k', 1)));
    expect([weighed.first, weighed.next, weighed.bytes]).toEqual([1, 3, 2 * one]);
    await append(weighed, 'd', put(flag('k', 1, 'x'.repeat(1000))));
    expect([weighed.first, weighed.next]).toEqual([3, 4]);
    expect(weighed.since(3).keys).toHaveLength(1);
  });

  it('forgets the latest entries of what it evicted, and only those', async () => {
    const log = makeLog(2);
    await append(log, 'a', put(flag('k', 1)), put(flag('old', 1)));
    await append(log, 'b', put(flag('k', 2)));
    expect(log.keys).toBe(2);
    await append(log, 'c', put(flag('m', 1)));
    // 'k' and 'm': fails when nothing is forgotten, or too much
    expect(log.keys).toBe(2);
    // 'k' is still in the log at offset 1: when it is changed again, that entry must be superseded
    await append(log, 'd', put(flag('k', 3)));
    expect(log.since(2).keys).toMatchObject([put(flag('m', 1)), put(flag('k', 3))]);
    await append(log, 'e', put(flag('old', 2)));
    expect(log.since(3).keys).toMatchObject([put(flag('k', 3)), put(flag('old', 2))]);
  });

  it('knows nothing from before a break, and takes nobody there for up to date', async () => {
    const log = makeLog();
    await append(log, 'a', put(flag('k', 5)));
    log.break({ digest: 'b', clock: 9 });
    expect([log.first, log.next, log.bytes]).toEqual([2, 2, 0]);
    expect(['base', 'a', 'b'].map((digest) => log.stateOf(digest))).toEqual([undefined, undefined, 2]);
    expect([log.at(0), log.at(1), log.at(2)]).toEqual([undefined, undefined, undefined]);
    expect(log.since(2)).toMatchObject({ keys: [], digest: 'b', clock: 9 });
    await append(log, 'c', put(flag('k', 4)));
    expect(log.since(2).keys).toMatchObject([put(flag('k', 4))]);
  });
});
