import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Entry, Store, Write } from '../../src/stores/index.ts';

/** A place for one store: what was opened there before is found there again, if the kind of store keeps anything. */
interface StorePlace {
  open(): Promise<Store>;
  /** Removes what was kept. Every store of the place is closed. */
  dispose(): Promise<void> | void;
}

/** How the suite gets at the kind of store that it is run for. */
export interface StoreKind {
  place(): StorePlace;
  /** Whether a store that is opened again holds what was written before. */
  readonly keeps: boolean;
}

const TABLE = 'things';

/** A value of any length that is easy to tell from others. */
export function bytesOf(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, at) => (at * 31 + seed * 7 + 1) % 256);
}

export function put(key: string, text: string, table: string = TABLE): Write {
  return { table, key, value: Buffer.from(text) };
}

function del(key: string, table: string = TABLE): Write {
  return { table, key, value: undefined };
}

/** All of a table. */
export async function contentOf(store: Store, table: string = TABLE): Promise<[string, string][]> {
  const all: [string, string][] = [];
  for await (const group of store.entries(table)) {
    for (const [key, value] of group) all.push([key, Buffer.from(value).toString()]);
  }
  return all;
}

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

const ODD_KEYS = [
  '',
  ' ',
  '\0',
  '\0\0',
  '\n',
  '\u0001',
  '\u007f',
  '\u00ff',
  'a',
  'a\0',
  'a\0b',
  'a\u0001',
  'ab',
  '"quoted"',
  '../../etc/passwd',
  '1:7',
  '1:10',
  '\ue000',
  '\uffff',
  '\u{10ffff}',
  '😀',
  '😀\0',
  'é'.repeat(750),
  '漢'.repeat(500),
  'x'.repeat(1500),
  'x'.repeat(1899),
  'x'.repeat(1900),
  'x'.repeat(1901),
  `${'x'.repeat(1900)}a`,
  `${'x'.repeat(1900)}b`,
  `${'x'.repeat(1900)}a\0`,
  `${'x'.repeat(1899)}y`,
  `${'x'.repeat(1950)}z`,
  '漢'.repeat(700),
  `${'漢'.repeat(700)}字`,
  'k'.repeat(64 * 1024),
];
/** What JSON can hold and UTF-8 cannot. */
const ILL_FORMED_KEYS = [
  '\ud800',
  '\udc00',
  '\ud800\ud800',
  'a\udfff',
  '\ufffd',
  '\ufffd\ufffd',
  `${'x'.repeat(1900)}\ud800`,
];

/** What every kind of store does. */
export function storeContract(name: string, kind: StoreKind): void {
  describe(`the contract of stores: ${name}`, () => {
    let place: StorePlace;
    let store: Store;
    beforeEach(async () => {
      place = kind.place();
      store = await place.open();
    });
    afterEach(async () => {
      await store.close();
      await place.dispose();
    });

    /** Closes the store and opens it again. */
    const reopened = async (): Promise<Store> => {
      await store.close();
      store = await place.open();
      return store;
    };

    describeValues(() => store);
    describeBounds(() => store);
    describeWrites(() => store);
    describeWholeness(() => store);
    describeModel(() => store);
    describeReaders(() => store);
    describeEnd(() => store);
    describe('what is opened again', () => {
      it(`${kind.keeps ? 'holds what was written' : 'is empty'}`, async () => {
        await store.write([put('a', '1'), put('b', '2'), del('a'), put('c', '3', 'others')]);
        await reopened();
        expect(await contentOf(store)).toEqual(kind.keeps ? [['b', '2']] : []);
        expect(await contentOf(store, 'others')).toEqual(kind.keeps ? [['c', '3']] : []);
        await store.write([put('d', '4')]);
        expect(await contentOf(store)).toEqual(
          kind.keeps
            ? [
                ['b', '2'],
                ['d', '4'],
              ]
            : [['d', '4']],
        );
      });
    });
  });
}

