import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FakeChannel } from '../../test/support/delivery-fakes.ts';
import { bytesOf } from './channel.ts';
import { Delivery } from './delivery.ts';

function deliveryOf(pieces: readonly Uint8Array[]): Delivery {
  const source = { bytes: undefined, next: () => undefined };
  const delivery = new Delivery({ channel: new FakeChannel(), source }, undefined, { nowMs: 0, writeBytes: 64 });
  delivery.give(pieces);
  return delivery;
}

it('cuts any pieces into writes that hold the same bytes, none much larger than asked for', () => {
  const lengthsOf = fc.array(fc.integer({ min: 0, max: 500 }), { maxLength: 40 });
  fc.assert(
    fc.property(lengthsOf, fc.integer({ min: 1, max: 200 }), (lengths, bytes) => {
      const pieces = lengths.map((length, i) => Buffer.alloc(length, i + 1));
      const delivery = deliveryOf(pieces);
      const writes: Uint8Array[][] = [];
      while (delivery.hasPieces) writes.push(delivery.cut(bytes));
      // compared by the machine: a matcher looks at each byte in turn
      expect(Buffer.concat(writes.flat()).equals(Buffer.concat(pieces))).toBe(true);
      expect(writes.flat().every(({ byteLength }) => byteLength > 0)).toBe(true);
      const sizes = writes.map(bytesOf);
      expect(sizes.filter((size) => size > bytes * 1.5)).toEqual([]);
      expect(sizes.slice(0, -1).filter((size) => size < bytes)).toEqual([]);
    }),
  );
});

// Fault 11: a copy of the payload per client. Fails when cut() copies.
it('never copies: every part of a write is the memory of its piece', () => {
  const page = Buffer.allocUnsafeSlow(300_000);
  const small = Buffer.allocUnsafeSlow(10);
  const delivery = deliveryOf([small, page]);
  const parts: Uint8Array[] = [];
  while (delivery.hasPieces) parts.push(...delivery.cut(65_536));
  expect(parts[0]).toBe(small);
  for (const part of parts.slice(1)) expect(part.buffer).toBe(page.buffer);
});

it('sends a page with its comma in one write, and hands the page over as it is', () => {
  const page = Buffer.alloc(66_000);
  const comma = Buffer.from(',');
  const delivery = deliveryOf([comma, page]);
  const write = delivery.cut(65_536);
  expect([write.length, write[0] === comma, write[1] === page]).toEqual([2, true, true]);
  expect(delivery.hasPieces).toBe(false);
});

it('keeps nothing large once it is dropped', () => {
  const delivery = deliveryOf([Buffer.alloc(10)]);
  delivery.drop();
  expect(delivery.source).toBeUndefined();
  expect(delivery.hasPieces).toBe(false);
});
