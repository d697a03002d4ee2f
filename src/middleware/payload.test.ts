import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { turns } from '../../test/support/conditions.ts';
import { openPayload } from './payload.ts';
import type { Payload } from './types.ts';

async function readAll(payload: Payload): Promise<{ writes: number; text: string; bytes: number | undefined }> {
  const { source } = openPayload(payload);
  let text = '';
  let writes = 0;
  for (;;) {
    const pieces = await source.next(10);
    if (pieces === undefined) return { writes, text, bytes: source.bytes };
    writes++;
    for (const piece of pieces) text += Buffer.from(piece).toString();
  }
}

function* rows(): Generator<string> {
  for (let row = 0; row < 10; row++) yield `row${row}`;
}

async function* laterRows(): AsyncGenerator<string> {
  yield* rows();
}

const ROWS = [...rows()].join('');

describe('a payload', () => {
  it.each<[string, () => Payload, { writes: number; bytes: number | undefined }]>([
    ['text', () => ROWS, { writes: 1, bytes: 40 }],
    ['bytes', () => Buffer.from(ROWS), { writes: 1, bytes: 40 }],
    ['pieces at hand', () => [...rows()], { writes: 1, bytes: 40 }],
    // three rows of four bytes are wanted at a time
    ['an iterable', () => ({ [Symbol.iterator]: rows }), { writes: 4, bytes: undefined }],
    ['a generator', () => rows(), { writes: 4, bytes: undefined }],
    ['an async generator', () => laterRows(), { writes: 10, bytes: undefined }],
    ['a stream', () => Readable.from(rows()), { writes: 10, bytes: undefined }],
    [
      'a web stream',
      () => Readable.toWeb(Readable.from(rows())) as unknown as AsyncIterable<string>,
      { writes: 10, bytes: undefined },
    ],
    ['a source', () => ({ bytes: 40, next: once([Buffer.from(ROWS)]) }), { writes: 1, bytes: 40 }],
  ])('is %s', async (_, make, expected) => {
    expect(await readAll(make())).toEqual({ text: ROWS, ...expected });
  });

  it('counts text in bytes', () => {
    expect(openPayload('é').source.bytes).toBe(2);
  });

  // Fails when an empty piece counts as nothing: the loop would never come back.
  it('of endless empty pieces does not hold the loop', () => {
    function* empty(): Generator<string> {
      for (;;) yield '';
    }
    expect(openPayload(empty()).source.next(100)).toHaveLength(100);
  });

  it('that is abandoned lets go of what it is made from', async () => {
    const ended: string[] = [];
    function* sync(): Generator<string> {
      try {
        yield* rows();
      } finally {
        ended.push('generator');
      }
    }
    async function* later(): AsyncGenerator<string> {
      try {
        yield* rows();
      } finally {
        ended.push('async generator');
      }
    }
    const stream = Readable.from(rows());
    for (const payload of [sync(), later(), stream]) {
      const opened = openPayload(payload);
      await opened.source.next(1);
      opened.abandon();
    }
    await new Promise((resolve) => stream.once('close', resolve));
    expect([ended, stream.destroyed]).toEqual([['generator', 'async generator'], true]);
  });

  // Fails when a stream is told by its iterator alone, which waits for the read that is under way.
  it('that is abandoned while it is waited for lets go at once', async () => {
    const stream = new Readable({ read: () => undefined });
    const opened = openPayload(stream);
    const waiting = Promise.resolve(opened.source.next()).catch(() => 'failed');
    expect(opened.isReading()).toBe(true);
    opened.abandon();
    await waiting;
    expect([stream.destroyed, opened.isReading()]).toEqual([true, false]);
  });
});

function once<T>(value: T): () => T | undefined {
  let rest: T | undefined = value;
  return () => {
    const now = rest;
    rest = undefined;
    return now;
  };
}

// Fails when a web stream is read by its own iterator: it would be told when it has given what it was asked for, or never.
it('a web stream that is waited for is told at once that nobody wants it', async () => {
  let cancelled = 0;
  const stream = new ReadableStream<Uint8Array>({ cancel: () => void cancelled++ });
  const { source, abandon, isReading } = openPayload(stream as unknown as AsyncIterable<Uint8Array>);
  void source.next();
  expect(isReading()).toBe(true);
  abandon();
  await turns(1);
  expect(cancelled).toBe(1);
});

it.each<[string, unknown]>([
  ['undefined', undefined],
  ['null', null],
  ['number', 5],
  ['object', { rows: [] }],
  ['object', new ArrayBuffer(3)],
])('%s is no payload', (got, payload) => {
  expect(() => openPayload(payload as Payload)).toThrow(`or a source, got ${got}`);
});

it('a piece that is neither text nor bytes is refused', async () => {
  expect(() => openPayload([{ row: 1 }] as unknown as string[])).toThrow('text or a Uint8Array, got object');
  const { source } = openPayload(Readable.from([5]));
  await expect(source.next()).rejects.toThrow('text or a Uint8Array, got number');
});
