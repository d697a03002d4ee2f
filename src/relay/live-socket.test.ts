import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import type { Bucket, State, Timeline } from '../observability/index.ts';
import { type Admin, openAdmin } from '../server/index.ts';
import { Live } from './live.ts';

/** So large that a few of them fill what both kernels hold, which nobody else but the kernels can make small. */
const STATE_BYTES = 1 << 20;
/** Many times as much as that. */
const TICKS_MAX = 100;
const WAIT_MS = 10_000;

const closing: (() => unknown)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).toReversed()) close();
});

interface Rig {
  readonly clock: FakeClock;
  readonly live: Live;
  readonly admin: Admin;
  /** States that were read: each is sent to all who can take it. */
  reads: number;
}

async function setUp(): Promise<Rig> {
  const filler = 'x'.repeat(STATE_BYTES);
  const clock = new FakeClock();
  const live = new Live({
    clock,
    state: () => ({ atMs: ++rig.reads, filler }) as unknown as State,
    timeline: () => ({ everyMs: 2000, atMs: [rig.reads] }) as unknown as Timeline,
    onFailure: (error) => expect.unreachable(String(error)),
  });
  const onFailure = (error: unknown): void => expect.unreachable(String(error));
  const admin = await openAdmin({ host: '127.0.0.1', port: 0, onFailure }, live.routes);
  const rig: Rig = { clock, live, admin, reads: 0 };
  closing.push(() => (live.close(), clock.advance(1000), admin.close()));
  return rig;
}

interface Viewer {
  readonly socket: Socket;
  readonly events: readonly EventSourceMessage[];
  readonly closed: Promise<void>;
}

/** One who watches, on a socket of its own. */
async function watch({ admin }: Rig): Promise<Viewer> {
  const socket = connect({ port: admin.port, host: '127.0.0.1' });
  closing.push(() => socket.destroy());
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  // HTTP/1.0 has no chunks: what comes is the body
  socket.write('GET /api/live HTTP/1.0\r\nHost: localhost\r\n\r\n');
  socket.on('data', (bytes) => parser.feed(bytes.toString()));
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await vi.waitFor(() => expect(events.length).toBeGreaterThan(1), WAIT_MS);
  return { socket, events, closed };
}

/** Lets seconds pass until no state is read any more: whoever watches takes nothing, and its kernel neither. */
async function fill(rig: Rig): Promise<void> {
  for (let tick = 0; tick < TICKS_MAX; tick++) {
    const before = rig.reads;
    rig.clock.advance(1000);
    if (rig.reads === before) return;
    await turn();
  }
  expect.unreachable(`a viewer that takes nothing was sent ${TICKS_MAX * STATE_BYTES} bytes`);
}

function states(events: readonly EventSourceMessage[]): number[] {
  return events.filter(({ event }) => event === 'state').map(({ data }) => (JSON.parse(data) as State).atMs);
}

describe('whoever watches and takes nothing', { timeout: 4 * WAIT_MS }, () => {
  // Fails when a viewer that holds bytes back is sent to all the same: it then gets a state for each second.
  it('is told what is so when it reads again, and nothing of the time between', async () => {
    const rig = await setUp();
    const viewer = await watch(rig);
    viewer.socket.pause();
    await fill(rig);
    const filled = rig.reads;
    for (let second = 0; second < 30; second++) {
      rig.clock.advance(1000);
      rig.live.bucket({ atMs: second } as Bucket);
      await turn();
    }
    expect([rig.reads, rig.live.viewers]).toEqual([filled, 1]);
    viewer.socket.resume();
    await vi.waitFor(() => expect(states(viewer.events)).toHaveLength(filled), WAIT_MS);
    // its socket is empty on our side too, a moment later
    await vi.waitFor(() => {
      rig.clock.advance(1000);
      expect(rig.reads).toBeGreaterThan(filled);
    }, WAIT_MS);
    await vi.waitFor(() => expect(states(viewer.events)).toContain(filled + 1), WAIT_MS);
    const names = viewer.events.map(({ event }) => event);
    expect(names.slice(0, filled + 3)).toEqual([
      'timeline',
      ...Array.from({ length: filled }, () => 'state'),
      'timeline',
      'state',
    ]);
    expect(names).not.toContain('bucket');
  });

  // Fails when it is not cut after a minute; the other one shows that it holds nobody up.
  it('holds nobody up, and loses its place after a minute', async () => {
    const rig = await setUp();
    const stalled = await watch(rig);
    stalled.socket.pause();
    await fill(rig);
    const reading = await watch(rig);
    // one second went by when nothing was read
    for (let second = 1; second < 59; second++) {
      rig.clock.advance(1000);
      const { reads } = rig;
      await vi.waitFor(() => expect(states(reading.events)).toContain(reads), { timeout: WAIT_MS, interval: 1 });
    }
    expect(states(reading.events).length).toBeGreaterThan(10);
    expect(rig.live.viewers).toBe(2);
    rig.clock.advance(2000);
    // only who reads sees the reset
    stalled.socket.resume();
    await stalled.closed;
    await vi.waitFor(() => expect(rig.live.viewers).toBe(1), WAIT_MS);
    expect(reading.socket.destroyed).toBe(false);
  });
});
