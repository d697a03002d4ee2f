import type http from 'node:http';
import type { Http2ServerResponse } from 'node:http2';
import { createGzip, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { BIG, BIG_BYTES } from '../../test/support/middleware.ts';
import { ask, openRig, type Rig } from '../../test/support/transports.ts';
import type { Report, Transport } from '../delivery/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { Copies, deliver, limitDeliveries, type Payload } from './node.ts';

const open: Rig[] = [];
// the machine may be busy with other work: a condition that holds is seen at once
vi.setConfig({ testTimeout: 30_000 });

afterEach(async () => {
  for (const rig of open.splice(0)) await rig.close();
});

/**
 * What middleware that compresses does to a response: its `write` goes into a stream and drops callbacks, its 'drain' is that
 * stream's, and the head is changed as it is written. Level 0 where the size is to stay.
 */
function compress(res: http.ServerResponse, level: number): void {
  const gzip = createGzip({ level });
  const [write, end, on] = [res.write.bind(res), res.end.bind(res), res.on.bind(res)];
  // there is nothing to compress, but wrapped it is
  if (res.req.method === 'HEAD') return void (res.write = (chunk: Buffer) => write(chunk));
  const begin = (): void => {
    if (res.headersSent) return;
    res.setHeader('content-encoding', 'gzip');
    res.removeHeader('content-length');
    res.writeHead(res.statusCode);
  };
  res.write = (chunk: Buffer) => {
    begin();
    return gzip.write(chunk);
  };
  res.end = () => {
    begin();
    gzip.end();
    return res;
  };
  res.on = ((name: string, listener: () => void) => {
    if (name === 'drain') gzip.on(name, listener);
    else on(name, listener);
    return res;
  }) as typeof res.on;
  gzip.on('data', (chunk: Buffer) => {
    if (!write(chunk)) gzip.pause();
  });
  gzip.on('end', () => end());
  on('drain', () => gzip.resume());
  on('close', () => gzip.destroy());
}

interface Setup {
  readonly clock: FakeClock;
  readonly copies: Copies;
  readonly rig: Rig;
  readonly reports: Report[];
}

async function setUp(transport: Transport, payload: () => Payload, level = 0): Promise<Setup> {
  const clock = new FakeClock();
  const copies = new Copies({ maxConcurrent: 1, slackMs: 2000, clock });
  const reports: Report[] = [];
  const listener = limitDeliveries(copies, async (_req, res) => reports.push(await deliver(res, payload())));
  const rig = await openRig(transport, () => undefined);
  copies.attach(rig.server);
  rig.server.on('request', (req: http.IncomingMessage, res: http.ServerResponse) => {
    compress(res, level);
    listener(req, res);
  });
  open.push(rig);
  return { clock, copies, rig, reports };
}

function* pieces(): Generator<Buffer> {
  for (let at = 0; at < BIG_BYTES; at += 65_536) yield BIG.subarray(at, at + 65_536);
}

// Fails when deliver() does not ask isWrapped: it writes around what compresses, bytes that are labelled gzip and are not.
describe.each(['http1', 'h2c'] as const)('a response that is compressed on its way, over %s', (transport) => {
  it.each<[string, () => Payload]>([
    ['at hand', () => BIG],
    ['a stream', () => pieces()],
  ])('arrives whole, delivered from %s', async (_what, payload) => {
    const { rig, copies, reports } = await setUp(transport, payload);
    const answer = await ask(rig);
    expect([answer.headers['content-encoding'], await answer.ended]).toEqual(['gzip', 'whole']);
    expect(answer.bytes).toBeGreaterThan(BIG_BYTES);
    await until('the report', () => reports.length === 1);
    expect(reports).toMatchObject([{ outcome: 'completed', bytes: BIG_BYTES, parkedMs: 0 }]);
    expect([copies.held, copies.stats().ended.completed]).toEqual([0, 1]);
  });

  it('is what was delivered, once it is unpacked', async () => {
    const { rig } = await setUp(transport, () => ['one', 'two'], 9);
    const answer = await ask(rig);
    expect(await answer.ended).toBe('whole');
    expect(answer.bytes).toBe(gzipSync('onetwo', { level: 9 }).byteLength);
  });

  // Fails when writeThrough does not wait for room: all of it is in the process, and nothing tells that the reader stopped.
  it('to a reader that takes nothing is cut, and its source let go of', async () => {
    let given = 0;
    let ended = 0;
    function* endless(): Generator<Buffer> {
      try {
        for (;;) {
          given++;
          yield BIG.subarray(0, 65_536);
        }
      } finally {
        ended++;
      }
    }
    const { rig, copies, clock, reports } = await setUp(transport, endless);
    let res: http.ServerResponse | Http2ServerResponse | undefined;
    rig.server.prependListener('request', (_req: unknown, its: http.ServerResponse) => (res = its));
    const waiting = (): number =>
      (res !== undefined && 'stream' in res ? res.stream : res?.socket)?.writableLength ?? 0;
    const answer = await ask(rig, '/', { reads: false });
    for (let stuck = 0; stuck < 100; stuck++) {
      await turns(1);
      if (waiting() === 0) stuck = 0;
    }
    await until('the cut', () => {
      clock.advance(250);
      return copies.stats().ended.stalled === 1;
    });
    await until('the report', () => reports.length === 1);
    answer.read();
    expect([await answer.ended, reports[0]?.outcome, ended, copies.held]).toEqual(['broken', 'stalled', 1, 0]);
    expect(given).toBeLessThan(500);
  });

  // Fails when deliver() waits for the source alone.
  it('whose client leaves while its source is waited for lets go of it', async () => {
    let ended = 0;
    const stuck = { [Symbol.asyncIterator]: () => stuck, next: () => new Promise<never>(() => undefined) };
    const payload = Object.assign(stuck, { destroy: () => void ended++ });
    let res: http.ServerResponse | undefined;
    const { rig, copies, reports } = await setUp(transport, () => payload);
    rig.server.prependListener('request', (_req: unknown, its: http.ServerResponse) => (res = its));
    const answer = ask(rig);
    await until('the handler', () => copies.held === 1);
    res?.flushHeaders();
    (await answer).leave();
    await until('the report', () => reports.length === 1);
    expect([reports[0]?.outcome, ended, copies.held]).toEqual(['client_gone', 1, 0]);
  });

  // Rule 1.
  it('whose source breaks is never taken for a whole', async () => {
    const broken = async function* (): AsyncGenerator<Buffer> {
      yield BIG.subarray(0, 1_000_000);
      throw new Error('the source broke');
    };
    const { rig, copies, reports } = await setUp(transport, broken);
    const answer = await ask(rig);
    expect(await answer.ended).toBe('broken');
    await until('the report', () => reports.length === 1);
    expect(reports).toMatchObject([{ outcome: 'error', error: new Error('the source broke') }]);
    expect(copies.stats().ended.error).toBe(1);
  });

  it('that is not what was announced is broken', async () => {
    const short = { bytes: 100, next: vi.fn<() => Buffer[] | undefined>().mockReturnValueOnce([Buffer.from('short')]) };
    const { rig, reports } = await setUp(transport, () => short);
    ask(rig).catch(() => undefined);
    await until('the report', () => reports.length === 1);
    expect(reports).toMatchObject([
      { outcome: 'error', error: { message: expect.stringContaining('100 bytes, got 5') } },
    ]);
  });

  it('without a body asks its source for nothing', async () => {
    const next = vi.fn<() => undefined>();
    const { rig, reports } = await setUp(transport, () => ({ bytes: 5, next }));
    const answer = await ask(rig, '/', { method: 'HEAD' });
    expect([answer.status, await answer.ended]).toEqual([200, 'whole']);
    await until('the report', () => reports.length === 1);
    expect([reports[0]?.outcome, next.mock.calls.length]).toEqual(['completed', 0]);
  });
});
