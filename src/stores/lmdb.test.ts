import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { compileRooms } from '../../test/support/compiled.ts';
import { bytesOf, contentOf, put, type StoreKind, storeContract } from '../../test/support/store-contract.ts';
import type * as Lmdb from './lmdb.ts';
import type * as Memory from './memory.ts';
import { openLmdbStore } from './lmdb.ts';
import { keyInFile, valueInFile } from './lmdb-format.ts';
import { openLmdb } from './lmdb-package.ts';
import type { Entry, Write } from './store.ts';

type Open = typeof openLmdbStore;

// As it is run: compiled, so that the file has a thread of its own.
const compiled = compileRooms(['kernel', 'dataset', 'stores']);
const built = (await import(/* @vite-ignore */ compiled.url('stores/index'))) as { openLmdbStore: Open };
afterAll(() => rmSync(compiled.folder, { recursive: true }));

const newFolder = (): string => mkdtempSync(join(tmpdir(), 'headgate-store-'));

function kindOf(open: Open): StoreKind {
  return {
    keeps: true,
    place() {
      const folder = newFolder();
      return {
        open: () => open({ path: join(folder, 'deep', 'store.d') }),
        dispose: () => rmSync(folder, { recursive: true }),
      };
    },
  };
}

storeContract('lmdb, on the thread that uses it', kindOf(openLmdbStore));
storeContract('lmdb, on a thread of its own', kindOf(built.openLmdbStore));

