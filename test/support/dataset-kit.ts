import { gunzipSync } from 'node:zlib';
import {
  type Change,
  DataSet,
  type DataSetOptions,
  type Encoding,
  type Item,
  type KeptBatch,
  type KeptData,
  type Payload,
  type PendingWrite,
  type Plan,
  planOf,
  payloadOf,
  type Shape,
  type Snapshot,
  type Tombstone,
} from '../../src/dataset/index.ts';

/** Entries of a JSON object. */
export const mapShape: Shape = {
  name: 'map',
  entry: (item) => `${JSON.stringify(item.key)}:${item.text}`,
  separator: ',',
};

/** Events of a stream: no separator, and each ends by itself. */
export const eventShape: Shape = {
  name: 'event',
  entry: (item) => `event: put-object\ndata: {"kind":"${item.kind}","object":${item.text}}\n\n`,
  separator: '',
};

/** Entries of a JSON array, of every second item only. */
export const evenShape: Shape = {
  name: 'even',
  entry: (item) => (item.version % 2 === 0 ? item.text : undefined),
  separator: ', ',
};

export const KINDS: readonly string[] = ['flags', 'segments'];

export const mapPlan: Plan = planOf(
  '{"path":"/","data":{"flags":{',
  { kind: 'flags', shape: mapShape },
  '},"segments":{',
  { kind: 'segments', shape: mapShape },
  '}}}',
);

export function makeSet(options: Partial<DataSetOptions> = {}): DataSet {
  return new DataSet({ name: 'test', kinds: KINDS, ...options });
}

export function flag(key: string, version: number, more = ''): Item {
  return { kind: 'flags', key, version, text: JSON.stringify({ key, version, more }) };
}

export function put(item: Item): Change {
  return { kind: item.kind, key: item.key, version: item.version, item };
}

export function gone(key: string, version: number, kind = 'flags'): Change {
  return { kind, key, version, item: undefined };
}

export async function groupsOf(payload: Payload): Promise<Uint8Array[][]> {
  const groups: Uint8Array[][] = [];
  for (let group = payload.next(); group !== undefined; group = payload.next()) groups.push([...(await group)]);
  return groups;
}

export async function wireOf(snapshot: Snapshot, plan: Plan, encoding: Encoding): Promise<Buffer> {
  return Buffer.concat((await groupsOf(payloadOf(snapshot, plan, encoding))).flat());
}

export async function textOf(snapshot: Snapshot, plan: Plan, encoding: Encoding): Promise<string> {
  const wire = await wireOf(snapshot, plan, encoding);
  return (encoding === 'gzip' ? gunzipSync(wire) : wire).toString();
}

/** What a plan must give, formed without leaves, pages or payloads. */
export function expectedText(snapshot: Snapshot, plan: Plan): string {
  let text = '';
  for (const piece of plan.pieces) {
    if (typeof piece === 'string') text += piece;
    else {
      const entries = [...snapshot.items(piece.kind)].map((item) => piece.shape.entry(item));
      text += entries.filter((entry) => entry !== undefined).join(piece.shape.separator);
    }
  }
  return text;
}

export function positionOf(snapshot: Snapshot): { digest: string; clock: number; view: string } {
  return { digest: snapshot.digest, clock: snapshot.clock, view: 'test' };
}

/** A store of one data set that takes each write as the difference that it is, and in which nothing fails. */
export class Shelf {
  /** The writes, as `beforeCommit` got them. */
  readonly writes: PendingWrite[] = [];
  #items = new Map<string, Item>();
  #tombstones = new Map<string, Tombstone>();
  #log: KeptBatch[] = [];
  #whole: KeptData | undefined;

  readonly take = (write: PendingWrite): Promise<void> => {
    this.writes.push(write);
    this.#whole = { ...write, items: write.items(), tombstones: write.tombstones(), log: write.log() };
    const { result, offset, digest, clock, logFirst } = write;
    if (result === 'loaded' || result === 'reset') {
      this.#items = new Map(Array.from(write.items(), (item) => [nameOf(item), item]));
      this.#tombstones = new Map();
      for (const grave of write.tombstones()) this.#bury(grave);
      this.#log = [...write.log()];
    } else {
      for (const change of [...write.changes, ...write.graves]) this.#change(change);
      const keys = write.changes.map(({ kind, key, version, item }) => ({
        kind,
        key,
        version,
        deleted: item === undefined,
      }));
      if (result === 'changed') this.#log.push({ offset: offset - 1, digest, clock, keys });
      this.#log = this.#log.filter((batch) => batch.offset >= logFirst - 1);
    }
    return Promise.resolve();
  };

  /** The same as the last write gave it whole. */
  whole(): KeptData {
    return this.#whole!;
  }

  /** What it holds, as of the last write. */
  kept(): KeptData {
    const { offset, digest, clock } = this.writes.at(-1)!;
    const [items, tombstones] = [[...this.#items.values()], [...this.#tombstones.values()]];
    // a store gives items in an order of its own
    return { items: items.toReversed(), tombstones, offset, digest, clock, log: this.#log };
  }

  #change({ kind, key, version, item }: Change): void {
    const name = nameOf({ kind, key });
    this.#items.delete(name);
    this.#tombstones.delete(name);
    if (item === undefined) this.#bury({ kind, key, version });
    else this.#items.set(name, item);
  }

  /** One that is buried again is the youngest. */
  #bury(grave: Tombstone): void {
    this.#tombstones.delete(nameOf(grave));
    this.#tombstones.set(nameOf(grave), grave);
  }
}

function nameOf({ kind, key }: { readonly kind: string; readonly key: string }): string {
  return `${kind} ${key}`;
}
