import type { Change, Item, Plan, Position, Shape } from '../../dataset/index.ts';
import { formatPosition } from '../../dataset/index.ts';
import { encodeEvent } from '../../delivery/index.ts';
import { EVENT, INTENT, KIND_FLAG, KIND_SEGMENT, OBJECT_KIND, PAYLOAD_VERSION_MAX, REASON } from './words.ts';

/**
 * Every view of a data set of flags: how a full copy of it reads, and how a change to it reads.
 *
 * The pages of the four FDv1 views are the same pages (`"key":{…}` joined by commas); only heads and feet differ.
 */
export interface View {
  /** The name in positions. Views with the same name hold the same items, so their positions are interchangeable. */
  readonly name: string;
  /** The kinds of item that a client of this view sees. */
  readonly kinds: readonly string[];
  /** A full copy. */
  full(position: Position): Plan;
}

/** A view that is followed live: its changes and its catch-ups are events. */
export interface StreamView extends View {
  /** What a client that is up to date is told when it connects; `undefined` where the protocol has no word for it. */
  upToDate(position: Position): string | undefined;
  /** Changes that end at `position`, an event each; the last one completes the state and carries the position as its id. */
  changes(changes: readonly Change[], position: Position): Iterable<string>;
  /** The same for a client that has just connected, with what it must be told first. */
  catchUp(changes: readonly Change[], position: Position): Iterable<string>;
}

/** A view that is polled. */
export interface PollView extends View {
  /** How this view answers a client that names its position; absent where the protocol has only full copies. */
  readonly incremental?: {
    upToDate(position: Position): string;
    /** Changes as one body, in parts. */
    catchUp(changes: readonly Change[], position: Position): Iterable<string>;
  };
}

const ENTRY: Shape = { name: 'map', separator: ',', entry: (item) => `${JSON.stringify(item.key)}:${item.text}` };
const FLAGS = { kind: KIND_FLAG, shape: ENTRY };
const SEGMENTS = { kind: KIND_SEGMENT, shape: ENTRY };

function event(name: string, data: string, id?: string): string {
  return encodeEvent(id === undefined ? { event: name, data } : { event: name, data, id });
}

/** A full copy of an FDv1 stream: one event, its id as the last line. */
function putPlan(before: string, pieces: Plan['pieces'], after: string, position: Position): Plan {
  return {
    pieces: [`event: ${EVENT.put}\ndata: ${before}`, ...pieces, `${after}\nid: ${formatPosition(position)}\n\n`],
  };
}

function patchOrDelete(path: string, change: Change, id: string | undefined): string {
  const at = JSON.stringify(path);
  return change.item === undefined
    ? event(EVENT.delete, `{"path":${at},"version":${change.version}}`, id)
    : event(EVENT.patch, `{"path":${at},"data":${change.item.text}}`, id);
}

function fdv1Stream(view: View, pathOf: (change: Change) => string): StreamView {
  function* changes(all: readonly Change[], position: Position): Iterable<string> {
    const seen = all.filter((change) => view.kinds.includes(change.kind));
    for (const [index, change] of seen.entries()) {
      yield patchOrDelete(pathOf(change), change, index === seen.length - 1 ? formatPosition(position) : undefined);
    }
  }
  return { ...view, upToDate: () => undefined, changes, catchUp: changes };
}

/** `/all`: FDv1, flags and segments. */
export const ALL_STREAM: StreamView = fdv1Stream(
  {
    name: 'all',
    kinds: [KIND_FLAG, KIND_SEGMENT],
    full: (position) => putPlan('{"path":"/","data":{"flags":{', [FLAGS, '},"segments":{', SEGMENTS], '}}}', position),
  },
  (change) => `/${change.kind}/${change.key}`,
);

/** `/flags`: the legacy FDv1 stream, flags only. */
export const FLAGS_STREAM: StreamView = fdv1Stream(
  { name: 'flags', kinds: [KIND_FLAG], full: (position) => putPlan('{', [FLAGS], '}', position) },
  (change) => `/${change.key}`,
);

/** `/sdk/latest-all`: FDv1 polling, flags and segments. */
export const ALL_POLL: PollView = {
  name: 'all',
  kinds: [KIND_FLAG, KIND_SEGMENT],
  full: () => ({ pieces: ['{"flags":{', FLAGS, '},"segments":{', SEGMENTS, '}}'] }),
};

