import { describe, expect, it } from 'vitest';
import { ResponseReader, type ResponseSink } from './response-reader.ts';

interface Read {
  status?: number;
  tag?: string | undefined;
  body: string;
  end?: boolean;
  broken?: string;
  /** Whether it was whole when the connection was closed. */
  whole: boolean;
}

function read(pieces: readonly Buffer[], hide?: (text: string) => string): Read {
  const found: Read = { body: '', whole: false };
  const sink: ResponseSink = {
    onHead: ({ status, headers }) => {
      found.status = status;
      found.tag = headers.get('etag');
    },
    onBody: (piece) => {
      found.body += piece.toString('latin1');
    },
    onEnd: (reusable) => {
      found.end = reusable;
    },
    onBroken: (what) => {
      found.broken = what;
    },
  };
  const reader = new ResponseReader(sink, hide);
  for (const piece of pieces) reader.feed(piece);
  found.whole = reader.closed();
  return found;
}

const CASES: readonly (readonly [string, string, Read])[] = [
  [
    'a body of a length',
    'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Length: 5\r\n\r\nhello',
    { status: 200, tag: '"a"', body: 'hello', end: true, whole: true },
  ],
  [
    'a body in chunks, with an extension and a trailer',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n',
    { status: 200, tag: undefined, body: 'hello0123456789', end: true, whole: true },
  ],
  [
    'an answer without a body, after an interim one',
    'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 304 Not Modified\r\nConnection: close\r\nContent-Length: 9\r\n\r\n',
    { status: 304, tag: undefined, body: '', end: false, whole: true },
  ],
  [
    'a body that ends with the connection',
    'HTTP/1.0 200 OK\r\n\r\nhello',
    { status: 200, tag: undefined, body: 'hello', end: false, whole: true },
  ],
  [
    'chunks that were cut',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n',
    { status: 200, tag: undefined, body: 'hello', whole: false },
  ],
  [
    'a connection that is closed among other things, and a length that is said twice',
    'HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello',
    { status: 200, tag: undefined, body: 'hello', end: false, whole: true },
  ],
  [
    'a body shorter than its length',
    'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello',
    { status: 200, tag: undefined, body: 'hello', whole: false },
  ],
];

describe('ResponseReader', () => {
  it.each(CASES)('reads %s, wherever it is split', (_, text, expected) => {
    const bytes = Buffer.from(text, 'latin1');
    for (let at = 0; at <= bytes.length; at++) {
      expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(expected);
    }
    expect(read([...bytes].map((byte) => Buffer.from([byte])))).toEqual(expected);
  });

  it('says what is no answer', () => {
    expect(read([Buffer.from('SSH-2.0-OpenSSH\r\n\r\n')]).broken).toBe('expected HTTP/1.1, got "SSH-2.0-OpenSSH"');
    const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n';
    expect(read([Buffer.from(chunked)]).broken).toBe('expected the size of a chunk, got "zz"');
  });

  // fails when what follows a chunk is not looked at, or the first of two lengths counts, or one that is no number is none
  it.each([
    ['Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n', 'expected the end of a chunk, got "world"'],
    ['Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}xyz', 'expected one length, got "2, 5"'],
    ['Content-Length: 5x\r\n\r\nhello', 'expected one length, got "5x"'],
  ])('takes no body for whole whose length is not known: %j', (rest, broken) => {
    const found = read([Buffer.from(`HTTP/1.1 200 OK\r\n${rest}`)]);
    expect([found.broken, found.end]).toEqual([broken, undefined]);
  });

  // fails when what came is quoted as it came, or is hidden only after it was cut
  it('quotes nothing that is to be hidden', () => {
    const hide = (text: string): string => text.replaceAll('secret', '***');
    const long = `${'x'.repeat(36)}secret`;
    expect(read([Buffer.from(`${long}\r\n\r\n`)], hide).broken).toBe(`expected HTTP/1.1, got "${'x'.repeat(36)}***"`);
  });

  // fails when each interim answer may be as long as all of them
  it('gives up interim answers that do not end', () => {
    const endless = Array.from({ length: 10_000 }, () => Buffer.from('HTTP/1.1 100 Continue\r\n\r\n'));
    expect(read(endless).broken).toContain('at most 65536 bytes');
  });

  // fails when the bound on a head is removed
  it('gives a head up that does not end', () => {
    const endless = Array.from({ length: 100 }, () => Buffer.from(`X: ${'y'.repeat(1000)}\r\n`));
    expect(read([Buffer.from('HTTP/1.1 200 OK\r\n'), ...endless]).broken).toContain('at most 65536 bytes');
  });
});
