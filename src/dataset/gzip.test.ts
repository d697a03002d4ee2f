import { spawnSync } from 'node:child_process';
import { crc32, gunzipSync, inflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import {
  crc32Combine,
  deflateBlock,
  deflateBlockSync,
  type GzipBlock,
  gzipHeader,
  gzipTrailer,
  storedBlock,
} from './index.ts';

// many runs each, and a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

function member(blocks: readonly GzipBlock[]): Buffer {
  let crc = 0;
  let length = 0;
  for (const block of blocks) {
    crc = crc32Combine(crc, block.crc, block.length);
    length += block.length;
  }
  return Buffer.concat([gzipHeader(), ...blocks.map(({ block }) => block), gzipTrailer(crc, length)]);
}

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 3000 }),
  fc.tuple(fc.string({ maxLength: 30 }), fc.nat({ max: 3000 })).map(([text, times]) => Buffer.from(text.repeat(times))),
);

async function makeBlock(piece: Uint8Array, stored: boolean): Promise<GzipBlock> {
  return stored && piece.length < 65_536 ? storedBlock(piece) : deflateBlock(piece);
}

/** A member of blocks that were compressed, stored, and compressed together with nothing. */
async function sample(): Promise<{ plain: Buffer; wire: Buffer }> {
  const parts = [
    Buffer.from('{"flags":{'),
    Buffer.alloc(200_000, '"flag":{"on":true},'),
    Buffer.alloc(0),
    Buffer.from('}}'),
  ];
  const blocks = [
    storedBlock(parts[0]!),
    await deflateBlock(parts[1]!),
    await deflateBlock(parts[2]!),
    storedBlock(parts[3]!),
  ];
  return { plain: Buffer.concat(parts), wire: member(blocks) };
}

function has(command: string): boolean {
  return spawnSync(command, ['--version']).status === 0;
}

describe('crc32Combine', () => {
  it('is the CRC of the joined bytes', () => {
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        expect(crc32Combine(crc32(a), crc32(b), b.length)).toBe(crc32(Buffer.concat([a, b])));
      }),
    );
  });

  it('shifts by lengths that no 32-bit shift can hold', () => {
    // 5 GB of zeros, joined from doublings: each step is known from the one before
    const zeros = Buffer.alloc(1 << 20);
    let crc = crc32(zeros);
    let length = zeros.length;
    for (; length < 2 ** 33; length *= 2) crc = crc32Combine(crc, crc, length);
    // the same length in another cut
    let other = 0;
    for (const part of [2 ** 32 + 5, 2 ** 33 - 2 ** 32 - 5]) other = crc32Combine(other, ofZeros(part), part);
    expect(other).toBe(crc);
  });
});

/** CRC-32 of so many zero bytes, from the CRCs of powers of two. */
function ofZeros(length: number): number {
  let crc = 0;
  let power = crc32(Buffer.alloc(1));
  for (let bit = 1; bit <= length; bit *= 2) {
    if (Math.floor(length / bit) % 2 === 1) crc = crc32Combine(crc, power, bit);
    power = crc32Combine(power, power, bit);
  }
  return crc;
}

describe('blocks', () => {
  it('join in any order into one valid member', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(bytes, fc.boolean()), { maxLength: 6 }), async (pieces) => {
        const blocks = await Promise.all(pieces.map(([piece, stored]) => makeBlock(piece, stored)));
        expect(gunzipSync(member(blocks)).equals(Buffer.concat(pieces.map(([piece]) => piece)))).toBe(true);
        expect(
          gunzipSync(member(blocks.toReversed())).equals(Buffer.concat(pieces.map(([piece]) => piece).toReversed())),
        ).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  it('are decodable on their own: nothing refers to the block before', async () => {
    const text = Buffer.from('the same words again and again '.repeat(100));
    const { block } = await deflateBlock(text);
    expect(inflateRawSync(Buffer.concat([block, Uint8Array.of(3, 0)])).equals(text)).toBe(true);
    // byte-aligned by an empty stored block, which is what a full flush ends with (RFC 1951, 3.2.4)
    expect([...block.subarray(-4)]).toEqual([0, 0, 0xff, 0xff]);
  });

  it('keep no more memory than they need', async () => {
    const { block } = await deflateBlock(Buffer.alloc(1000, 'x'));
    // fails when the block stays a view of the compressor's chunk
    expect(block.buffer.byteLength).toBe(block.length);
  });

  // Fails when storedBlock() leaves out the flush: Go's reader keeps what a stored block held until an empty one comes.
  it.each([1, 100, 511, 512, 5000])('of %i bytes end with an empty stored block', async (length) => {
    const bytes = Buffer.alloc(length, 'x');
    for (const { block } of [storedBlock(bytes), deflateBlockSync(bytes), await deflateBlock(bytes)]) {
      // its head of three bits may share a byte with what is before it
      expect([...block.subarray(-4)]).toEqual([0, 0, 0xff, 0xff]);
    }
  });

  it.each([0, 511, 512, 3000])(
    'of %i bytes are the same at once or in the thread pool, or stored when short',
    async (length) => {
      const bytes = Buffer.alloc(length, 'x');
      const { block, crc, length: plain } = deflateBlockSync(bytes);
      expect([crc, plain]).toEqual([crc32(bytes), length]);
      const wanted = length < 512 ? storedBlock(bytes) : await deflateBlock(bytes);
      expect(Buffer.from(block).equals(wanted.block)).toBe(true);
      expect(block.buffer.byteLength).toBe(block.length);
    },
  );

  it('store up to 65,535 bytes, and refuse one more', () => {
    const most = Buffer.alloc(65_535, 'x');
    expect(gunzipSync(member([storedBlock(most)])).equals(most)).toBe(true);
    expect(() => storedBlock(Buffer.alloc(65_536))).toThrow('65535 bytes at most, got 65536');
  });

  it('say the length mod 2^32', () => {
    expect([...gzipTrailer(0x01020304, 2 ** 32 + 7)]).toEqual([3, 0, 4, 3, 2, 1, 7, 0, 0, 0]);
  });

  it.skipIf(!has('gzip'))('pass gzip -t', async () => {
    const { plain, wire } = await sample();
    expect(spawnSync('gzip', ['-t', '-v'], { input: wire }).status).toBe(0);
    expect(spawnSync('gzip', ['-dc'], { input: wire }).stdout.equals(plain)).toBe(true);
  });

  it.skipIf(!has('python3'))("are read by Python's zlib", async () => {
    const { plain, wire } = await sample();
    const program =
      'import sys,zlib; d=zlib.decompressobj(31); o=d.decompress(sys.stdin.buffer.read())+d.flush(); assert d.eof and not d.unused_data; sys.stdout.buffer.write(o)';
    const run = spawnSync('python3', ['-c', program], { input: wire });
    expect(run.stderr.toString()).toBe('');
    expect(run.stdout.equals(plain)).toBe(true);
  });
});
