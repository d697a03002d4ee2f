import { type Config, type DataSize, explainFit, fitOf } from '../config/index.ts';
import type { Clock, Timer } from '../kernel/index.ts';
import type { Log } from '../observability/index.ts';

/** Data grow slowly beside what a look costs. */
const LOOK_MS = 60_000;

/** What is looked at, and who is told. */
export interface SizingParts {
  readonly config: Pick<Config, 'limits' | 'machine'>;
  readonly clock: Clock;
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** How large the data are now; undefined while there are none. */
  readonly size: () => DataSize | undefined;
}

/**
 * Holds the data against the memory limit: tells the sum once there are data, and again when it no longer fits, or fits
 * again.
 */
export class Sizing {
  readonly #parts: SizingParts;
  #fits: boolean | undefined;
  #timer: Timer | undefined;

  constructor(parts: SizingParts) {
    this.#parts = parts;
  }

  /** Looks now, and each minute from here on. */
  start(): void {
    this.#look();
    this.#timer = this.#parts.clock.after(LOOK_MS, () => this.start());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #look(): void {
    const { config, log, size } = this.#parts;
    const data = size();
    if (data === undefined || data.bytes === 0) return;
    const { limits, machine } = config;
    const { fits, totalBytes } = fitOf(limits, machine, data);
    if (fits === this.#fits) return;
    this.#fits = fits;
    const { bytes, environments, decisions } = data;
    const fields = { bytes, environments, decisions, totalBytes, memoryLimitBytes: machine.memoryLimitBytes };
    const text = explainFit(limits, machine, data);
    if (fits) log.info(fields, text);
    else log.warn(fields, text);
  }
}

/** The sum of what the services hold. */
export function sumOf(sizes: readonly (DataSize | undefined)[]): DataSize | undefined {
  const known = sizes.filter((size) => size !== undefined);
  if (known.length === 0) return undefined;
  const sum = (of: (size: DataSize) => number): number => known.reduce((total, size) => total + of(size), 0);
  return {
    environments: sum(({ environments }) => environments),
    decisions: sum(({ decisions }) => decisions),
    bytes: sum(({ bytes }) => bytes),
    largestBytes: Math.max(...known.map(({ largestBytes }) => largestBytes)),
  };
}
