import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { eventShape, evenShape, flag, mapShape } from '../../test/support/dataset-kit.ts';
import * as gzip from './gzip.ts';
import type { Item, Shape } from './index.ts';
import { Leaf, type PageBlock, PART_BYTES_MAX, partsOf } from './leaf.ts';

vi.mock(import('./gzip.ts'), async (original) => {
  const real = await original();
  return { ...real, deflateBlock: vi.fn<typeof real.deflateBlock>(real.deflateBlock) };
});

const deflate = vi.mocked(gzip.deflateBlock);
const items = [flag('a', 1), flag('b', 2, 'é'), flag('c', 4)];
const meter = { pinnedBytes: 0 };

function leafOf(of: readonly Item[] = items): Leaf {
  return new Leaf(of, meter);
}

/** Counts how often it is asked. */
function counted(): { shape: Shape; calls: () => number } {
  let calls = 0;
  const entry = (item: Item): string => {
    calls++;
    return item.text;
  };
  return { shape: { name: 'counted', entry, separator: ',' }, calls: () => calls };
}

function inflate(block: PageBlock): string {
  return gunzipSync(
    Buffer.concat([gzip.gzipHeader(), ...block.parts, gzip.gzipTrailer(block.crc, block.length)]),
  ).toString();
}

afterEach(() => {
  deflate.mockClear();
  meter.pinnedBytes = 0;
});