/** `/sdk/flags`: what PHP asks for, flags only. */
export const FLAGS_POLL: PollView = {
  name: 'flags',
  kinds: [KIND_FLAG],
  full: () => ({ pieces: ['{', FLAGS, '}'] }),
};

export function intent(position: Position, intentCode: string, reason: string): string {
  const id = formatPosition(position);
  return JSON.stringify({ payloads: [{ id, target: payloadVersion(position), intentCode, reason }] });
}

export function transferred(position: Position): string {
  return JSON.stringify({ state: formatPosition(position), version: payloadVersion(position) });
}

/** A number that rises with the data, within 31 bits. */
function payloadVersion(position: Position): number {
  return (position.clock % PAYLOAD_VERSION_MAX) + 1;
}

function putObject(item: Item): string {
  const kind = OBJECT_KIND[item.kind] ?? item.kind;
  return `{"version":${item.version},"kind":"${kind}","key":${JSON.stringify(item.key)},"object":${item.text}}`;
}

function objectChange(change: Change): { name: string; data: string } {
  if (change.item !== undefined) return { name: EVENT.putObject, data: putObject(change.item) };
  const { version, key } = change;
  return { name: EVENT.deleteObject, data: JSON.stringify({ version, kind: OBJECT_KIND[change.kind], key }) };
}

const OBJECT_EVENT: Shape = {
  name: 'fdv2-event',
  separator: '',
  entry: (item) => event(EVENT.putObject, putObject(item)),
};
const OBJECT_MEMBER: Shape = {
  name: 'fdv2-member',
  separator: '',
  entry: (item) => `,{"event":"${EVENT.putObject}","data":${putObject(item)}}`,
};

function* objectEvents(changes: readonly Change[], position: Position): Iterable<string> {
  for (const change of changes) {
    const { name, data } = objectChange(change);
    yield event(name, data);
  }
  yield event(EVENT.payloadTransferred, transferred(position), formatPosition(position));
}

/** `/sdk/stream`: FDv2. */
export const OBJECTS_STREAM: StreamView = {
  name: 'all',
  kinds: [KIND_FLAG, KIND_SEGMENT],
  full: (position) => ({
    pieces: [
      event(EVENT.serverIntent, intent(position, INTENT.full, REASON.cantCatchUp)),
      { kind: KIND_FLAG, shape: OBJECT_EVENT },
      { kind: KIND_SEGMENT, shape: OBJECT_EVENT },
      event(EVENT.payloadTransferred, transferred(position), formatPosition(position)),
    ],
  }),
  upToDate: (position) =>
    event(EVENT.serverIntent, intent(position, INTENT.none, REASON.upToDate), formatPosition(position)),
  changes: objectEvents,
  *catchUp(changes, position) {
    yield event(EVENT.serverIntent, intent(position, INTENT.changes, REASON.stale));
    yield* objectEvents(changes, position);
  },
};

export function member(name: string, data: string): string {
  return `{"event":"${name}","data":${data}}`;
}

/** `/sdk/poll`: FDv2. */
export const OBJECTS_POLL: PollView = {
  name: 'all',
  kinds: [KIND_FLAG, KIND_SEGMENT],
  full: (position) => ({
    pieces: [
      `{"events":[${member(EVENT.serverIntent, intent(position, INTENT.full, REASON.cantCatchUp))}`,
      { kind: KIND_FLAG, shape: OBJECT_MEMBER },
      { kind: KIND_SEGMENT, shape: OBJECT_MEMBER },
      `,${member(EVENT.payloadTransferred, transferred(position))}]}`,
    ],
  }),
  incremental: {
    upToDate: (position) =>
      `{"events":[${member(EVENT.serverIntent, intent(position, INTENT.none, REASON.upToDate))}]}`,
    *catchUp(changes, position) {
      yield `{"events":[${member(EVENT.serverIntent, intent(position, INTENT.changes, REASON.stale))}`;
      for (const change of changes) {
        const { name, data } = objectChange(change);
        yield `,${member(name, data)}`;
      }
      yield `,${member(EVENT.payloadTransferred, transferred(position))}]}`;
    },
  },
};
