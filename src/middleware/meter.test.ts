import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { Http2ServerResponse, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { BIG, BIG_BYTES } from '../../test/support/middleware.ts';
import { ask, connect, openRig, type Rig, TRANSPORTS } from '../../test/support/transports.ts';
import type { Transport } from '../delivery/index.ts';
import { Http1Meter, Http2Meter, type Meter } from './meter.ts';

const open: Rig[] = [];
// the machine may be busy with other work: a condition that holds is seen at once
vi.setConfig({ testTimeout: 30_000 });

afterEach(async () => {
  for (const rig of open.splice(0)) await rig.close();
});

type AnyResponse = ServerResponse | Http2ServerResponse;

/** A server whose responses are measured, and written by `handle`. */
async function serve(
  transport: Transport,
  handle: (res: AnyResponse) => void,
  meters: Meter[],
  isKnown = true,
): Promise<Rig> {
  const rig = await openRig(transport, () => undefined);
  open.push(rig);
  rig.server.on('request', (req: { socket: Socket }, res: AnyResponse) => {
    if ('stream' in res) meters.push(new Http2Meter(res.stream));
    else meters.push(new Http1Meter(res, req.socket, isKnown ? rig.rawSockets.ofSocket(req.socket) : undefined));
    handle(res);
  });
  return rig;
}

describe.each(TRANSPORTS)('over %s', (transport) => {
  // Fails, over HTTP/1.1, when the handle is not asked (nothing is taken before all is); over HTTP/2, when nothing is cut.
  // Where the server is not known, when the TCP handle is not looked for under TLS.
  it.each([true, false])(
    'a body in one write shows what is taken of it, bit by bit: server known %s',
    async (isKnown) => {
      const meters: Meter[] = [];
      const rig = await serve(transport, (res) => void res.end(BIG), meters, isKnown);
      const answer = await ask(rig, '/', { reads: false });
      const meter = meters[0] as Meter;
      await until('bytes given', () => meter.given() >= BIG_BYTES);
      await turns(20);
      expect(meter.waits()).toBe(true);
      expect(meter.taken()).toBeLessThan(BIG_BYTES);
      const seen = new Set<number>();
      answer.read();
      await until('all taken', () => {
        seen.add(meter.taken());
        return !meter.waits();
      });
      expect(await answer.ended).toBe('whole');
      expect([answer.bytes, meter.given() >= BIG_BYTES, meter.taken() >= BIG_BYTES]).toEqual([BIG_BYTES, true, true]);
      expect(seen.size).toBeGreaterThan(3);
    },
  );

  it('a response that is used after another on its connection begins at nothing', async () => {
    const meters: Meter[] = [];
    const rig = await serve(transport, (res) => void res.end('four'), meters);
    const over = connect(rig);
    for (let i = 0; i < 2; i++) expect(await (await ask(rig, '/', { over })).ended).toBe('whole');
    over.destroy();
    for (const meter of meters) expect(meter.taken()).toBeLessThan(1000);
  });
});

describe.each(['h2c', 'h2'] as const)('a measured stream over %s', (transport) => {
  /** Writes three megabytes as its stream has room, and notes all that it is told. */
  function script(log: string[]): (stream: ServerHttp2Stream, res: Http2ServerResponse) => void {
    return (_stream, res) => {
      let left = 3;
      const write = (): void => {
        while (left > 0) {
          left--;
          const taken = res.write(BIG.subarray(0, 1024 * 1024), () => log.push('written'));
          log.push(`write: ${taken}`);
          if (!taken) return;
        }
        res.end('end');
      };
      res.on('drain', () => {
        log.push('drain');
        write();
      });
      res.on('finish', () => log.push('finish'));
      write();
    };
  }

  // Fails when a piece's callback is passed on before the last piece was taken.
  it('answers, drains and finishes as one that is not measured', async () => {
    const logs: string[][] = [];
    for (const isMeasured of [true, false]) {
      const log: string[] = [];
      logs.push(log);
      const rig = await openRig(transport, () => undefined);
      open.push(rig);
      rig.server.on('request', (_req: unknown, res: Http2ServerResponse) => {
        if (isMeasured) new Http2Meter(res.stream);
        script(log)(res.stream, res);
      });
      const answer = await ask(rig);
      expect([await answer.ended, answer.bytes]).toEqual(['whole', 3 * 1024 * 1024 + 3]);
      await until('its end', () => log.includes('finish'));
    }
    expect(logs[0]).toEqual(logs[1]);
    expect(logs[0]).toContain('drain');
  });

  // Fails when large writes of a stream without trailers are cut: Node ends it along with the first piece.
  it('is whole when it is written without the compatibility API', async () => {
    const rig = await openRig(transport, () => undefined);
    open.push(rig);
    rig.server.on('request', (_req: unknown, res: Http2ServerResponse) => {
      new Http2Meter(res.stream);
      res.stream.respond({ ':status': 200 });
      res.stream.end(BIG);
    });
    const answer = await ask(rig);
    expect([await answer.ended, answer.bytes]).toEqual(['whole', BIG_BYTES]);
  });

  // Fails when a file's bytes are not looked for: nothing was given then, and its handler would be overdue.
  it('of a file shows what is taken of it, and that something waits', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-file-'));
    const path = join(folder, 'big');
    writeFileSync(path, BIG);
    const meters: Meter[] = [];
    const handle = (res: AnyResponse): void => (res as Http2ServerResponse).stream.respondWithFile(path);
    const rig = await serve(transport, handle, meters);
    const answer = await ask(rig, '/', { reads: false });
    const meter = meters[0] as Meter;
    await until('something taken', () => meter.taken() > 0);
    await turns(50);
    expect([meter.waits(), meter.taken() < BIG_BYTES]).toEqual([true, true]);
    answer.read();
    expect([await answer.ended, answer.bytes]).toEqual(['whole', BIG_BYTES]);
    await until('nothing waits', () => !meter.waits());
    rmSync(folder, { recursive: true });
  });

  it('takes text, and what was gathered while it was corked', async () => {
    const rig = await openRig(transport, () => undefined);
    open.push(rig);
    const meters: Meter[] = [];
    rig.server.on('request', (_req: unknown, res: Http2ServerResponse) => {
      meters.push(new Http2Meter(res.stream));
      res.stream.cork();
      res.write('é'.repeat(200_000));
      res.write(Buffer.from('end'));
      res.end();
      res.stream.uncork();
    });
    const answer = await ask(rig);
    expect([await answer.ended, answer.bytes, meters[0]?.taken(), meters[0]?.given()]).toEqual([
      'whole',
      400_003,
      400_003,
      400_003,
    ]);
  });
});
