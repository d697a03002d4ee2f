import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Slices } from '../../kernel/index.ts';
import { Pace } from '../pace.ts';
import { Agenda } from './agenda.ts';
import { Arena } from './arena.ts';
import { IntList, NumberList } from './columns.ts';
import { Names } from './names.ts';
import { sortRows } from './order.ts';
import { RowIndex } from './row-index.ts';
import { Rows } from './rows.ts';

const pace = (): Pace => new Pace(new Slices(), 64);

describe('lists', () => {
  it('hold what came, in order', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 300 }), (items) => {
        const [ints, numbers] = [new IntList(), new NumberList()];
        for (const item of items) {
          ints.push(item);
          numbers.push(item + 0.5);
        }
        expect([...ints.toArray()]).toEqual(items);
        expect(items.map((_, at) => ints.at(at))).toEqual(items);
        expect(Array.from({ length: numbers.size }, (_, at) => numbers.at(at) - 0.5)).toEqual(items);
      }),
    );
  });
});

describe('the agenda', () => {
  it('gives rows in order of their moments, however these were changed', async () => {
    const step = fc.record({ row: fc.nat(30), at: fc.nat(50), what: fc.constantFrom('set', 'set', 'drop', 'pop') });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 100 }), async (steps) => {
        const agenda = new Agenda();
        await agenda.grow(31, pace());
        const plain = new Map<number, number>();
        /** The moment that comes next, as the agenda and as the plain list have it. */
        const given: number[] = [];
        const expected: number[] = [];
        const pop = (): void => {
          given.push(agenda.nextMs);
          expected.push(Math.min(...plain.values()));
          if (plain.size === 0) return;
          const row = agenda.pop();
          given.push(plain.get(row) as number);
          expected.push(Math.min(...plain.values()));
          plain.delete(row);
        };
        for (const { row, at, what } of steps) {
          if (what === 'set') {
            agenda.set(row, at);
            plain.set(row, at);
            given.push(agenda.momentOf(row));
            expected.push(at);
          } else if (what === 'drop') {
            agenda.drop(row);
            plain.delete(row);
          } else pop();
        }
        while (plain.size > 0) pop();
        expect(given).toEqual(expected);
        expect(agenda.nextMs).toBe(Number.POSITIVE_INFINITY);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the arena', () => {
  it('keeps texts until they are freed, and lets blocks go that hold nothing', () => {
    const step = fc.record({ bytes: fc.integer({ min: 1, max: 64 }), free: fc.nat(40) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const arena = new Arena(6);
        const held: { place: number; text: Buffer }[] = [];
        for (const [at, { bytes, free }] of steps.entries()) {
          const text = Buffer.alloc(bytes, at);
          held.push({ place: arena.put(text, 0, bytes), text });
          const [gone] = held.splice(free, 1);
          if (gone !== undefined) arena.free(gone.place, gone.text.length);
          for (const { place, text: kept } of held) {
            const from = arena.offset(place);
            expect(kept.equals(arena.block(place).subarray(from, from + kept.length))).toBe(true);
          }
        }
        const blocks = new Set(held.map(({ place }) => arena.blockNumber(place)));
        // and the one that is being filled
        expect(arena.bytes / 64).toBeLessThanOrEqual(blocks.size + 1);
        const heldBytes = held.reduce((sum, { text }) => sum + text.length, 0);
        expect(arena.idleBytes).toBe(arena.bytes - heldBytes);
      }),
    );
  });
});

describe('names', () => {
  it('have a number while they are used, and are known by it', () => {
    const step = fc.record({ text: fc.constantFrom('', 'a', 'b', '"<é'), take: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const names = new Names('scope', 4);
        const uses = new Map<string, number>();
        for (const { text, take } of steps) {
          const count = uses.get(text) ?? 0;
          if (take) {
            names.take(text);
            uses.set(text, count + 1);
          } else if (count > 0) {
            names.drop(names.numberOf(text) as number);
            uses.set(text, count - 1);
          }
          for (const [known, left] of uses) {
            const number = names.numberOf(known);
            expect(number === undefined ? undefined : names.textOf(number)).toBe(left > 0 ? known : undefined);
          }
        }
        const used = [...uses].filter(([, count]) => count > 0).map(([text]) => text);
        expect(names.room).toBe(4 - used.length);
        const into = Buffer.alloc(100);
        for (const text of used) {
          const number = names.numberOf(text) as number;
          const end = names.copyPiece(number, into, 2);
          expect(end).toBe(2 + names.pieceBytes(number));
          expect(JSON.parse(`{"x":0${into.toString('utf8', 2, end)}}`)).toEqual({ x: 0, scope: text });
        }
      }),
    );
  });
});

describe('sortRows', () => {
  it('sorts by the column, and leaves equal ones in the order in which they came', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(20), { maxLength: 300 }), async (keys) => {
        const rows = Uint32Array.from(keys, (_, row) => row);
        const sorted = await sortRows(rows, Float64Array.from(keys), pace());
        const expected = keys.map((key, row) => ({ key, row })).toSorted((a, b) => a.key - b.key);
        expect([...sorted]).toEqual(expected.map(({ row }) => row));
      }),
    );
  });
});

describe('the index of ids', () => {
  it('finds each row that is in it, and no other, whichever goes', async () => {
    const rows = new Rows();
    const ids = [0, 1, 2, 3, 2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 40, 2 ** 40 + 1, 255 * 2 ** 40 + 7];
    rows.id = Float64Array.from(ids);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(ids.length - 1), { maxLength: 60 }), async (steps) => {
        const index = new RowIndex(rows);
        const plain = new Set<number>();
        for (const row of steps) {
          if (plain.delete(row)) index.remove(row);
          else {
            index.add(row);
            plain.add(row);
          }
          expect(ids.map((id) => index.find(id))).toEqual(ids.map((_, at) => (plain.has(at) ? at : -1)));
        }
      }),
    );
  });

  it('keeps its rows where they are pushed past each other, and when it grows', async () => {
    const rows = new Rows();
    const count = 1400;
    rows.id = Float64Array.from({ length: count }, (_, row) => row * 977 + (row % 3) * 2 ** 40);
    const index = new RowIndex(rows);
    for (let row = 0; row < 700; row++) index.add(row);
    await index.reserve(700, pace());
    for (let row = 700; row < count; row++) index.add(row);
    // fails when `remove` leaves a hole
    for (let row = 0; row < count; row += 3) index.remove(row);
    const found = Array.from(rows.id, (id) => index.find(id));
    expect(found).toEqual(Array.from({ length: count }, (_, row) => (row % 3 === 0 ? -1 : row)));
  });
});
