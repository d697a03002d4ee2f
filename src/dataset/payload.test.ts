import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  eventShape,
  evenShape,
  expectedText,
  flag,
  groupsOf,
  makeSet,
  mapPlan,
  mapShape,
  put,
  textOf,
  wireOf,
} from '../../test/support/dataset-kit.ts';
import { Slices } from '../kernel/index.ts';
import * as gzip from './gzip.ts';
import { crc32Combine, type Encoding, type Item, type Plan, payloadOf, planOf, type Shape } from './index.ts';

// many runs each, and a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

vi.mock(import('./gzip.ts'), async (original) => {
  const real = await original();
  return { ...real, deflateBlock: vi.fn<typeof real.deflateBlock>(real.deflateBlock) };
});

const deflate = vi.mocked(gzip.deflateBlock);
const ENCODINGS: readonly Encoding[] = ['identity', 'gzip'];
const GROUP_BYTES_MAX = 68 * 1024;

afterEach(() => {
  deflate.mockClear();
});

/** Texts with every kind of character a JSON text can hold, lone surrogates too. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }).map((value) => `{"t":${JSON.stringify(value)}}`),
  fc.constantFrom('{"t":"\ud800"}', '{"t":"\udc00\ud800é"}', '{"t":"😀"}', '{}'),
  fc
    .tuple(fc.constantFrom('x', 'é', '😀', '\ud800'), fc.constantFrom(10, 20_000, 70_000))
    .map(([unit, times]) => `"${unit.repeat(times)}"`),
);
const item: fc.Arbitrary<Item> = fc.record({
  kind: fc.constantFrom('flags', 'segments'),
  key: fc.string({ unit: fc.constantFrom('a', 'b', 'é', '\ud801', '"'), maxLength: 3 }),
  version: fc.nat({ max: 5 }),
  text: text.filter((value) => !/[\n\r]/.test(value)),
});
const shape = fc.constantFrom(mapShape, eventShape, evenShape);
const piece = fc.oneof(
  fc.constantFrom('', '{', '",\n"', 'é\ud800', 'x'.repeat(511), 'x'.repeat(512), 'long '.repeat(40_000)),
  fc.record({ kind: fc.constantFrom('flags', 'segments', 'unknown'), shape }),
);
const plan: fc.Arbitrary<Plan> = fc.array(piece, { maxLength: 5 }).map((pieces) => planOf(...pieces));

describe('payloadOf', () => {
  it('gives what the plan says, byte for byte and length for length, in both encodings', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(item, { maxLength: 12 }), plan, fc.boolean(), async (items, each, lengthFirst) => {
        const set = makeSet();
        await set.replace(items);
        const snapshot = set.snapshot();
        const wanted = Buffer.from(expectedText(snapshot, each));
        if (lengthFirst) snapshot.byteLength(each);
        expect((await wireOf(snapshot, each, 'identity')).equals(wanted)).toBe(true);
        expect(snapshot.byteLength(each)).toBe(wanted.length);
        expect(snapshot.knownByteLength(each)).toBe(wanted.length);
        expect(gunzipSync(await wireOf(snapshot, each, 'gzip')).equals(wanted)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('gives groups that one write can take, and knows its length once encoded', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(item, { maxLength: 12 }),
        plan,
        fc.constantFrom(...ENCODINGS),
        async (items, each, encoding) => {
          const set = makeSet();
          await set.replace(items);
          const payload = payloadOf(set.snapshot(), each, encoding);
          const groups = await groupsOf(payload);
          const sizes = groups.map((group) => Buffer.concat(group).length);
          expect(sizes.every((size) => size > 0 && size <= GROUP_BYTES_MAX)).toBe(true);
          // after the end there is nothing, however often it is asked
          expect([payload.next(), payload.next()]).toEqual([undefined, undefined]);
          const total = sizes.reduce((sum, size) => sum + size, 0);
          const later = payloadOf(set.snapshot(), each, encoding);
          expect(await later.prepare()).toBe(total);
          expect(later.bytes).toBe(total);
          expect(Buffer.concat((await groupsOf(later)).flat()).equals(Buffer.concat(groups.flat()))).toBe(true);
        },
      ),
      { numRuns: 60 },
    );
  });

  it.each(ENCODINGS)('gives valid output of nothing (%s)', async (encoding) => {
    const set = makeSet();
    expect(JSON.parse(await textOf(set.snapshot(), mapPlan, encoding))).toEqual({
      path: '/',
      data: { flags: {}, segments: {} },
    });
    expect(await textOf(set.snapshot(), planOf(), encoding)).toBe('');
    expect(await textOf(set.snapshot(), planOf('', { kind: 'flags', shape: eventShape }), encoding)).toBe('');
  });

  it.each(ENCODINGS)('puts no separator where a page shows nothing (%s)', async (encoding) => {
    const set = makeSet();
    // leaf by leaf: shown, not shown, not shown, shown; and the same for the first and the last
    const versions = [1, 2, 1, 1, 2, 1];
    await set.replace(versions.map((version, at) => flag(`k${at}`, version, 'x'.repeat(90_000))));
    const plan = planOf('[', { kind: 'flags', shape: evenShape }, ']');
    expect((JSON.parse(await textOf(set.snapshot(), plan, encoding)) as Item[]).map(({ key }) => key)).toEqual([
      'k1',
      'k4',
    ]);
    expect(set.snapshot().byteLength(plan)).toBe(Buffer.byteLength(expectedText(set.snapshot(), plan)));
  });

  it.each(ENCODINGS)('encodes nothing before the first piece is asked for (%s)', async (encoding) => {
    const set = makeSet();
    await set.replace([flag('a', 1)]);
    const entry = vi.fn<Shape['entry']>(() => '1');
    const payload = payloadOf(
      set.snapshot(),
      planOf({ kind: 'flags', shape: { name: 'watched', entry, separator: ',' } }),
      encoding,
    );
    expect(payload.bytes).toBeUndefined();
    expect(entry).not.toHaveBeenCalled();
    await payload.next();
    expect(entry).toHaveBeenCalledTimes(1);
  });

  it('sends the very same buffers in every delivery of every snapshot that shares the leaf', async () => {
    const set = makeSet();
    await set.replace(Array.from({ length: 400 }, (_, at) => flag(`k${1000 + at}`, 1, 'x'.repeat(1000))));
    const before = set.snapshot();
    await set.apply([put(flag('k1000', 2))]);
    const large = (groups: Uint8Array[][]): Uint8Array[] => groups.flat().filter((part) => part.length > 200);
    for (const encoding of ENCODINGS) {
      const first = large(await groupsOf(payloadOf(before, mapPlan, encoding)));
      const again = large(await groupsOf(payloadOf(before, mapPlan, encoding)));
      const after = large(await groupsOf(payloadOf(set.snapshot(), mapPlan, encoding)));
      expect(again.every((part, at) => part === first[at])).toBe(true);
      expect(first.length).toBeGreaterThan(5);
      // one change: one page
      expect(after.filter((part) => !first.includes(part))).toHaveLength(1);
    }
  });

  it('groups small compressed pages, and compresses a few ahead', async () => {
    const set = makeSet();
    await set.replace(Array.from({ length: 1000 }, (_, at) => flag(`k${1000 + at}`, 1, 'x'.repeat(1000))));
    const payload = payloadOf(set.snapshot(), mapPlan, 'gzip');
    const given = [...((await payload.next()) ?? []), ...((await payload.next()) ?? [])];
    // the pages that were given, the one that is waited for and three more: fails when reading ahead has no bound
    expect(deflate.mock.calls.length).toBeLessThanOrEqual(given.length + 4);
    await payloadOf(set.snapshot(), mapPlan, 'gzip').prepare();
    const groups = await groupsOf(payloadOf(set.snapshot(), mapPlan, 'gzip'));
    expect(groups).toHaveLength(1);
  });

  it('can be asked again after a failure, and has lost nothing', async () => {
    const set = makeSet();
    await set.replace([flag('a', 1), flag('b', 1)]);
    const wanted = expectedText(set.snapshot(), mapPlan);
    for (const encoding of ENCODINGS) {
      let failures = 2;
      const entry = (each: Item): string => {
        if (failures-- > 0) throw new Error('broken entry');
        return mapShape.entry(each)!;
      };
      const shaky: Shape = { name: 'shaky', entry, separator: ',' };
      const pieces = mapPlan.pieces.map((each) => (typeof each === 'string' ? each : { ...each, shape: shaky }));
      const payload = payloadOf(set.snapshot(), { pieces }, encoding);
      const parts: Uint8Array[] = [...(await payload.next()!)];
      expect(() => payload.next()).toThrow('broken entry');
      parts.push(...(await groupsOf(payload)).flat());
      const wire = Buffer.concat(parts);
      expect((encoding === 'gzip' ? gunzipSync(wire) : wire).toString()).toBe(wanted);
    }
  });

  it('can be asked again after compressing failed, of a page or of a long text', async () => {
    const set = makeSet();
    await set.replace([flag('a', 1)]);
    const plan = planOf('long '.repeat(200), { kind: 'flags', shape: mapShape });
    const payload = payloadOf(set.snapshot(), plan, 'gzip');
    const parts: Uint8Array[] = [...(await payload.next()!)];
    const wants = 3;
    for (let asked = 0; asked < wants; asked++) deflate.mockRejectedValueOnce(new Error('no memory'));
    await expect(payload.prepare()).rejects.toThrow('no memory');
    let failures = 0;
    const next = async (): Promise<readonly Uint8Array[] | undefined> => {
      try {
        return await payload.next();
      } catch {
        failures++;
        return [];
      }
    };
    for (let group = await next(); group !== undefined; group = await next()) parts.push(...group);
    expect(failures).toBeGreaterThan(0);
    expect(gunzipSync(Buffer.concat(parts)).toString()).toBe(expectedText(set.snapshot(), plan));
  });

  it('gives the blocks alone, for a member that goes on after them', async () => {
    const set = makeSet();
    await set.replace([flag('a', 1, 'é'), flag('b', 1, 'x'.repeat(100_000))]);
    const wanted = Buffer.from(expectedText(set.snapshot(), mapPlan));
    const payload = payloadOf(set.snapshot(), mapPlan, 'gzip', { framed: false });
    expect(payload.checksum).toEqual({ crc: 0, length: 0 });
    const blocks = Buffer.concat((await groupsOf(payload)).flat());
    expect(payload.bytes).toBe(blocks.length);
    const { crc, length } = payload.checksum;
    const live = gzip.deflateBlockSync(Buffer.from('event: patch\n'.repeat(100)));
    const trailer = gzip.gzipTrailer(crc32Combine(crc, live.crc, live.length), length + live.length);
    const member = Buffer.concat([gzip.gzipHeader(), blocks, live.block, trailer]);
    expect(gunzipSync(member).toString()).toBe(`${wanted.toString()}${'event: patch\n'.repeat(100)}`);
    expect(await payloadOf(set.snapshot(), mapPlan, 'gzip', { framed: false }).prepare()).toBe(blocks.length);
    expect(payloadOf(set.snapshot(), mapPlan, 'identity').checksum).toEqual({ crc: 0, length: 0 });
  });

  it('measures in slices to the same length, once', async () => {
    const set = makeSet();
    await set.replace(Array.from({ length: 500 }, (_, at) => flag(`é${at}`, at, 'x'.repeat(500))));
    const snapshot = set.snapshot();
    expect(snapshot.knownByteLength(mapPlan)).toBeUndefined();
    const slices = new Slices(0);
    const paused = vi.spyOn(slices, 'pause');
    const measured = await snapshot.measure(mapPlan, slices);
    expect(measured).toBe(Buffer.byteLength(expectedText(snapshot, mapPlan)));
    expect(paused).toHaveBeenCalledTimes(snapshot.leavesOf('flags').length);
    expect(await snapshot.measure(mapPlan, slices)).toBe(measured);
    expect(paused).toHaveBeenCalledTimes(snapshot.leavesOf('flags').length);
    expect(payloadOf(snapshot, mapPlan, 'identity').bytes).toBe(snapshot.byteLength(mapPlan));
  });

  it('lets the loop turn while it prepares', async () => {
    const set = makeSet();
    await set.replace(Array.from({ length: 4000 }, (_, at) => flag(`k${at}`, at, 'x'.repeat(500))));
    const encoded = new Set<number>();
    let count = 0;
    const entry = (item: Item): string => {
      count++;
      return item.text;
    };
    const look = (): void => {
      encoded.add(count);
      next = setImmediate(look);
    };
    let next = setImmediate(look);
    // each leaf takes longer than a slice
    const slow: Shape = { name: 'slow', entry: (item) => (busy(0.02), entry(item)), separator: ',' };
    await payloadOf(set.snapshot(), planOf({ kind: 'flags', shape: slow }), 'identity').prepare();
    clearImmediate(next);
    expect(count).toBe(4000);
    expect(encoded.size).toBeGreaterThan(5);
  });
});

/** Keeps the processor for so many milliseconds. */
function busy(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

describe('planOf', () => {
  const refusal = expect.objectContaining({ code: 'HG_OPTION' });
  it('refuses what cannot be encoded', () => {
    const of = (value: unknown) => () => planOf(value as Plan['pieces'][number]);
    expect(of(undefined)).toThrow(refusal);
    expect(of(1)).toThrow('a piece must be text or name a kind, got 1');
    expect(of({ kind: 1, shape: mapShape })).toThrow(refusal);
    expect(of({ kind: 'flags' })).toThrow('must have an entry function, got undefined');
    expect(of({ kind: 'flags', shape: { ...mapShape, entry: 1 } })).toThrow(refusal);
    expect(of({ kind: 'flags', shape: { ...mapShape, separator: undefined } })).toThrow('must have a separator');
    expect(planOf('a', { kind: 'flags', shape: mapShape }).pieces).toHaveLength(2);
  });
});
