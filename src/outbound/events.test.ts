import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readEvents } from './events.ts';

interface Told {
  readonly name: string;
  readonly id: string | undefined;
  readonly data: string;
}

async function* body(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

async function read(...pieces: readonly Uint8Array[]): Promise<Told[]> {
  const told: Told[] = [];
  for await (const event of readEvents(body(pieces))) {
    const data: Uint8Array[] = [];
    for await (const piece of event.data) data.push(piece);
    told.push({ name: event.name, id: event.id, data: Buffer.concat(data).toString('utf8') });
  }
  return told;
}

const text = (...lines: readonly string[]): Buffer => Buffer.from(lines.join('\n'));

/** What a parser that is not ours makes of it. It forgets the id of an event without data, which the standard keeps. */
function theirs(stream: string): Omit<Told, 'id'>[] {
  const told: Omit<Told, 'id'>[] = [];
  const parser = createParser({
    onEvent: ({ event, data }) => {
      told.push({ name: event ?? 'message', data });
    },
  });
  parser.feed(stream);
  return told;
}

describe('events of a stream', () => {
  it('have a name, an id and data, whatever ends a line', async () => {
    const wanted = [
      { name: 'put', id: '7', data: '{"a":1}' },
      { name: 'message', id: '7', data: 'x\ny' },
    ];
    for (const end of ['\n', '\r', '\r\n']) {
      const lines = [': hello', 'event: put', 'data: {"a":1}', 'id: 7', '', 'data:x', 'data: y', '', ''];
      expect(await read(Buffer.from(lines.join(end)))).toEqual(wanted);
    }
  });

  it('follow a byte order mark, and only one at the beginning', async () => {
    expect(await read(text('\uFEFFdata: x', '', 'data: \uFEFFy', '', ''))).toMatchObject([
      { data: 'x' },
      { data: '\uFEFFy' },
    ]);
    expect(await read(Buffer.of(0xef, 0xbb), Buffer.of(0xbf), text('data: x', '', ''))).toMatchObject([{ data: 'x' }]);
    expect(await read(Buffer.of(0xef), text('data: x', 'data: y', '', ''))).toMatchObject([{ data: 'y' }]);
  });

  it('are none without a line of data, and one with an empty line of it', async () => {
    expect(await read(text('event: put', 'id: 1', '', 'data', '', 'data:', 'data:', '', ''))).toEqual([
      { name: 'message', id: '1', data: '' },
      { name: 'message', id: '1', data: '\n' },
    ]);
  });

  it('may say their name after their data, within bounds', async () => {
    expect(await read(text('data: x', 'event: late', '', ''))).toMatchObject([{ name: 'late', data: 'x' }]);
    const long = text(`data: ${'x'.repeat(2 * 1024 * 1024)}`, 'event: late', '', '');
    await expect(read(long)).rejects.toMatchObject({ code: 'HG_SOURCE' });
  });

  it('keep only one space out of a value, and take no id with a null', async () => {
    expect(await read(text('id: a\0b', 'data:  x', '', 'id:  c', 'data:x', '', ''))).toEqual([
      { name: 'message', id: undefined, data: ' x' },
      { name: 'message', id: ' c', data: 'x' },
    ]);
  });

  it('that are cut in their data throw, and are nothing when cut before', async () => {
    await expect(read(text('data: x', '', 'event: put', 'data: y', ''))).rejects.toMatchObject({ code: 'HG_UPSTREAM' });
    expect(await read(text('data: x', '', 'event: put'))).toHaveLength(1);
  });

  it('with a line that does not end are refused', async () => {
    await expect(read(text(`id: ${'x'.repeat(70_000)}`))).rejects.toMatchObject({ code: 'HG_SOURCE' });
  });

  it('whose data are left unread are skipped', async () => {
    const names: string[] = [];
    for await (const event of readEvents(
      body([text('event: a', 'data: x', 'data: y', '', 'event: b', 'data: z', '', '')]),
    )) {
      names.push(event.name);
    }
    expect(names).toEqual(['a', 'b']);
  });

  it('give their data out while they come, and let the body go when nobody reads on', async () => {
    let left = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        yield text('event: put', 'data: ');
        for (;;) yield Buffer.from('x');
      } finally {
        left = true;
      }
    }
    for await (const event of readEvents(endless())) {
      for await (const piece of event.data) {
        expect(piece.byteLength).toBe(1);
        break;
      }
      break;
    }
    expect(left).toBe(true);
  });

  it('are the same wherever the bytes are cut, and the same as another parser has them', async () => {
    const value = fc.string({ unit: fc.constantFrom('a', ':', ' ', 'é', '\u{1F600}', '{', '\uFEFF') });
    const line = fc.oneof(
      value.map((data) => `data: ${data}`),
      value.map((data) => `data:${data}`),
      value.map((id) => `id: ${id}`),
      value.map((comment) => `:${comment}`),
      fc.constantFrom('', '', 'data', 'retry: 5', 'nobody: knows'),
    );
    const event = fc.tuple(fc.constantFrom('event: put', 'event: patch', ''), fc.array(line, { maxLength: 6 }));
    const stream = fc
      .tuple(fc.array(event, { maxLength: 6 }), fc.constantFrom('\n', '\r', '\r\n'))
      .map(([events, end]) => events.flatMap(([name, lines]) => [name, ...lines, '', '']).join(end));
    await fc.assert(
      fc.asyncProperty(stream, fc.array(fc.nat(), { maxLength: 12 }), async (written, cuts) => {
        const bytes = Buffer.from(`${written}data: last\n\n`);
        const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
        const pieces = [0, ...places].map((from, at) => bytes.subarray(from, places[at] ?? bytes.length));
        const whole = await read(bytes);
        expect(await read(...pieces)).toEqual(whole);
        expect(whole.map(({ name, data }) => ({ name, data }))).toEqual(theirs(bytes.toString('utf8')));
      }),
      { numRuns: 300 },
    );
  });
});
