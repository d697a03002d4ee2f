/**
 * Loaded into the server that is measured (`node --import loop-probe.js`): watches its event loop, and answers, over the
 * channel to its parent, how long it was blocked. A timer of one millisecond tells how late it is; what the kernel knows of
 * the main thread (`schedstat`) tells how much of that it ran itself, and how much it waited for a processor.
 */
import { openSync, readSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** What it answers. Milliseconds, since the last answer. */
export interface LoopBlocks {
  /** The longest time between two turns. */
  readonly longestMs: number;
  /** The most that the main thread ran between two turns. */
  readonly ownMs: number;
  /** The most that it waited for a processor between two turns. */
  readonly waitedMs: number;
  /** Turns in which it ran for more than 20 ms. */
  readonly ownOver20: number;
  /** What the main thread ran altogether. */
  readonly cpuMs: number;
}

const TICK_MS = 1;
const LONG_MS = 20;

if (isMainThread && process.send !== undefined) watch();

function watch(): void {
  const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
  const bytes = Buffer.alloc(64);
  const read = (): [ran: number, waited: number] => {
    const length = readSync(file, bytes, 0, bytes.length, 0);
    const [ran = 0, waited = 0] = bytes.toString('latin1', 0, length).split(' ').map(Number);
    return [ran / 1e6, waited / 1e6];
  };
  let [ran, waited] = read();
  let turnMs = performance.now();
  let blocks = { longestMs: 0, ownMs: 0, waitedMs: 0, ownOver20: 0 };
  let cpuFrom = ran;
  const turn = (): void => {
    const nowMs = performance.now();
    const [ranNow, waitedNow] = read();
    const own = ranNow - ran;
    blocks.longestMs = Math.max(blocks.longestMs, nowMs - turnMs);
    blocks.ownMs = Math.max(blocks.ownMs, own);
    blocks.waitedMs = Math.max(blocks.waitedMs, waitedNow - waited);
    if (own > LONG_MS) blocks.ownOver20++;
    [ran, waited, turnMs] = [ranNow, waitedNow, nowMs];
  };
  // a timer and not an immediate: the loop has to be idle where there is nothing to do
  setInterval(turn, TICK_MS).unref();
  process.on('message', (message) => {
    if (message !== 'loop') return;
    turn();
    process.send?.({ ...blocks, cpuMs: ran - cpuFrom } satisfies LoopBlocks);
    blocks = { longestMs: 0, ownMs: 0, waitedMs: 0, ownOver20: 0 };
    cpuFrom = ran;
  });
  process.channel?.unref();
}
