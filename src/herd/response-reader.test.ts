import { describe, expect, it } from 'vitest';
import { ResponseReader } from './response-reader.ts';

interface Read {
  status?: number;
  tag?: string | undefined;
  body: string;
  end?: boolean;
  broken?: string;
  /** Whether it was whole when the connection was closed. */
  whole: boolean;
}

function read(pieces: readonly Buffer[]): Read {
  const found: Read = { body: '', whole: false };
  const reader = new ResponseReader({
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
  });
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

  // fails when the bound on a head is removed
  it('gives a head up that does not end', () => {
    const endless = Array.from({ length: 100 }, () => Buffer.from(`X: ${'y'.repeat(1000)}\r\n`));
    expect(read([Buffer.from('HTTP/1.1 200 OK\r\n'), ...endless]).broken).toContain('at most 65536 bytes');
  });
});
