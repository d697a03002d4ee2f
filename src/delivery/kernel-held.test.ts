import net, { type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FakeChannel } from '../../test/support/delivery-fakes.ts';
import { Deliveries } from './deliveries.ts';
import { kernelHeldBytes, tcpInfo } from './kernel-socket.ts';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A connection whose reader has stopped, with all in the kernels that they take. */
async function stuckSocket(): Promise<Socket> {
  const server = net.createServer();
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const reader = net.connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  const socket = await accepted;
  closing.push(
    () => server.close(),
    () => reader.destroy(),
    () => socket.destroy(),
  );
  for (const each of [reader, socket]) each.on('error', () => {});
  socket.write(Buffer.alloc(32 * 1024 * 1024));
  const isStuck = (): boolean => (kernelHeldBytes(socket) ?? 0) > 0 && tcpInfo(socket)?.unacked === 0;
  await vi.waitUntil(isStuck, { interval: 2, timeout: 8000 });
  return socket;
}

function deliverOn(deliveries: Deliveries, socket: Socket, count: number): void {
  for (let number = 0; number < count; number++) {
    const channel = Object.assign(new FakeChannel(), { socket });
    void deliveries.deliver({ channel, source: { bytes: 1, next: () => [Buffer.from('x')] } });
  }
  closing.push(() => deliveries.shutdown());
}

describe.runIf(process.platform === 'linux')('what the kernel holds for deliveries', { timeout: 20_000 }, () => {
  // Fails when sockets are not told apart: several deliveries of one HTTP/2 connection would count its bytes again.
  it('is the sum over their connections', async () => {
    const deliveries = new Deliveries();
    expect(deliveries.kernelHeldBytes()).toBe(0);
    const [one, other] = [await stuckSocket(), await stuckSocket()];
    deliverOn(deliveries, one, 3);
    expect(deliveries.kernelHeldBytes()).toBe(kernelHeldBytes(one));
    deliverOn(deliveries, other, 1);
    expect(deliveries.kernelHeldBytes()).toBe((kernelHeldBytes(one) ?? 0) + (kernelHeldBytes(other) ?? 0));
  });

  // Fails when the bound of 1,000 is removed.
  it('is asked of a thousand at most, and told in proportion', async () => {
    const deliveries = new Deliveries();
    const socket = await stuckSocket();
    deliverOn(deliveries, socket, 1500);
    expect(deliveries.kernelHeldBytes()).toBe(Math.round((kernelHeldBytes(socket) ?? 0) * 1.5));
  });

  it('is not asked for where that is switched off', async () => {
    const deliveries = new Deliveries({ askKernel: false });
    deliverOn(deliveries, await stuckSocket(), 1);
    expect(deliveries.kernelHeldBytes()).toBeUndefined();
  });
});
