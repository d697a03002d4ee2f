import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { endianness } from 'node:os';

// A file of LMDB's format 2 on a 64-bit little-endian machine. LMDB maps the file and follows what it finds there: a file that
// was cut short or has a page of something else in it ends the process by a signal, which nothing can catch. So it is looked at
// before it is opened.
//
//   page    number (8) │ transaction (8) │ pad (2) │ flags (2) │ lower (2) │ upper (2) │ offsets of its nodes (2 each) … nodes
//   node    low (2) │ high (2) │ flags (2) │ bytes of the key (2) │ key │ value, or where it is when it is large
//           branch: low, high and flags are the number of the page below; leaf: low and high are the bytes of the value
//   meta    a page's head │ magic (4) │ version (4) │ address (8) │ size of the map (8) │ tree of free pages │ main tree │
//           last page (8) │ transaction (8); pages 0 and 1, of which the one with the later transaction counts
//   tree    pad (4; of the first one: bytes of a page) │ flags (2) │ depth (2) │ pages by kind (3 × 8) │ entries (8) │ root (8)
const HEAD_BYTES = 24;
const NODE_HEAD_BYTES = 8;
const META_BYTES = HEAD_BYTES + 24 + 2 * 48 + 16;
const MAGIC = 0xbeefc0de;
const FORMAT = 2;
const BRANCH = 0x01;
const LEAF = 0x02;
const OVERFLOW = 0x04;
const LARGE_VALUE = 0x01;
const NO_ROOT = 0xffff_ffff_ffff_ffffn;
const PAGE_BYTES_MIN = 512;
const PAGE_BYTES_MAX = 65536;
/** LMDB's own bound on how deep a tree may be. */
const DEPTH_MAX = 32;

interface Tree {
  readonly depth: number;
  readonly entries: bigint;
  readonly root: bigint;
}

interface Meta {
  readonly pageBytes: number;
  readonly free: Tree;
  readonly main: Tree;
  readonly lastPage: number;
  readonly transaction: bigint;
}

/**
 * Says what is wrong with a file of LMDB, or undefined when LMDB can open it and follow every page of it.
 *
 * A file that is empty or not there is one that LMDB is about to make. Of a format that this cannot read it says nothing.
 */
export function damageOf(path: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw thrown;
  }
  try {
    return damageIn(fd);
  } finally {
    closeSync(fd);
  }
}

function damageIn(fd: number): string | undefined {
  const fileBytes = fstatSync(fd).size;
  if (fileBytes === 0) return undefined;
  const first = read(fd, 0, META_BYTES);
  if (first === undefined) return `it ends after ${fileBytes} bytes`;
  if (first.readUInt32LE(HEAD_BYTES) !== MAGIC) return 'it is not a file of LMDB';
  if (first.readUInt32LE(HEAD_BYTES + 4) !== FORMAT || !isReadable()) return undefined;
  const one = metaAt(first);
  if (one.pageBytes < PAGE_BYTES_MIN || one.pageBytes > PAGE_BYTES_MAX) return 'its first page is damaged';
  const second = read(fd, one.pageBytes, META_BYTES);
  if (second === undefined) return `it ends after ${fileBytes} bytes`;
  const other = metaAt(second);
  if (second.readUInt32LE(HEAD_BYTES) !== MAGIC || other.pageBytes !== one.pageBytes)
    return 'its second page is damaged';
  const meta = other.transaction > one.transaction ? other : one;
  return new Walk(fd, meta).damage();
}

/** Page numbers and lengths are read as this machine would write them. */
function isReadable(): boolean {
  return endianness() === 'LE' && !/^(arm|ia32|mips|mipsel|ppc|s390)$/.test(process.arch);
}

function metaAt(page: Buffer): Meta {
  const trees = HEAD_BYTES + 24;
  return {
    pageBytes: page.readUInt32LE(trees),
    free: treeAt(page, trees),
    main: treeAt(page, trees + 48),
    lastPage: Number(page.readBigUInt64LE(trees + 96)),
    transaction: page.readBigUInt64LE(trees + 104),
  };
}

function treeAt(page: Buffer, at: number): Tree {
  return {
    depth: page.readUInt16LE(at + 6),
    entries: page.readBigUInt64LE(at + 32),
    root: page.readBigUInt64LE(at + 40),
  };
}

function read(fd: number, at: number, length: number): Buffer | undefined {
  const bytes = Buffer.alloc(length);
  return readSync(fd, bytes, 0, length, at) === length ? bytes : undefined;
}

/** Follows both trees down to their leaves. */
class Walk {
  readonly #fd: number;
  readonly #meta: Meta;
  /** One per page: whether a tree has it already. */
  readonly #seen: Uint8Array;
  #entries = 0n;
  #lastKey: Buffer | undefined;