describe('a store in a folder', () => {
  let path = '';
  beforeEach(() => {
    path = newFolder();
  });
  afterEach(() => rmSync(path, { recursive: true, force: true }));

  const data = (): string => join(path, 'data.mdb');

  /** Puts something straight into the file. */
  async function plant(key: string | Buffer, value: Buffer): Promise<void> {
    const db = openLmdb<Buffer, Buffer>({
      path,
      noSubdir: false,
      keyEncoding: 'binary',
      encoding: 'binary',
      overlappingSync: false,
    });
    db.putSync(Buffer.from(key), value);
    await db.close();
  }

  async function fill(rows: number): Promise<void> {
    const store = await openLmdbStore({ path });
    for (let round = 0; round < 3; round++) {
      const row = (at: number): Write => ({
        table: 'things',
        key: `${(at * 37) % 9973}`,
        value: bytesOf(150, at + round),
      });
      await store.write(Array.from({ length: rows }, (_, at) => row(at)));
    }
    await store.write([{ table: 'things', key: 'large', value: bytesOf(100_000, 1) }]);
    await store.close();
  }

  it('says which setting to change when the folder cannot be one', async () => {
    writeFileSync(join(path, 'file'), '');
    await expect(openLmdbStore({ path: join(path, 'file', 'store') })).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringMatching(/^Cannot open the store at .*\/file\/store: ENOTDIR.*`store.path`.*`store: none`/),
    });
    await expect(openLmdbStore({ path: '' })).rejects.toMatchObject({ code: 'HG_OPTION' });
  });

  // Fails when #checkFormat lets another format pass.
  it('refuses what a newer version wrote, and leaves it as it was', async () => {
    await (await openLmdbStore({ path })).close();
    const key = keyInFile('', 'format');
    await plant(key, valueInFile(key, Buffer.from('2')));
    const before = readFileSync(data());
    await expect(openLmdbStore({ path })).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringContaining('it has format 2, and this version of Headgate knows format 1'),
    });
    expect(readFileSync(data()).equals(before)).toBe(true);
  });

  it('refuses the data of another program, and leaves them as they were', async () => {
    await plant('theirs', Buffer.from('data'));
    const before = readFileSync(data());
    await expect(openLmdbStore({ path })).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringContaining('it holds data of another program. Set `store.path` to a folder of its own'),
    });
    expect(readFileSync(data()).equals(before)).toBe(true);
  });

  // Fails when the comparison of owners in #begin is removed.
  it('belongs to the one that opened it last; the one before reads, and says why it no longer writes', async () => {
    const first = await built.openLmdbStore({ path });
    await first.write([put('a', '1')]);
    const second = await openLmdbStore({ path });
    await second.write([put('b', '2')]);
    await expect(first.write([put('a', 'late')])).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringContaining('another process has opened it since. Give each process a `store.path`'),
    });
    expect(await contentOf(first)).toEqual([
      ['a', '1'],
      ['b', '2'],
    ]);
    await first.close();
    await second.write([put('c', '3')]);
    expect(await contentOf(second)).toEqual([
      ['a', '1'],
      ['b', '2'],
      ['c', '3'],
    ]);
    await second.close();
  });

  it('is not written to in part when its files were taken away, and says so', async () => {
    const store = await openLmdbStore({ path });
    // enough for the file to be opened anew before the next write
    await store.write([{ table: 'things', key: 'large', value: Buffer.alloc(17_000_000) }]);
    rmSync(path, { recursive: true });
    for (let time = 0; time < 2; time++) {
      await expect(store.write([put('b', '2')])).rejects.toMatchObject({
        code: 'HG_STORE',
        message: expect.stringContaining('its files were taken away. Start Headgate again'),
      });
    }
    await store.close();
  });

  it('is not there, and says what to do, where LMDB cannot be loaded; nothing else needs it', async () => {
    const bare = compileRooms(['kernel', 'stores'], false);
    const lmdb = (await import(/* @vite-ignore */ bare.url('stores/lmdb'))) as typeof Lmdb;
    const memory = (await import(/* @vite-ignore */ bare.url('stores/memory'))) as typeof Memory;
    await expect(lmdb.openLmdbStore({ path })).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringMatching(/its thread has ended, got Cannot find module 'lmdb'[^]*Set `store: none`/),
    });
    await memory.openMemoryStore().close();
    rmSync(bare.folder, { recursive: true });
  });

  it('is read whole through the file being opened anew, and written on', async () => {
    const store = await openLmdbStore({ path });
    const rows = Array.from({ length: 20 }, (_, at): Entry => [`row ${10 + at}`, Buffer.alloc(1_000_000, at + 1)]);
    await store.write(rows.map(([key, value]) => ({ table: 'things', key, value })));
    await store.write([put('row 99', 'small')]);
    const entries: Entry[] = [];
    for await (const group of store.entries('things')) entries.push(...group);
    expect(entries.map(([key]) => key)).toEqual([...rows.map(([key]) => key), 'row 99']);
    expect(rows.filter(([, value], at) => !Buffer.from(entries[at]?.[1] ?? '').equals(value))).toEqual([]);
    await store.close();
  });

  describe('that is damaged', () => {
    // Each of these ends the process by a signal (SIGBUS, SIGSEGV, SIGABRT) when the check of the file is taken out of #open.
    it.each([
      [
        'cut short',
        (bytes: Buffer) => bytes.subarray(0, Math.floor(bytes.length / 8192) * 4096),
        /it ends before page \d+/,
      ],
      ['cut to its first page', (bytes: Buffer) => bytes.subarray(0, 4096), /it ends after 4096 bytes/],
      ['cut to a few bytes', (bytes: Buffer) => bytes.subarray(0, 100), /it ends after 100 bytes/],
      ['overwritten with something else', () => Buffer.from('hello '.repeat(2000)), /it is not a file of LMDB/],
      [
        'without its second page',
        (bytes: Buffer) => Buffer.from(bytes).fill(0, 4096, 8192),
        /its second page is damaged/,
      ],
      ['emptied from the third page on', (bytes: Buffer) => Buffer.from(bytes).fill(0, 8192), /page \d+ is damaged/],
      ['filled from the third page on', (bytes: Buffer) => Buffer.from(bytes).fill(255, 8192), /page \d+ is damaged/],
    ])('is refused, and left as it was: %s', async (_, damage, cause) => {
      await fill(500);
      const damaged = damage(readFileSync(data()));
      writeFileSync(data(), damaged);
      await expect(openLmdbStore({ path })).rejects.toMatchObject({
        code: 'HG_STORE',
        message: expect.stringMatching(cause),
      });
      await expect(openLmdbStore({ path })).rejects.toMatchObject({
        message: expect.stringContaining('Move the folder away'),
      });
      expect(readFileSync(data()).equals(damaged)).toBe(true);
    });

    it('is refused or holds what was written, whatever page has something else in it', {
      timeout: 60_000,
    }, async () => {
      await fill(200);
      const whole = readFileSync(data());
      const store = await openLmdbStore({ path });
      const expected = JSON.stringify(await contentOf(store));
      await store.close();
      const outcomes = { refused: 0, 'as written': 0, wrong: 0 };
      for (let page = 2; page < whole.length / 4096; page++) {
        const copy = Buffer.from(whole);
        copy.set(page % 2 === 0 ? bytesOf(4096, page) : new Uint8Array(4096), page * 4096);
        const found = await useOf(copy);
        if (found === expected) outcomes['as written']++;
        else outcomes[found === 'HG_STORE' ? 'refused' : 'wrong']++;
      }
      // most pages are free: each of the three rounds of writes copied those that hold the rows
      expect(outcomes).toEqual({ refused: expect.any(Number), 'as written': expect.any(Number), wrong: 0 });
      expect(outcomes.refused).toBeGreaterThan(5);
      expect(outcomes['as written']).toBeGreaterThan(5);
    });

    /** What a store of this file holds, after which it is written to; or the code of the error. */
    async function useOf(bytes: Buffer): Promise<string> {
      const folder = newFolder();
      writeFileSync(join(folder, 'data.mdb'), bytes);
      try {
        const store = await openLmdbStore({ path: folder });
        try {
          const found = JSON.stringify(await contentOf(store));
          await store.write(Array.from({ length: 500 }, (_, at) => put(`${at}`, 'written on')));
          return found;
        } finally {
          await store.close();
        }
      } catch (thrown) {
        return (thrown as { code: string }).code;
      } finally {
        rmSync(folder, { recursive: true });
      }
    }

    // Fails when isSound answers true.
    it('is refused when a value is not the one that was written there', async () => {
      const written = await openLmdbStore({ path });
      await written.write([put('sound', 'one'), put('marked', 'the only text of its kind')]);
      await written.close();
      const bytes = readFileSync(data());
      const at = bytes.indexOf('the only text of its kind');
      expect(bytes.lastIndexOf('the only text of its kind')).toBe(at);
      bytes.write('A', at);
      writeFileSync(data(), bytes);
      const store = await openLmdbStore({ path });
      await expect(store.get('things', 'marked')).rejects.toMatchObject({
        code: 'HG_STORE',
        message: expect.stringContaining('the value of "things/marked" is damaged'),
      });
      await expect(contentOf(store)).rejects.toMatchObject({ code: 'HG_STORE' });
      expect(await store.get('things', 'sound')).toBeDefined();
      await store.close();
    });
  });

  describe('on a disk that is full', () => {
    // A limit on the size of files, which a process sets for itself, fails writes as a full disk does.
    it('says so, keeps what was written, and writes again when there is room', async () => {
      const child = run(path, FILLING, ['bash', '-c', 'ulimit -S -f 3000; exec "$0" "$@"']);
      const lines = await linesOf(child);
      expect(lines[0]).toMatch(
        /^failed after [1-9]\d* writes: HG_STORE Cannot write to the store at .*The disk has \d+ MiB free/,
      );
      const written = Number(/after (\d+)/.exec(lines[0] ?? '')?.[1]);
      expect(lines.slice(1)).toEqual([`holds ${written} rounds`, 'the next small one: done', 'closed']);
      const store = await openLmdbStore({ path });
      expect(await contentOf(store, 'rounds')).toHaveLength(written);
      await store.write([put('later', 'x')]);
      await store.close();
    });
  });

  describe('whose process is killed while it writes', () => {
    // Each round writes one batch of 1 to 2,000 rows and the number of the round, which are in a batch together.
    it('holds all of the batches up to one, and nothing of the next', { timeout: 60_000 }, async () => {
      let told = 0;
      for (let life = 0; life < 5; life++) {
        const child = run(path, WRITING, []);
        const last = await killedWhileWriting(child, life);
        const store = await built.openLmdbStore({ path });
        const round = Number(Buffer.from((await store.get('rounds', 'last')) ?? '0').toString());
        // what was told to be written is there; at most the one in progress is there beside it
        expect(round).toBeGreaterThanOrEqual(last);
        expect(round).toBeLessThanOrEqual(last + 1);
        expect(round).toBeGreaterThan(told);
        told = round;
        const rows = await contentOf(store, 'rows');
        expect(rows).toEqual(rowsAfter(round));
        await store.close();
      }
      expect(readdirSync(path).toSorted()).toEqual(['data.mdb', 'lock.mdb']);
    });
  });

  /** Runs a program that uses the compiled store, with what is put before its command. */
  function run(at: string, program: string, before: readonly string[]): ChildProcess {
    const file = join(compiled.folder, `child-${Buffer.from(program).length}.js`);
    writeFileSync(file, program);
    const [command, ...args] = [...before, process.execPath, file, at];
    return spawn(command as string, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  }
});

