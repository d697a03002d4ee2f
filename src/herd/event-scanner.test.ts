import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventScanner, type ScannedEvent } from './event-scanner.ts';

const STREAM = [
  ':hi\n',
  'event: server-intent\ndata: {"payloads":[{"intentCode":"xfer-full"}]}\n\n',
  'event: put-object\ndata: {"says":"payload-transferred"}\n\n',
  'event: put-object\r\ndata: {"b":2}\r\n\r\n',
  'event: payload-transferred\ndata: {"state":"s1"}\nid: p1\n\n',
  'retry: 2500\n',
  'event:patch\ndata:x\nid:p2\n\n',
  'id: lost\nevent: put\ndata: cut before its end\n',
].join('');

interface Seen {
  readonly events: readonly ScannedEvent[];
  readonly lastEventId: string | undefined;
  readonly retryMs: number | undefined;
}

/** Fed piece by piece, each overwritten after the call as the wire does. */
function scan(pieces: readonly Buffer[], skips: boolean): Seen {
  const events: ScannedEvent[] = [];
  const scanner: EventScanner = new EventScanner({
    reads: (name) => name === 'server-intent' || name === 'payload-transferred',
    onEvent: (event) => {
      events.push(event);
      if (skips && (event.name === 'server-intent' || event.name === 'put-object')) {
        scanner.skipTo('payload-transferred');
      }
    },
  });
  for (const piece of pieces) {
    const lent = Buffer.from(piece);
    scanner.feed(lent);
    lent.fill('#');
  }
  return { events, lastEventId: scanner.lastEventId, retryMs: scanner.retryMs };
}

const WHOLE: Seen = {
  events: [
    { name: 'server-intent', data: '{"payloads":[{"intentCode":"xfer-full"}]}' },
    { name: 'put-object', data: '' },
    { name: 'put-object', data: '' },
    { name: 'payload-transferred', data: '{"state":"s1"}' },
    { name: 'patch', data: '' },
  ],
  lastEventId: 'p2',
  retryMs: 2500,
};
/** What is left when items are passed over: those that were looked at all the same do not matter. */
const essence = (seen: Seen): Seen => ({
  ...seen,
  events: seen.events.filter(({ name }) => name !== 'put-object' && name !== 'message'),
});

describe('EventScanner', () => {
  const bytes = Buffer.from(STREAM);

  it('finds the same events wherever the stream is split', () => {
    for (let at = 0; at <= bytes.length; at++) {
      expect(scan([bytes.subarray(0, at), bytes.subarray(at)], false)).toEqual(WHOLE);
    }
    expect(
      scan(
        [...bytes].map((byte) => Buffer.from([byte])),
        false,
      ),
    ).toEqual(WHOLE);
  });

  // fails when `skipTo` is not called off by a name that came in two pieces
  it('misses nothing that matters when it passes items over, wherever the stream is split', () => {
    for (let at = 0; at <= bytes.length; at++) {
      expect(essence(scan([bytes.subarray(0, at), bytes.subarray(at)], true))).toEqual(essence(WHOLE));
    }
    fc.assert(
      fc.property(fc.array(fc.nat({ max: bytes.length }), { maxLength: 12 }), (places) => {
        const edges = [0, ...places.toSorted((a, b) => a - b), bytes.length];
        const pieces = edges.slice(1).map((end, at) => bytes.subarray(edges[at], end));
        expect(essence(scan(pieces, true))).toEqual(essence(WHOLE));
      }),
    );
  });

  it('takes no event without data, and no position of an event that was cut', () => {
    expect(scan([Buffer.from('event: put\n\nid: 1\n\ndata\n\nid: 2\ndata: x\n')], false)).toEqual({
      events: [{ name: 'message', data: '' }],
      lastEventId: '1',
      retryMs: undefined,
    });
  });

  it('holds no more of a line than it may need', () => {
    const long = Buffer.concat([
      Buffer.from('event: payload-transferred\ndata: '),
      Buffer.alloc(1_000_000, 'x'),
      Buffer.from('\n\n'),
    ]);
    for (const at of [40, 500_000]) {
      const { events } = scan([long.subarray(0, at), long.subarray(at)], false);
      expect(events.map(({ data }) => data.length <= 4096)).toEqual([true]);
    }
    const lines = Array.from({ length: 10 }, () => `data: ${'x'.repeat(1000)}\n`).join('');
    const { events } = scan([Buffer.from(`event: server-intent\n${lines}\n`)], false);
    expect(events.map(({ data }) => data.length)).toEqual([4096]);
  });
});