function describeValues(store: () => Store): void {
  describe('keys and values', () => {
    it('are none at first', async () => {
      expect(await contentOf(store())).toEqual([]);
      expect(await store().get(TABLE, 'a')).toBeUndefined();
    });

    it.each([0, 1, 255, 4000, 4096, 128 * 1024, 1024 * 1024])('come back as they were, %i bytes', async (length) => {
      const value = bytesOf(length, 1);
      await store().write([
        { table: TABLE, key: 'before', value: bytesOf(3, 2) },
        { table: TABLE, key: 'it', value },
      ]);
      expect(Buffer.from((await store().get(TABLE, 'it')) ?? 'nothing').equals(value)).toBe(true);
      const all: Entry[] = [];
      for await (const group of store().entries(TABLE)) all.push(...group);
      expect(all.map(([key]) => key)).toEqual(['before', 'it']);
      expect(Buffer.from(all[1]?.[1] ?? 'nothing').equals(value)).toBe(true);
    });

    it('may be any text, each of its own, in the order of the bytes in UTF-8', async () => {
      const writes = ODD_KEYS.map((key, at) => put(key, `value ${at}`));
      await store().write(writes.toReversed());
      for (const [at, key] of ODD_KEYS.entries()) {
        expect(Buffer.from((await store().get(TABLE, key)) ?? 'nothing').toString()).toBe(`value ${at}`);
      }
      const expected = ODD_KEYS.map((key, at) => [key, `value ${at}`] as const).toSorted(([a], [b]) => byBytes(a, b));
      expect(await contentOf(store())).toEqual(expected);
      await store().write(ODD_KEYS.filter((_, at) => at % 2 === 0).map((key) => del(key)));
      const left = new Set(ODD_KEYS.filter((_, at) => at % 2 === 1));
      expect(await contentOf(store())).toEqual(expected.filter(([key]) => left.has(key)));
    });

    it('may even be no Unicode at all', async () => {
      await store().write(ILL_FORMED_KEYS.map((key, at) => put(key, `value ${at}`)));
      for (const [at, key] of ILL_FORMED_KEYS.entries()) {
        expect(Buffer.from((await store().get(TABLE, key)) ?? 'nothing').toString()).toBe(`value ${at}`);
      }
      const found = await contentOf(store());
      expect(new Map(found)).toEqual(new Map(ILL_FORMED_KEYS.map((key, at) => [key, `value ${at}`])));
      expect(found).toHaveLength(ILL_FORMED_KEYS.length);
      await store().write(ILL_FORMED_KEYS.map((key) => del(key)));
      expect(await contentOf(store())).toEqual([]);
    });
  });
}

function describeBounds(store: () => Store): void {
  describe('tables, keys and values', () => {
    it('of one table are not seen in another', async () => {
      const tables = ['a', 'a-b', 'a0', 'ab', 'b', 'x'.repeat(32)];
      await store().write(tables.flatMap((table) => [put('k', table, table), put('\0', table, table)]));
      for (const table of tables)
        expect(await contentOf(store(), table)).toEqual([
          ['\0', table],
          ['k', table],
        ]);
    });

    it.each(['', 'A', '0', 'a b', 'a\0', 'x'.repeat(33)])('need a table with a plain name, not %j', async (table) => {
      await expect(store().write([put('k', 'v', table)])).rejects.toMatchObject({ code: 'HG_OPTION' });
      await expect(store().get(table, 'k')).rejects.toMatchObject({ code: 'HG_OPTION' });
      await expect(contentOf(store(), table)).rejects.toMatchObject({ code: 'HG_OPTION' });
    });

    it('have bounds', async () => {
      const key = 'x'.repeat(64 * 1024 + 1);
      await expect(store().write([put(key, 'v')])).rejects.toMatchObject({ code: 'HG_OPTION' });
      await expect(store().get(TABLE, key)).rejects.toMatchObject({ code: 'HG_OPTION' });
      const value = new Uint8Array(64 * 1024 * 1024 + 1);
      await expect(store().write([{ table: TABLE, key: 'k', value }])).rejects.toMatchObject({ code: 'HG_OPTION' });
      expect(await contentOf(store())).toEqual([]);
    });

    it('are copies: changing what was written or read changes nothing here', async () => {
      const value = Buffer.from('kept');
      await store().write([{ table: TABLE, key: 'k', value }]);
      value.fill(0);
      (await store().get(TABLE, 'k'))?.fill(0);
      for await (const group of store().entries(TABLE)) for (const [, read] of group) read.fill(0);
      expect(await contentOf(store())).toEqual([['k', 'kept']]);
    });
  });
}

