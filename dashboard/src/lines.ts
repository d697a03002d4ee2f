import type { Bucket, Timeline } from './contract.ts';
import { bytes, bytesPerSecond, count, milliseconds, rate } from './format.ts';

/** One line of a plot. */
interface Line {
  readonly name: string;
  readonly key: Exclude<keyof Bucket, 'atMs'>;
  /** The variable of the style sheet that has its colour. */
  readonly colour: string;
  /** Told apart by more than colour. */
  readonly dash?: readonly number[];
  /** Counted within a step, and shown per second. */
  readonly perSecond?: true;
  /** Measured on the axis at the right. */
  readonly right?: true;
  readonly format: (value: number) => string;
}

/** One plot: at most two axes, each with one unit. */
export interface Chart {
  readonly id: string;
  readonly title: string;
  readonly unit: string;
  readonly unitRight?: string;
  readonly lines: readonly Line[];
}

/** The plots of the timeline, in the order in which they stand. */
export const CHARTS: readonly Chart[] = [
  {
    id: 'slots',
    title: 'Slots and queue',
    unit: 'requests',
    lines: [
      { name: 'held', key: 'held', colour: '--line-1', format: count },
      { name: 'waiting', key: 'waiting', colour: '--line-2', format: count },
      { name: 'parked', key: 'parked', colour: '--line-3', dash: [6, 3], format: count },
    ],
  },
  {
    id: 'ends',
    title: 'Ended per second',
    unit: 'per second',
    lines: [
      { name: 'completed', key: 'completed', colour: '--line-4', perSecond: true, format: rate },
      { name: 'left', key: 'gone', colour: '--line-6', dash: [2, 3], perSecond: true, format: rate },
      { name: 'cut', key: 'cut', colour: '--line-2', dash: [6, 3], perSecond: true, format: rate },
      { name: 'refused', key: 'refused', colour: '--line-5', perSecond: true, format: rate },
    ],
  },
  {
    id: 'streams',
    title: 'Open streams and bytes sent',
    unit: 'streams',
    unitRight: 'bytes per second',
    lines: [
      { name: 'streams', key: 'streams', colour: '--line-1', format: count },
      {
        name: 'sent',
        key: 'bytes',
        colour: '--line-4',
        dash: [6, 3],
        perSecond: true,
        right: true,
        format: bytesPerSecond,
      },
    ],
  },
  {
    id: 'process',
    title: 'Event loop and memory',
    unit: 'ms',
    unitRight: 'bytes',
    lines: [
      { name: 'longest delay', key: 'loopMaxMs', colour: '--line-2', format: milliseconds },
      { name: 'resident', key: 'rssBytes', colour: '--line-3', dash: [6, 3], right: true, format: bytes },
    ],
  },
];

/** An hour in steps of 2 s. */
const BUCKETS_MAX = 1800;
const KEYS = [
  'atMs',
  'held',
  'waiting',
  'parked',
  'admitted',
  'completed',
  'cut',
  'gone',
  'refused',
  'bytes',
  'streams',
  'loopMaxMs',
  'rssBytes',
] as const satisfies readonly (keyof Bucket)[];

/** The last hour, as it grows. */
export class Hour {
  #everyMs = 2000;
  #buckets: Bucket[] = [];

  /** Replaces everything: a stream begins with it. */
  reset(timeline: Timeline): void {
    this.#everyMs = timeline.everyMs;
    this.#buckets = timeline.atMs
      .map((_, at) => Object.fromEntries(KEYS.map((key) => [key, timeline[key][at] ?? 0])) as unknown as Bucket)
      .slice(-BUCKETS_MAX);
  }

  /** The next one. What is not before it gives way: it was told twice, or the server's clock was set back. */
  add(bucket: Bucket): void {
    while ((this.#buckets.at(-1)?.atMs ?? 0) >= bucket.atMs) this.#buckets.pop();
    this.#buckets.push(bucket);
    if (this.#buckets.length > BUCKETS_MAX) this.#buckets.shift();
  }

  /** How long a step is. */
  get everyMs(): number {
    return this.#everyMs;
  }

  get length(): number {
    return this.#buckets.length;
  }

  /** How much of a counter fell into the last `ms`. */
  sum(key: keyof Bucket, ms: number): number {
    const fromMs = (this.#buckets.at(-1)?.atMs ?? 0) - ms;
    return this.#buckets.reduce((sum, bucket) => (bucket.atMs > fromMs ? sum + bucket[key] : sum), 0);
  }

  /** The columns of a chart over the last `ms`: the times in seconds first, then its lines. */
  columns({ lines }: Chart, ms: number): number[][] {
    const fromMs = (this.#buckets.at(-1)?.atMs ?? 0) - ms;
    const shown = this.#buckets.filter(({ atMs }) => atMs >= fromMs);
    const seconds = shown.map(({ atMs }, at) => (atMs - (shown[at - 1]?.atMs ?? atMs - this.#everyMs)) / 1000);
    const valueOf = ({ key, perSecond: isRate }: Line, bucket: Bucket, at: number): number =>
      isRate === true ? bucket[key] / (seconds[at] ?? 1) : bucket[key];
    return [
      shown.map(({ atMs }) => atMs / 1000),
      ...lines.map((line) => shown.map((bucket, at) => valueOf(line, bucket, at))),
    ];
  }

  /** What a line says at a place of its columns; at the last one where none is given. */
  static read(columns: readonly (readonly number[])[], line: number, at: number | undefined): number | undefined {
    const column = columns[line + 1];
    return at === undefined ? column?.at(-1) : column?.[at];
  }
}
