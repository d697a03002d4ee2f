import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import {
  KERNELS,
  openReceiptsRig,
  outcomeOf,
  RawClient,
  type ReceiptsRig,
  settled,
  UNREAD_BYTES,
  untilConnections,
} from '../../test/support/receipts-rig.ts';
import type { Rig } from '../../test/support/transports.ts';
import { FakeClock } from '../kernel/index.ts';
import { Receipt, Receipts, type ReceiptsOptions } from './receipts.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 30_000 });

const rigs: Rig[] = [];
const clients: RawClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.leave();
  await Promise.all(rigs.splice(0).map((rig) => rig.close()));
});

const withKernel = KERNELS.includes(true);

describe.each(['http1', 'https1'] as const)('over %s', (transport) => {
  async function setUp(kernel: boolean, options?: ReceiptsOptions): Promise<ReceiptsRig> {
    const made = await openReceiptsRig(transport, kernel, options);
    rigs.push(made.rig);
    return made;
  }

  async function dial(rig: Rig, reads?: boolean): Promise<RawClient> {
    const client = await RawClient.dial(rig, reads);
    clients.push(client);
    return client;
  }

  describe.each(KERNELS)('(the kernel can be asked: %s)', (kernel) => {
    // Fails when the constructor of the exchange does not call requested(), or only after the request is handled.
    it('the next request proves receipt of the one before it, before it is handled', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig);
      await client.hear('/1');
      await settled();
      expect([set.told, set.receipts.pending]).toEqual([[], 1]);
      await client.hear('/2');
      expect(set.toldBefore['/2']).toEqual(['/1 true']);
      client.socket.end();
      expect(await outcomeOf(set, 2)).toEqual(['/1 true', '/2 true']);
    });

    // Fails when 'end' is not listened to.
    it('a FIN after the last byte proves receipt', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig);
      await client.hear('/1');
      client.socket.end();
      expect(await outcomeOf(set, 1)).toEqual(['/1 true']);
      await until('the connection to close', () => client.closed);
    });

    // Fails when 'close' tells true, or nothing.
    it('a reset proves nothing, whatever was read before', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig);
      await client.hear('/1');
      client.raw.resetAndDestroy();
      expect(await outcomeOf(set, 1)).toEqual(['/1 false']);
    });

    it.each(['leaves', 'is killed'])('a response whose client %s in the middle was not received', async (how) => {
      const set = await setUp(kernel);
      const client = await dial(set.rig);
      client.ask('/open');
      await until('the head', () => client.bytes > 0);
      set.channels[0]?.write([Buffer.alloc(1000)], () => {});
      if (how === 'leaves') client.leave();
      else set.channels[0]?.kill();
      expect(await outcomeOf(set, 1)).toEqual(['/open false']);
    });

    it('what is in our kernel and nobody reads was not received, until it is read', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig, false);
      client.ask('/large');
      await until('the end of the response on our side', () => set.receipts.pending === 1);
      for (let i = 0; i < 20; i++) {
        set.clock.advance(1000);
        await settled();
      }
      expect([set.told, set.receipts.pending]).toEqual([[], 1]);
      client.socket.resume();
      await until('all of it', () => client.bytes > UNREAD_BYTES);
      client.socket.end();
      expect(await outcomeOf(set, 1)).toEqual(['/large true']);
    });

    it('what is in our kernel when the client resets the connection was not received', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig, false);
      client.ask('/large');
      await until('the end of the response on our side', () => set.receipts.pending === 1);
      client.raw.resetAndDestroy();
      expect(await outcomeOf(set, 1)).toEqual(['/large false']);
    });

    // Fails when destroySoon() is not replaced: the socket is gone before the client's FIN comes.
    it.each([
      ['that the client wants closed', { close: true }],
      ['of HTTP/1.0', { version: '1.0' }],
    ])('a connection %s is closed on our side only, and kept for the FIN', async (_, how) => {
      const set = await setUp(kernel, kernel ? { acknowledged: () => 0 } : {});
      const client = await dial(set.rig);
      await client.hear('/1', how);
      await until('our FIN', () => client.ended);
      await settled();
      expect([set.told, set.receipts.lingering]).toEqual([[], 1]);
      client.socket.end();
      // a kernel that has acknowledged nothing outweighs the FIN
      expect(await outcomeOf(set, 1)).toEqual([`/1 ${!kernel}`]);
      await until('the connection to close', () => client.closed);
    });

    it('a connection that is kept ends with its client’s reset, and that proves nothing', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig, false);
      client.ask('/large', { close: true });
      await until('the connection to be kept', () => set.receipts.lingering === 1);
      client.raw.resetAndDestroy();
      expect(await outcomeOf(set, 1)).toEqual(['/large false']);
    });

    // Fails when #sweep() does not look at those that are kept.
    it('a connection is kept for five seconds at most', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig, false);
      client.ask('/large', { close: true });
      await until('the connection to be kept', () => set.receipts.lingering === 1);
      set.clock.advance(4999);
      await settled();
      expect([set.told, set.receipts.pending, set.receipts.lingering]).toEqual([[], 1, 1]);
      set.clock.advance(101);
      expect(await outcomeOf(set, 1)).toEqual(['/large false']);
    });

    // Fails without the comparison with #lingeringMax.
    it('only so many are kept: those beyond are closed as ever', async () => {
      const set = await setUp(kernel, { lingeringMax: 1 });
      const [kept, beyond] = [await dial(set.rig, false), await dial(set.rig, false)];
      kept.ask('/large-1', { close: true });
      await until('the connection to be kept', () => set.receipts.lingering === 1);
      beyond.ask('/large-2', { close: true });
      await until('a receipt', () => set.told.length === 1);
      expect([set.told, set.receipts.lingering]).toEqual([['/large-2 false'], 1]);
      kept.leave();
      expect(await outcomeOf(set, 2)).toEqual(['/large-2 false', '/large-1 false']);
    });

    // Fails when destroySoon() is replaced for everybody.
    it('none is kept for an exchange that nobody listens to', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig);
      await client.hear('/unheard', { close: true });
      await until('our FIN', () => client.ended);
      await settled();
      expect(set.exchanges[0]?.closed).toBe(true);
      await untilConnections(set.rig.server, 0);
      expect(await outcomeOf(set, 0)).toEqual([]);
    });

    it('close() ends those that are kept, and none is kept from then on', async () => {
      const set = await setUp(kernel);
      const [before, after] = [await dial(set.rig, false), await dial(set.rig, false)];
      before.ask('/large-1', { close: true });
      await until('the connection to be kept', () => set.receipts.lingering === 1);
      set.receipts.close();
      expect(await outcomeOf(set, 1)).toEqual(['/large-1 false']);
      after.ask('/large-2', { close: true });
      expect(await outcomeOf(set, 2)).toEqual(['/large-1 false', '/large-2 false']);
    });

    // As when the server stops while the client's next request is on its way. Fails when requested() lets it through: the
    // client would wait for an answer that cannot be sent.
    it('a request on a connection that is kept ends the connection, and proves nothing by itself', async () => {
      const set = await setUp(kernel, kernel ? { acknowledged: () => 0 } : {});
      const client = await dial(set.rig);
      await client.hear('/last');
      await settled();
      expect(set.receipts.lingering).toBe(1);
      client.ask('/2');
      expect(await outcomeOf(set, 2)).toEqual(['/last false', '/2 false']);
      await untilConnections(set.rig.server, 0);
    });

    it('who asks after the response is over is told that nothing is known', async () => {
      const set = await setUp(kernel);
      const client = await dial(set.rig);
      await client.hear('/unheard');
      await settled();
      const late: boolean[] = [];
      set.exchanges[0]?.onReceived((received) => void late.push(received));
      expect(late).toEqual([false]);
      expect(await outcomeOf(set, 0)).toEqual([]);
    });
  });

  describe.runIf(withKernel)('when the kernel can be asked', () => {
    // Fails when a sweep does not look, or is not armed.
    it('what it says was acknowledged was received: nobody has to come back for it', async () => {
      // acknowledgements take up to 40 ms, and the clock of this test runs faster than that
      const set = await setUp(true, { lingerMsMax: 1e9 });
      const client = await dial(set.rig);
      await client.hear('/1');
      await set.sweepUntilTold(1);
      await client.hear('/2', { close: true });
      await set.sweepUntilTold(2);
      await until('the connection to close', () => client.ended);
      expect(await outcomeOf(set, 2)).toEqual(['/1 true', '/2 true']);
    });

    // Fails when #linger() does not look: every such connection would be kept for a sweep.
    it('a connection whose response it has acknowledged already is not kept', async () => {
      const set = await setUp(true, { acknowledged: (raw) => raw.bytesWritten });
      const client = await dial(set.rig);
      await client.hear('/1', { close: true });
      await until('our FIN', () => client.ended);
      expect(await outcomeOf(set, 1)).toEqual(['/1 true']);
      await untilConnections(set.rig.server, 0);
    });

    // Fails when a request counts by itself: this client sends its next one without having read the one before.
    it.each(['a request', 'a FIN'])('%s proves nothing that it did not acknowledge', async (what) => {
      const set = await setUp(true);
      const client = await dial(set.rig, false);
      client.ask('/large');
      await until('the end of the response on our side', () => set.receipts.pending === 1);
      if (what === 'a request') client.ask('/2');
      else client.socket.end();
      if (what === 'a request') await until('the next request', () => set.toldBefore['/2'] !== undefined);
      else await until('the FIN', () => set.told.length === 1);
      expect(set.told).toEqual(what === 'a request' ? [] : ['/large false']);
    });

    // Fails when waitsForUs is never set: each small reply would cost a tenth more.
    it('is asked about the first request of a client that waits for its responses, and not about every one', async () => {
      let asked = 0;
      const set = await setUp(true, { acknowledged: (raw) => (asked++, raw.bytesWritten) });
      const client = await dial(set.rig);
      for (let i = 0; i < 10; i++) await client.hear(`/${i}`);
      expect(set.told).toHaveLength(9);
      // once to see whether it can be asked at all
      expect(asked).toBe(2);
    });

    // Fails when a client counts as one that waits because nothing was waited for when it came.
    it('is asked about the first request that comes while a receipt is waited for, however many came before', async () => {
      let isHeld = false;
      const set = await setUp(true, { acknowledged: (raw) => (isHeld ? 0 : raw.bytesWritten) });
      const client = await dial(set.rig);
      await client.hear('/1');
      await set.sweepUntilTold(1);
      isHeld = true;
      await client.hear('/2');
      await client.hear('/3');
      expect([set.told, set.toldBefore['/3']]).toEqual([['/1 true'], ['/1 true']]);
    });

    // Fails when the mark is that of the socket above TLS, which counts fewer bytes, or is taken before the end.
    it('must have acknowledged the very last byte', async () => {
      let missing = 1;
      const written: number[] = [];
      const set = await setUp(true, {
        acknowledged: (raw) => {
          written.push(raw.bytesWritten);
          return raw.bytesWritten - missing;
        },
      });
      const client = await dial(set.rig);
      await client.hear('/1');
      await settled();
      set.clock.advance(100);
      expect(set.told).toEqual([]);
      missing = 0;
      set.clock.advance(100);
      expect(set.told).toEqual(['/1 true']);
      expect(written.at(-1)).toBe(client.raw.bytesRead);
    });

    it('a client that acknowledges nothing costs a bounded memory: the oldest are given up', async () => {
      const set = await setUp(true, { acknowledged: () => 0 });
      const client = await dial(set.rig);
      for (let i = 0; i <= 1024; i++) await client.hear(`/${i}`);
      expect([set.told, set.receipts.pending]).toEqual([['/0 false'], 1024]);
    });
  });

  describe('when it cannot', () => {
    // Fails without isPipelining: the second request is taken for a proof that the first response was read.
    it('a request that came before the response to the one before proves nothing, nor does any after it', async () => {
      const set = await setUp(false);
      const client = await dial(set.rig);
      client.ask('/open');
      await until('the head', () => client.bytes > 0);
      client.ask('/2');
      await until('the second request', () => set.toldBefore['/2'] !== undefined);
      set.channels[0]?.end();
      await until('the second response', () => client.text.endsWith('hello'));
      await client.hear('/3');
      expect([set.told, set.receipts.pending]).toEqual([[], 3]);
      client.socket.end();
      expect(await outcomeOf(set, 3)).toEqual(['/open true', '/2 true', '/3 true']);
    });
  });
});

/** As much of a socket as is looked at. */
function fakeSocket(): Socket {
  return Object.assign(new EventEmitter(), { bytesWritten: 1, destroySoon: () => {} }) as unknown as Socket;
}

describe('a sweep', () => {
  // Fails without LOOKS_MAX, or when a sweep begins with those of the one before.
  it('looks at a thousand connections, the next one at others', () => {
    const clock = new FakeClock();
    const looks = new Map<Socket, number>();
    const receipts = new Receipts({
      clock,
      acknowledged: (raw) => {
        looks.set(raw, (looks.get(raw) ?? -1) + 1);
        return 0;
      },
    });
    for (let i = 0; i < 1500; i++) {
      const socket = fakeSocket();
      receipts.sentOverHttp1(new Receipt(), socket, socket);
    }
    const counts = (): readonly number[] =>
      [0, 1, 2].map((count) => [...looks.values()].filter((one) => one === count).length);
    expect(counts()).toEqual([1500, 0, 0]);
    clock.advance(100);
    expect(counts()).toEqual([500, 1000, 0]);
    clock.advance(100);
    expect(counts()).toEqual([0, 1000, 500]);
    expect(receipts.pending).toBe(1500);
  });
});