  constructor(fd: number, meta: Meta) {
    this.#fd = fd;
    this.#meta = meta;
    const pages = Math.ceil(fstatSync(fd).size / meta.pageBytes);
    this.#seen = new Uint8Array(Math.min(meta.lastPage + 1, pages));
  }

  damage(): string | undefined {
    return this.#tree(this.#meta.main, true) ?? this.#tree(this.#meta.free, false);
  }

  /** Keys are compared in the main tree only: those of the other are numbers of this machine. */
  #tree({ depth, entries, root }: Tree, compare: boolean): string | undefined {
    if (root === NO_ROOT) return entries === 0n ? undefined : 'it has lost its first page of entries';
    if (depth === 0 || depth > DEPTH_MAX) return `its tree is ${depth} deep`;
    this.#entries = 0n;
    this.#lastKey = undefined;
    const damage = this.#page(Number(root), depth, compare);
    if (damage !== undefined) return damage;
    return this.#entries === entries ? undefined : `it has ${this.#entries} entries where it says ${entries}`;
  }

  #page(number: number, depth: number, compare: boolean): string | undefined {
    const page = this.#take(number, 1);
    if (typeof page === 'string') return page;
    const isLeaf = depth === 1;
    const damaged = `page ${number} is damaged`;
    if ((page.readUInt16LE(18) & (BRANCH | LEAF | OVERFLOW)) !== (isLeaf ? LEAF : BRANCH)) return damaged;
    const nodes = page.readUInt16LE(20) / 2;
    if (!Number.isInteger(nodes) || HEAD_BYTES + nodes * 2 > page.length || (!isLeaf && nodes < 2)) return damaged;
    for (let node = 0; node < nodes; node++) {
      const at = HEAD_BYTES + page.readUInt16LE(HEAD_BYTES + node * 2);
      if (at + NODE_HEAD_BYTES > page.length) return damaged;
      const below = isLeaf ? this.#leafNode(page, at, compare) : this.#page(childAt(page, at), depth - 1, compare);
      if (below !== undefined) return below === '' ? damaged : below;
    }
    if (isLeaf) this.#entries += BigInt(nodes);
    return undefined;
  }

  /** '' when the node is damaged. */
  #leafNode(page: Buffer, at: number, compare: boolean): string | undefined {
    const length = page.readUInt16LE(at) + page.readUInt16LE(at + 2) * 0x10000;
    const valueAt = at + NODE_HEAD_BYTES + page.readUInt16LE(at + 6);
    const isLarge = (page.readUInt16LE(at + 4) & LARGE_VALUE) !== 0;
    if (valueAt + (isLarge ? 24 : length) > page.length) return '';
    if (compare && !this.#isAscending(page.subarray(at + NODE_HEAD_BYTES, valueAt))) return '';
    return isLarge ? this.#largeValue(page, valueAt, length) : undefined;
  }

  #isAscending(key: Buffer): boolean {
    const last = this.#lastKey;
    this.#lastKey = key;
    return last === undefined || Buffer.compare(last, key) < 0;
  }

  #largeValue(page: Buffer, at: number, length: number): string | undefined {
    const pages = Number(page.readBigUInt64LE(at + 16));
    if (pages < 1 || HEAD_BYTES + length > pages * this.#meta.pageBytes) return '';
    const first = this.#take(Number(page.readBigUInt64LE(at)), pages);
    if (typeof first === 'string') return first;
    return (first.readUInt16LE(18) & OVERFLOW) === 0 ? '' : undefined;
  }

  /** The first of so many pages in a row, or what is wrong with them. */
  #take(number: number, count: number): Buffer | string {
    if (!(number >= 2 && number + count <= this.#meta.lastPage + 1)) return `it names page ${number}, which is none`;
    if (number + count > this.#seen.length) return `it ends before page ${number + count - 1}`;
    for (let page = number; page < number + count; page++) {
      if (this.#seen[page] === 1) return `page ${page} is in it twice`;
      this.#seen[page] = 1;
    }
    const bytes = this.#meta.pageBytes;
    const page = read(this.#fd, number * bytes, bytes);
    if (page === undefined) return `it ends before page ${number}`;
    // the last of them is looked for too: what lies between is there when both ends are
    if (count > 1 && read(this.#fd, (number + count) * bytes - 1, 1) === undefined)
      return `it ends before page ${number + count - 1}`;
    return Number(page.readBigUInt64LE(0)) === number ? page : `page ${number} is damaged`;
  }
}

function childAt(page: Buffer, at: number): number {
  return page.readUInt16LE(at) + page.readUInt16LE(at + 2) * 0x10000 + page.readUInt16LE(at + 4) * 0x1_0000_0000;
}