function describeWrites(store: () => Store): void {
  describe('a write', () => {
    it('does its changes in their order, the last of a key counts', async () => {
      await store().write([
        put('a', '1'),
        put('b', '1'),
        del('a'),
        put('a', '2'),
        put('b', '2'),
        del('b'),
        del('never'),
      ]);
      expect(await contentOf(store())).toEqual([['a', '2']]);
      await store().write([]);
      await store().write([del('a')]);
      expect(await contentOf(store())).toEqual([]);
    });

    it('comes after those that were asked for before, whether or not anybody waited', async () => {
      const writes = Array.from({ length: 50 }, (_, at) =>
        store().write([put('last', `${at}`), put(`${at}`, 'there')]),
      );
      const read = store().get(TABLE, 'last');
      await Promise.all(writes);
      expect(Buffer.from((await read) ?? '').toString()).toBe('49');
      expect(await contentOf(store())).toHaveLength(51);
    });
  });
}

function describeWholeness(store: () => Store): void {
  describe('all of a write', () => {
    // Fails when the abort of a transaction is removed from LmdbStore, or when MemoryStore puts while it reads.
    it('is gone when it fails in its middle, and the next one is done', async () => {
      await store().write([put('a', 'old')]);
      function* writes(): Generator<Write> {
        yield put('a', 'new');
        // more than is handed over at once
        for (let at = 0; at < 2000; at++) yield { table: TABLE, key: `row ${at}`, value: bytesOf(200, at) };
        yield del('a');
        throw new Error('the writes end here');
      }
      await expect(store().write(writes())).rejects.toThrow('the writes end here');
      expect(await contentOf(store())).toEqual([['a', 'old']]);
      await store().write([put('b', 'new')]);
      expect(await contentOf(store())).toEqual([
        ['a', 'old'],
        ['b', 'new'],
      ]);
    });

    it('is seen whole or not at all, by whoever reads meanwhile', async () => {
      const ROWS = 3000;
      const write = (text: string): Promise<void> =>
        store().write(Array.from({ length: ROWS }, (_, at) => put(`row ${String(at).padStart(5, '0')}`, text)));
      await write('0');
      let ended = false;
      const writing = (async () => {
        for (let round = 1; round <= 5; round++) await write(String(round));
        ended = true;
      })();
      // One group of this size is read at one moment, so all its values are of one write.
      for (let reads = 0; !ended || reads < 3; reads++) {
        for await (const group of store().entries(TABLE)) {
          expect(new Set(group.map(([, value]) => Buffer.from(value).toString())).size).toBe(1);
        }
        const [first, last] = await Promise.all([store().get(TABLE, 'row 00000'), store().get(TABLE, 'row 02999')]);
        expect(first === undefined || last === undefined).toBe(false);
      }
      await writing;
      expect(new Set((await contentOf(store())).map(([, text]) => text))).toEqual(new Set(['5']));
    });
  });
}

