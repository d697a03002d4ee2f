import { describe, expect, it } from 'vitest';
import { FakeChannel, Turns } from '../../test/support/delivery-fakes.ts';
import { FakeClock } from '../kernel/index.ts';
import type { Transport } from './channel.ts';
import { Deliveries } from './deliveries.ts';

const KIB = 1024;

/** A delivery of a source that gives as much as is wanted, taken write by write; the sizes of its writes, in KiB. */
function writesOf(transport: Transport, takenAfterMs: readonly number[]): number[] {
  const clock = new FakeClock();
  const turns = new Turns();
  const deliveries = new Deliveries({ clock, nextTurn: turns.nextTurn, slackMs: 60_000 });
  const channel = new FakeChannel(transport);
  const source = { bytes: undefined, next: (bytesWanted = 64 * KIB) => [Buffer.alloc(bytesWanted)] };
  void deliveries.deliver({ channel, source });
  const sizes: number[] = [];
  for (const afterMs of takenAfterMs) {
    const before = channel.written;
    turns.settle();
    sizes.push((channel.written - before) / KIB);
    clock.advance(afterMs);
    channel.take();
  }
  deliveries.shutdown();
  return sizes;
}

describe('the size of writes', () => {
  // Fails when #resize keeps the size (all 64), or does not stop at the most (512 and more).
  it('doubles up to 256 KiB for a reader that takes them at once', () => {
    expect(writesOf('http1', [0, 0, 0, 0, 0])).toEqual([64, 128, 256, 256, 256]);
  });

  // Fails when #resize does not look at how long the write took: a slow reader would show progress four times less often.
  it('is small again after one that was not taken at once', () => {
    expect(writesOf('http1', [0, 0, 50, 0, 0])).toEqual([64, 128, 256, 64, 128]);
  });

  // Fails when #resize does not look at the transport: TLS keeps a copy of the largest write for as long as the connection.
  it.each(['https1', 'h2c', 'h2'] as const)('stays small over %s', (transport) => {
    expect(writesOf(transport, [0, 0, 0])).toEqual([64, 64, 64]);
  });
});
