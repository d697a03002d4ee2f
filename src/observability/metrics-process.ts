import { performance } from 'node:perf_hooks';
import type { Clock, Timer } from '../kernel/index.ts';
import { PROCESS } from './catalog.ts';
import { type Collected, observed } from './instruments.ts';
import { LoopWatch } from './loop-watch.ts';

/** What is told of the delay covers so much time: long enough to hold what happens rarely, short enough to pass. */
const WINDOW_MS = 10_000;
const QUANTILES = [
  ['0.5', 50],
  ['0.99', 99],
] as const;

const LONGEST = '1';

type Delays = readonly (readonly [values: readonly string[], seconds: number])[];

/** How late the event loop was, in milliseconds. */
export interface LoopDelay {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** The process itself: memory, CPU time, and how late its event loop is. */
export class ProcessMetrics {
  readonly #clock: Clock;
  readonly #version: string;
  readonly #loop: LoopWatch;
  #last: Delays | undefined;
  #timer: Timer | undefined;

  constructor(clock: Clock, version: string) {
    this.#clock = clock;
    this.#version = version;
    this.#loop = new LoopWatch(clock);
    this.#turnLater();
  }

  *collect(): Generator<Collected> {
    const memory = process.memoryUsage();
    const cpu = process.cpuUsage();
    yield observed(PROCESS.info, [[[this.#version, process.version], 1]]);
    yield observed(PROCESS.loopDelay, this.#delays());
    yield observed(PROCESS.loopActive, performance.eventLoopUtilization().active / 1000);
    yield observed(PROCESS.memory, [
      [['heap_used'], memory.heapUsed],
      [['heap_total'], memory.heapTotal],
      [['external'], memory.external],
      [['array_buffers'], memory.arrayBuffers],
    ]);
    yield observed(PROCESS.cpu, (cpu.user + cpu.system) / 1e6);
    yield observed(PROCESS.resident, memory.rss);
    yield observed(PROCESS.started, performance.timeOrigin / 1000);
  }

  /** How late the event loop was, as the metrics tell it, in milliseconds. */
  loopDelay(): LoopDelay {
    const [p50Ms = 0, p99Ms = 0, maxMs = 0] = this.#delays().map(([, seconds]) => seconds * 1000);
    return { p50Ms, p99Ms, maxMs };
  }

  close(): void {
    this.#timer?.cancel();
    this.#loop.close();
  }

  /** Of the last whole window. The longest is that of the one under way as well, so that a look every 10 s misses none. */
  #delays(): Delays {
    const now = delaysOf(this.#loop);
    return (
      this.#last?.map(([values, seconds], at) => [
        values,
        values[0] === LONGEST ? Math.max(seconds, now[at]?.[1] ?? 0) : seconds,
      ]) ?? now
    );
  }

  /** Nobody's reading begins a new window: several may read. */
  #turnLater(): void {
    const dueMs = this.#clock.now() + WINDOW_MS;
    this.#timer = this.#clock.after(WINDOW_MS, () => {
      this.#loop.saw(this.#clock.now() - dueMs);
      this.#last = delaysOf(this.#loop);
      this.#loop.reset();
      this.#turnLater();
    });
  }
}

function delaysOf(loop: LoopWatch): Delays {
  return [
    ...QUANTILES.map(([name, percentile]) => [[name], loop.percentileMs(percentile) / 1000] as const),
    [[LONGEST], loop.maxMs / 1000],
  ];
}
