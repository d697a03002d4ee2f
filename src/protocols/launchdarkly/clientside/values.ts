import { formatPosition, type Position } from '../../../dataset/index.ts';
import { encodeEvent, type Source } from '../../../delivery/index.ts';
import { Slices } from '../../../kernel/index.ts';
import { evalxMembers, flagEvalMembers } from '../evaluation/text.ts';
import type { EvaluatedFlag } from '../evaluation/types.ts';
import { intent, member, transferred } from '../views.ts';
import { EVENT, INTENT, REASON } from '../words.ts';
import { Turns } from './turns.ts';

/** A value as it is now, or that a client sees this flag no longer. */
export interface ValueChange {
  readonly key: string;
  readonly version: number;
  readonly flag: EvaluatedFlag | undefined;
}

/** How evaluated values read in one protocol: all of them, none of them, some of them. */
export interface Shape {
  full(flags: readonly EvaluatedFlag[], position: Position): Iterable<string>;
  /** Absent where the protocol has no word for it. */
  upToDate?(position: Position): string;
  changes?(changes: readonly ValueChange[], position: Position): Iterable<string>;
}

const KIND = 'flag-eval';

function putObject(flag: EvaluatedFlag): string {
  const key = JSON.stringify(flag.key);
  return `{"version":${flag.version},"kind":"${KIND}","key":${key},"object":{${flagEvalMembers(flag)}}}`;
}

function objectOf({ key, version, flag }: ValueChange): { name: string; data: string } {
  if (flag !== undefined) return { name: EVENT.putObject, data: putObject(flag) };
  return { name: EVENT.deleteObject, data: JSON.stringify({ version, kind: KIND, key }) };
}

/** `evalx`: one map, no positions. */
export const MAP: Shape = {
  *full(flags) {
    let separator = '{';
    for (const flag of flags) {
      yield `${separator}${JSON.stringify(flag.key)}:{${evalxMembers(flag)}}`;
      separator = ',';
    }
    yield flags.length === 0 ? '{}' : '}';
  },
};

/** FDv2, polled. */
export const POLL: Shape = {
  *full(flags, position) {
    yield `{"events":[${member(EVENT.serverIntent, intent(position, INTENT.full, REASON.cantCatchUp))}`;
    for (const flag of flags) yield `,${member(EVENT.putObject, putObject(flag))}`;
    yield `,${member(EVENT.payloadTransferred, transferred(position))}]}`;
  },
  upToDate: (position) => `{"events":[${member(EVENT.serverIntent, intent(position, INTENT.none, REASON.upToDate))}]}`,
  *changes(changes, position) {
    yield `{"events":[${member(EVENT.serverIntent, intent(position, INTENT.changes, REASON.stale))}`;
    for (const change of changes) {
      const { name, data } = objectOf(change);
      yield `,${member(name, data)}`;
    }
    yield `,${member(EVENT.payloadTransferred, transferred(position))}]}`;
  },
};

/** What completes a state on a stream: it carries the position as its id. */
function transferredEvent(position: Position): string {
  return encodeEvent({
    event: EVENT.payloadTransferred,
    data: transferred(position),
    id: formatPosition(position),
  });
}

/** FDv2, as a stream. `changes` is for one that is open: no intent stands before it. */
export const STREAM: Required<Shape> & { readonly intent: (position: Position) => string } = {
  intent: (position) =>
    encodeEvent({ event: EVENT.serverIntent, data: intent(position, INTENT.changes, REASON.stale) }),
  *full(flags, position) {
    yield encodeEvent({ event: EVENT.serverIntent, data: intent(position, INTENT.full, REASON.cantCatchUp) });
    for (const flag of flags) yield encodeEvent({ event: EVENT.putObject, data: putObject(flag) });
    yield transferredEvent(position);
  },
  upToDate: (position) =>
    encodeEvent({
      event: EVENT.serverIntent,
      data: intent(position, INTENT.none, REASON.upToDate),
      id: formatPosition(position),
    }),
  *changes(changes, position) {
    for (const change of changes) {
      const { name, data } = objectOf(change);
      yield encodeEvent({ event: name, data });
    }
    yield transferredEvent(position);
  },
};

/** Text, encoded. */
export interface Encoded {
  readonly pieces: readonly Buffer[];
  readonly bytes: number;
}

/** One piece, in characters: about what one write takes. */
const PIECE_LENGTH = 64 * 1024;

/**
 * Copies are encoded one behind the other, in slices that they share. Each in slices of its own would take one in the same
 * turn of the event loop, and a turn accepts a single connection (libuv's `uv__server_io`): in a herd of browsers, servers
 * that reconnect would stand behind all of it.
 */
const LINE_SLICE_MS = 1;
const line = new Turns(1);
const lineSlices = new Slices(LINE_SLICE_MS);

/** By evaluation, shape and position. */
const copies = new WeakMap<readonly EvaluatedFlag[], Map<Shape, Map<string, Promise<Encoded>>>>();

/** Encodes everything, once for all who share an evaluation. */
export function encodeFull(shape: Shape, flags: readonly EvaluatedFlag[], position: Position): Promise<Encoded> {
  const shapes = inside(copies, flags, () => new Map<Shape, Map<string, Promise<Encoded>>>());
  const positions = inside(shapes, shape, () => new Map<string, Promise<Encoded>>());
  return inside(positions, formatPosition(position), () =>
    line.run(async () => {
      if (lineSlices.due()) await lineSlices.pause();
      return encode(shape.full(flags, position), lineSlices);
    }),
  );
}

function inside<K, V>(map: { get(key: K): V | undefined; set(key: K, value: V): unknown }, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}

/** Encodes text in slices that leave the event loop free: two thousand flags take a millisecond, fifty thousand do not. */
export async function encode(parts: Iterable<string>, slices: Slices = new Slices()): Promise<Encoded> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  let texts: string[] = [];
  let length = 0;
  const cut = (): void => {
    const piece = Buffer.from(texts.join(''));
    pieces.push(piece);
    bytes += piece.length;
    texts = [];
    length = 0;
  };
  for (const part of parts) {
    texts.push(part);
    length += part.length;
    if (length < PIECE_LENGTH) continue;
    cut();
    if (slices.due()) await slices.pause();
  }
  if (length > 0) cut();
  return { pieces, bytes };
}

/** Pieces as something to deliver, one at a time. */
export function sourceOf({ pieces, bytes }: Encoded): Source {
  let next = 0;
  return {
    bytes,
    next() {
      const piece = pieces[next++];
      return piece === undefined ? undefined : [piece];
    },
  };
}
