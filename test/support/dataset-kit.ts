import { gunzipSync } from 'node:zlib';
import {
  type Change,
  DataSet,
  type DataSetOptions,
  type Encoding,
  type Item,
  type Payload,
  type Plan,
  planOf,
  payloadOf,
  type Shape,
  type Snapshot,
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