function describeModel(store: () => Store): void {
  describe('any writes', () => {
    it('do to the tables what they do to maps', async () => {
      const key = fc.oneof(
        fc.constantFrom('a', 'b', '\0', 'x'.repeat(1901)),
        fc.string({ unit: 'binary', maxLength: 4 }),
      );
      const change = fc.record({
        table: fc.constantFrom('one', 'two'),
        key,
        value: fc.option(fc.uint8Array({ maxLength: 40 }), { nil: undefined }),
      });
      const models = new Map([
        ['one', new Map<string, string>()],
        ['two', new Map<string, string>()],
      ]);
      await fc.assert(
        fc.asyncProperty(fc.array(change, { maxLength: 12 }), async (changes) => {
          await store().write(changes);
          for (const { table, key: at, value } of changes) {
            if (value === undefined) models.get(table)?.delete(at);
            else models.get(table)?.set(at, Buffer.from(value).toString('latin1'));
          }
          for (const [table, model] of models) {
            const found: [string, string][] = [];
            for await (const group of store().entries(table)) {
              for (const [at, value] of group) found.push([at, Buffer.from(value).toString('latin1')]);
            }
            expect(found).toEqual([...model].toSorted(([a], [b]) => byBytes(a, b)));
          }
        }),
        { numRuns: 40, endOnFailure: true },
      );
    });
  });
}

function describeReaders(store: () => Store): void {
  describe('readers', () => {
    const ROWS = 4000;
    const keyOf = (at: number): string => `row ${String(at).padStart(5, '0')}`;

    it('may be several at once, each at its own pace, and get all of a large table', async () => {
      await store().write(
        Array.from({ length: ROWS }, (_, at) => ({ table: TABLE, key: keyOf(at), value: bytesOf(100, at) })),
      );
      const readers = Array.from({ length: 3 }, async () => {
        const keys: string[] = [];
        for await (const group of store().entries(TABLE)) keys.push(...group.map(([key]) => key));
        return keys;
      });
      const expected = Array.from({ length: ROWS }, (_, at) => keyOf(at));
      for (const keys of await Promise.all(readers)) expect(keys).toEqual(expected);
    });

    it('get what nobody touches exactly once, whatever is written meanwhile', async () => {
      await store().write(
        Array.from({ length: ROWS }, (_, at) => ({ table: TABLE, key: keyOf(at), value: bytesOf(100, at) })),
      );
      const seen: string[] = [];
      let round = 0;
      for await (const group of store().entries(TABLE)) {
        seen.push(...group.map(([key]) => key));
        // before, between and after, of even rows only
        await store().write([
          del(keyOf(0)),
          del(keyOf(2 * round)),
          put(`${keyOf(2 * round)}-new`, 'x'),
          put('zz', 'x'),
        ]);
        round++;
      }
      expect(round).toBeGreaterThan(1);
      const odd = Array.from({ length: ROWS / 2 }, (_, at) => keyOf(2 * at + 1));
      expect(seen.filter((key) => /[13579]$/.test(key))).toEqual(odd);
      expect(new Set(seen).size).toBe(seen.length);
    });

    it('may stop early', async () => {
      await store().write(Array.from({ length: ROWS }, (_, at) => put(keyOf(at), 'x'.repeat(100))));
      for await (const group of store().entries(TABLE)) {
        expect(group.length).toBeGreaterThan(0);
        break;
      }
      await store().write([put('after', 'x')]);
      expect(Buffer.from((await store().get(TABLE, 'after')) ?? '').toString()).toBe('x');
    });
  });
}

function describeEnd(store: () => Store): void {
  describe('a store that is closed', () => {
    it('has done what was asked for before, and does nothing more', async () => {
      const write = store().write([put('a', '1')]);
      const closed = store().close();
      await expect(write).resolves.toBeUndefined();
      await closed;
      await store().close();
      await expect(store().write([put('b', '2')])).rejects.toMatchObject({ code: 'HG_STORE' });
      await expect(store().get(TABLE, 'a')).rejects.toMatchObject({ code: 'HG_STORE' });
      await expect(contentOf(store())).rejects.toMatchObject({ code: 'HG_STORE' });
    });

    it('does not take what is asked for while it closes', async () => {
      const closed = store().close();
      await expect(store().write([put('b', '2')])).rejects.toMatchObject({ code: 'HG_STORE' });
      await closed;
    });
  });
}