const FILLING = `
import { openLmdbStore } from './src/stores/index.js';
const store = await openLmdbStore({ path: process.argv[2] });
const value = new Uint8Array(1000);
const rows = (round) => Array.from({ length: 200 }, (_, at) => ({ table: 'rows', key: round + ':' + at, value }));
let round = 0;
for (; ; round++) {
  try {
    await store.write([...rows(round), { table: 'rounds', key: String(round), value: new Uint8Array() }]);
  } catch (error) {
    console.log('failed after', round, 'writes:', error.code, error.message);
    break;
  }
}
let held = 0;
for await (const group of store.entries('rounds')) held += group.length;
console.log('holds', held, 'rounds');
// a few pages are always left: the write before freed them
await store.write([{ table: 'small', key: 'k', value: new Uint8Array() }]);
console.log('the next small one: done');
await store.close();
console.log('closed');
`;

/** In round r, rows r to r+n-1 are put with the value r, and every row whose number r divides is deleted. */
const WRITING = `
import { openLmdbStore } from './src/stores/index.js';
const store = await openLmdbStore({ path: process.argv[2] });
const last = await store.get('rounds', 'last');
let round = last === undefined ? 0 : Number(Buffer.from(last).toString());
for (;;) {
  round++;
  const value = Buffer.from(String(round));
  const writes = [{ table: 'rounds', key: 'last', value }];
  const count = (round * 7919) % 2000 + 1;
  for (let at = 0; at < count; at++) writes.push({ table: 'rows', key: String(round + at), value });
  for (let at = 0; at < 50; at++) writes.push({ table: 'rows', key: String(at * round), value: undefined });
  const done = store.write(writes);
  await done;
  console.log(round);
}
`;

function rowsAfter(rounds: number): [string, string][] {
  const rows = new Map<string, string>();
  for (let round = 1; round <= rounds; round++) {
    const count = ((round * 7919) % 2000) + 1;
    for (let at = 0; at < count; at++) rows.set(String(round + at), String(round));
    for (let at = 0; at < 50; at++) rows.delete(String(at * round));
  }
  return [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

async function linesOf(child: ChildProcess): Promise<string[]> {
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  await once(child, 'close');
  return text.trim().split('\n');
}

/** Kills the child at a moment of its own in each life: answers the last round that it told to be written. */
async function killedWhileWriting(child: ChildProcess, life: number): Promise<number> {
  let text = '';
  let rounds = 0;
  child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    rounds += piece.split('\n').length - 1;
    // not at the moment of a line, which is when nothing is being written
    if (rounds >= 5 + life * 3) setImmediate(() => setTimeout(() => child.kill('SIGKILL'), life));
  });
  await once(child, 'close');
  expect(child.signalCode).toBe('SIGKILL');
  const whole = text.slice(0, text.lastIndexOf('\n')).split('\n');
  return Number(whole.at(-1));
}
