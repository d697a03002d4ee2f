import { describe, expect, it } from 'vitest';
import { DataSet, type Change, formatPosition, payloadOf, type Position } from '../../dataset/index.ts';
import { flag, gone, put, segment } from '../../../test/support/flags-items.ts';
import {
  ALL_POLL,
  ALL_STREAM,
  FLAGS_POLL,
  FLAGS_STREAM,
  OBJECTS_POLL,
  OBJECTS_STREAM,
  type StreamView,
  type View,
} from './views.ts';
import { PAYLOAD_VERSION_MAX } from './words.ts';

const HERE: Position = { digest: 'A'.repeat(43), clock: 7, view: 'all' };
const ID = formatPosition(HERE);

async function full(view: View, items = [flag('a"b', 1), flag('c', 2), segment('s', 3)]): Promise<string> {
  const data = new DataSet({ name: 'test', kinds: ['flags', 'segments'] });
  await data.replace(items);
  const payload = payloadOf(data.snapshot(), view.full(HERE), 'identity');
  let text = '';
  for (let group = await payload.next(); group !== undefined; group = await payload.next()) {
    text += Buffer.concat(group).toString();
  }
  return text;
}

function changes(view: StreamView, all: readonly Change[]): string {
  return [...view.changes(all, HERE)].join('');
}

const A = flag('a"b', 1).text;
const C = flag('c', 2).text;
const S = segment('s', 3).text;

describe('a full copy', () => {
  it.each([
    [
      '/all',
      ALL_STREAM,
      `event: put\ndata: {"path":"/","data":{"flags":{"a\\"b":${A},"c":${C}},"segments":{"s":${S}}}}\nid: ${ID}\n\n`,
    ],
    ['/flags', FLAGS_STREAM, `event: put\ndata: {"a\\"b":${A},"c":${C}}\nid: ${ID}\n\n`],
    ['/sdk/latest-all', ALL_POLL, `{"flags":{"a\\"b":${A},"c":${C}},"segments":{"s":${S}}}`],
    ['/sdk/flags', FLAGS_POLL, `{"a\\"b":${A},"c":${C}}`],
  ])('of %s', async (_path, view, text) => {
    expect(await full(view)).toBe(text);
  });

  it('of nothing is whole too', async () => {
    expect(await full(ALL_POLL, [])).toBe('{"flags":{},"segments":{}}');
    expect(await full(FLAGS_POLL, [segment('s', 1)])).toBe('{}');
    const { events } = JSON.parse(await full(OBJECTS_POLL, [])) as { events: { event: string }[] };
    expect(events.map(({ event }) => event)).toEqual(['server-intent', 'payload-transferred']);
  });

  it('says the same as a stream and as a poll of FDv2', async () => {
    const { events } = JSON.parse(await full(OBJECTS_POLL)) as { events: { event: string; data: unknown }[] };
    const streamed = (await full(OBJECTS_STREAM)).trimEnd().split('\n\n');
    const parsed = streamed.map((text) => {
      const [event = '', data = ''] = text.split('\n');
      return { event: event.slice('event: '.length), data: JSON.parse(data.slice('data: '.length)) as unknown };
    });
    expect(parsed).toEqual(events);
    // only what completes a state says where the client is
    expect(streamed.map((text) => text.includes(`\nid: ${ID}`))).toEqual([false, false, false, false, true]);
  });
});

describe('changes', () => {
  const all = [put(flag('a"b', 1)), gone('flags', 'c', 9), put(segment('s', 3)), gone('segments', 't', 4)];

  it('of /all name their path, and the last one the position', () => {
    expect(changes(ALL_STREAM, all)).toBe(
      [
        `event: patch\ndata: {"path":"/flags/a\\"b","data":${A}}\n\n`,
        'event: delete\ndata: {"path":"/flags/c","version":9}\n\n',
        `event: patch\ndata: {"path":"/segments/s","data":${S}}\n\n`,
        `event: delete\ndata: {"path":"/segments/t","version":4}\nid: ${ID}\n\n`,
      ].join(''),
    );
  });

  it('of /flags are those of flags: the last of them carries the position', () => {
    expect(changes(FLAGS_STREAM, all)).toBe(
      [
        `event: patch\ndata: {"path":"/a\\"b","data":${A}}\n\n`,
        `event: delete\ndata: {"path":"/c","version":9}\nid: ${ID}\n\n`,
      ].join(''),
    );
    expect(changes(FLAGS_STREAM, all.slice(2))).toBe('');
  });

  it('of /sdk/stream end with their transfer, without an intent; a catch-up begins with one', () => {
    const text = changes(OBJECTS_STREAM, all.slice(1, 3));
    expect(text).toBe(
      [
        'event: delete-object\ndata: {"version":9,"kind":"flag","key":"c"}\n\n',
        `event: put-object\ndata: {"version":3,"kind":"segment","key":"s","object":${S}}\n\n`,
        `event: payload-transferred\ndata: {"state":"${ID}","version":8}\nid: ${ID}\n\n`,
      ].join(''),
    );
    const intent = `{"payloads":[{"id":"${ID}","target":8,"intentCode":"xfer-changes","reason":"stale"}]}`;
    expect([...OBJECTS_STREAM.catchUp(all.slice(1, 3), HERE)].join('')).toBe(
      `event: server-intent\ndata: ${intent}\n\n${text}`,
    );
  });
});

describe('being up to date', () => {
  it('has a word on FDv2 only', () => {
    expect(ALL_STREAM.upToDate(HERE)).toBeUndefined();
    expect(FLAGS_STREAM.upToDate(HERE)).toBeUndefined();
    const said = OBJECTS_STREAM.upToDate(HERE) ?? '';
    expect(said).toContain('"intentCode":"none","reason":"up-to-date"');
    expect(said.endsWith(`\nid: ${ID}\n\n`)).toBe(true);
    expect(ALL_POLL.incremental).toBeUndefined();
  });
});

describe("FDv2's number of a payload", () => {
  // some SDKs read it as 32 bits with a sign
  it.each([
    [0, 1],
    [PAYLOAD_VERSION_MAX - 1, PAYLOAD_VERSION_MAX],
    [PAYLOAD_VERSION_MAX, 1],
    [Number.MAX_SAFE_INTEGER, (Number.MAX_SAFE_INTEGER % PAYLOAD_VERSION_MAX) + 1],
  ])('of clock %d is %d', (clock, version) => {
    const said = JSON.parse(OBJECTS_POLL.incremental?.upToDate({ ...HERE, clock }) ?? '') as {
      events: { data: { payloads: { target: number }[] } }[];
    };
    expect(said.events[0]?.data.payloads[0]?.target).toBe(version);
  });
});