describe('Leaf', () => {
  it('is never empty', () => {
    expect(() => leafOf([])).toThrow('a leaf is never empty');
  });

  it('counts the bytes of its texts in UTF-8', () => {
    expect(leafOf().textBytes).toBe(Buffer.byteLength(items.map(({ text }) => text).join('')));
    expect(leafOf().firstKey).toBe('a');
  });

  it('encodes a shape once, and gives everybody the same buffer', () => {
    const leaf = leafOf();
    const { shape, calls } = counted();
    const page = leaf.page(shape);
    expect(Buffer.concat(page.parts).toString()).toBe(items.map(({ text }) => text).join(','));
    expect(leaf.page(shape).parts[0]).toBe(page.parts[0]);
    expect(leaf.measure(shape)).toMatchObject({ entries: 3, bytes: page.bytes });
    expect(calls()).toBe(3);
  });

  it('keeps shapes apart by what they are, whatever they are called', () => {
    const leaf = leafOf();
    const other: Shape = { ...mapShape, entry: (item) => item.key };
    expect(leaf.page(mapShape).bytes).not.toBe(leaf.page(other).bytes);
    expect(Buffer.concat(leaf.page(other).parts).toString()).toBe('a,b,c');
  });

  it('leaves out what a shape does not show', () => {
    const leaf = leafOf();
    expect(Buffer.concat(leaf.page(evenShape).parts).toString()).toBe(`${items[1]!.text}, ${items[2]!.text}`);
    expect(leaf.page(evenShape).entries).toBe(2);
    const none: Shape = { name: 'none', entry: () => undefined, separator: ',' };
    expect(leaf.page(none)).toMatchObject({ entries: 0, parts: [], bytes: 0, crc: 0, length: 0 });
    expect(leaf.block(none)).toEqual({ entries: 0, parts: [], bytes: 0, crc: 0, length: 0 });
    expect(deflate).not.toHaveBeenCalled();
  });

  it('measures without keeping anything', () => {
    const leaf = leafOf();
    const { shape, calls } = counted();
    expect(leaf.measured(shape)).toBeUndefined();
    const measured = leaf.measure(shape);
    expect(leaf.measured(shape)).toBe(measured);
    expect(leaf.measure(shape)).toBe(measured);
    expect(calls()).toBe(3);
    expect(leaf.heldBytes).toBe(leaf.textBytes);
    expect(leaf.page(shape).bytes).toBe(measured.bytes);
  });

  it('compresses once for all who ask meanwhile and later', async () => {
    const leaf = leafOf();
    const [first, second] = [leaf.block(eventShape), leaf.block(eventShape)];
    expect(second).toBe(first);
    expect(leaf.blockReady(eventShape)).toBeUndefined();
    const block = await first;
    expect(leaf.block(eventShape)).toBe(block);
    expect(leaf.blockReady(eventShape)).toBe(block);
    // fails when the single flight on the leaf is removed
    expect(deflate).toHaveBeenCalledTimes(1);
    expect(inflate(block)).toBe(items.map((item) => eventShape.entry(item)).join(''));
    // the plain page was only needed on the way
    expect(leaf.heldBytes).toBe(leaf.textBytes + block.bytes);
  });

  it('compresses the plain page that is there', async () => {
    const leaf = leafOf();
    const { shape, calls } = counted();
    leaf.page(shape);
    await leaf.block(shape);
    expect(calls()).toBe(3);
  });

  it('keeps no failure: those who waited get it, who asks next tries again', async () => {
    const leaf = leafOf();
    deflate.mockRejectedValueOnce(new Error('no memory'));
    const waiting = [leaf.block(mapShape), leaf.block(mapShape)];
    for (const each of waiting) await expect(each).rejects.toThrow('no memory');
    expect(leaf.heldBytes).toBe(leaf.textBytes);
    expect(inflate(await leaf.block(mapShape))).toContain('"a":');
  });

  it('raises no unhandled rejection when nobody waits', async () => {
    const unhandled = vi.fn<() => void>();
    process.on('unhandledRejection', unhandled);
    deflate.mockRejectedValueOnce(new Error('no memory'));
    void leafOf().block(mapShape);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    process.off('unhandledRejection', unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it('caches nothing of an entry that throws', () => {
    const leaf = leafOf();
    let fails = true;
    const entry = (item: Item): string => {
      if (fails) throw new Error('broken');
      return item.text;
    };
    const shape: Shape = { name: 'shaky', entry, separator: ',' };
    expect(() => leaf.page(shape)).toThrow('broken');
    expect(() => leaf.block(shape)).toThrow('broken');
    expect(() => leaf.measure(shape)).toThrow('broken');
    fails = false;
    expect(leaf.page(shape).entries).toBe(3);
  });

  it('forgets an encoding, its bytes with it, and encodes again when asked', async () => {
    const leaf = leafOf();
    const page = leaf.page(mapShape);
    const block = await leaf.block(mapShape);
    expect(leaf.heldBytes).toBe(leaf.textBytes + page.bytes + block.bytes);
    leaf.forget(mapShape, 'identity');
    expect(leaf.heldBytes).toBe(leaf.textBytes + block.bytes);
    expect(leaf.blockReady(mapShape)).toBe(block);
    leaf.forget(mapShape, 'gzip');
    expect(leaf.heldBytes).toBe(leaf.textBytes);
    expect(leaf.measured(mapShape)).toBeUndefined();
    leaf.forget(mapShape, 'gzip');
    expect(leaf.page(mapShape)).not.toBe(page);
    expect(leaf.page(mapShape)).toEqual(page);
  });

  it('does not keep what was forgotten while it was being compressed', async () => {
    const leaf = leafOf();
    const flight = leaf.block(mapShape);
    leaf.forget(mapShape, 'gzip');
    const again = leaf.block(mapShape);
    expect((await flight).entries).toBe(3);
    expect(leaf.heldBytes - leaf.textBytes).toBeOneOf([0, (await again).bytes]);
    await again;
    // counted once: fails when the check for the flight is removed
    expect(leaf.heldBytes).toBe(leaf.textBytes + (await again).bytes);
  });

  it('does not lose a newer flight to an older one that fails', async () => {
    const leaf = leafOf();
    deflate.mockRejectedValueOnce(new Error('no memory'));
    leaf.page(mapShape);
    const failing = leaf.block(mapShape);
    // the plain page stays, and with it what is known of the shape
    leaf.forget(mapShape, 'gzip');
    const newer = leaf.block(mapShape);
    await expect(failing).rejects.toThrow('no memory');
    expect(leaf.block(mapShape)).toBeOneOf([newer, await newer]);
    expect(deflate).toHaveBeenCalledTimes(2);
  });
});

describe('a pinned leaf', () => {
  it('counts when it is retired and pinned, with all it holds, until the last pin goes', async () => {
    const leaf = leafOf();
    leaf.pin();
    leaf.pin();
    leaf.page(mapShape);
    expect(meter.pinnedBytes).toBe(0);
    leaf.retire();
    expect(meter.pinnedBytes).toBe(leaf.heldBytes);
    // a slow delivery goes on encoding a snapshot that nobody else needs
    leaf.page(eventShape);
    await leaf.block(mapShape);
    expect(meter.pinnedBytes).toBe(leaf.heldBytes);
    leaf.forget(mapShape, 'identity');
    expect(meter.pinnedBytes).toBe(leaf.heldBytes);
    leaf.unpin();
    expect(meter.pinnedBytes).toBe(leaf.heldBytes);
    leaf.unpin();
    expect(meter.pinnedBytes).toBe(0);
    leaf.page(evenShape);
    expect(meter.pinnedBytes).toBe(0);
  });

  it('counts once when it is pinned after it retired', () => {
    const leaf = leafOf();
    leaf.retire();
    expect(meter.pinnedBytes).toBe(0);
    leaf.pin();
    expect(meter.pinnedBytes).toBe(leaf.heldBytes);
    leaf.pin();
    expect(meter.pinnedBytes).toBe(leaf.heldBytes);
    leaf.unpin();
    leaf.unpin();
    expect(meter.pinnedBytes).toBe(0);
  });

  it('cannot be unpinned more often than pinned, nor retire twice', () => {
    const leaf = leafOf();
    expect(() => leaf.unpin()).toThrow('as often as it was pinned');
    leaf.retire();
    expect(() => leaf.retire()).toThrow('retires once');
  });
});

describe('partsOf', () => {
  it.each([0, 1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 2 * PART_BYTES_MAX, 2 * PART_BYTES_MAX + 1, 1_000_003])(
    'cuts %i bytes',
    (length) => {
      const bytes = Buffer.alloc(length, 'x');
      const parts = partsOf(bytes);
      expect(parts).toHaveLength(Math.ceil(length / PART_BYTES_MAX));
      expect(
        parts.every((part) => part.length > 0 && part.length <= PART_BYTES_MAX && part.buffer === bytes.buffer),
      ).toBe(true);
      expect(Buffer.concat(parts).equals(bytes)).toBe(true);
    },
  );
});
