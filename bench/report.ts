import { cpus, loadavg, release, totalmem } from 'node:os';
import type { Measured } from './processes.ts';

/** What a figure is compared with. */
export interface Target {
  readonly text: string;
  met(value: number): boolean;
}

export const below = (limit: number, unit: string): Target => ({
  text: `< ${limit} ${unit}`,
  met: (value) => value < limit,
});
export const atMost = (limit: number, unit: string): Target => ({
  text: `<= ${limit} ${unit}`,
  met: (value) => value <= limit,
});
export const atLeast = (limit: number, unit: string): Target => ({
  text: `>= ${limit} ${unit}`,
  met: (value) => value >= limit,
});
export const exactly = (wanted: number): Target => ({ text: `${wanted}`, met: (value) => value === wanted });

interface Figure {
  readonly name: string;
  readonly target: Target | undefined;
  readonly values: number[];
}

/** A run in which the rest of the machine burned more than this share of it is called contaminated. */
const CONTAMINATED_SHARE = 0.1;

/** The figures of one scenario, over its repeats. */
export class Table {
  readonly title: string;
  readonly #figures = new Map<string, Figure>();
  readonly #otherShares: number[] = [];

  constructor(title: string) {
    this.title = title;
  }

  add(name: string, value: number, target?: Target): void {
    const figure = this.#figures.get(name) ?? { name, target, values: [] };
    figure.values.push(value);
    this.#figures.set(name, figure);
  }

  /** Notes how much of the machine others used in a run. */
  ran({ otherCpuSeconds, seconds }: Pick<Measured, 'otherCpuSeconds' | 'seconds'>): void {
    this.#otherShares.push(otherCpuSeconds / Math.max(seconds, 0.001) / cpus().length);
  }

  /** How many figures miss their target in the median. */
  get missed(): number {
    return [...this.#figures.values()].filter(({ target, values }) => target?.met(medianOf(values)) === false).length;
  }

  print(): void {
    console.log(`\n## ${this.title}\n`);
    console.log('| figure | median (least to most) | target | |\n|---|---|---|---|');
    for (const { name, target, values } of this.#figures.values()) {
      const verdict = target === undefined ? '' : target.met(medianOf(values)) ? 'met' : 'MISSED';
      console.log(`| ${name} | ${spreadText(values)} | ${target?.text ?? ''} | ${verdict} |`);
    }
    const contaminated = this.#otherShares.filter((share) => share > CONTAMINATED_SHARE).length;
    const shares = this.#otherShares.map((share) => share * 100);
    if (shares.length === 0) return;
    console.log(
      `\nOthers used ${spreadText(shares)} % of the machine; ${contaminated} of ${shares.length} runs contaminated.`,
    );
  }

  /** For the file of results. */
  toJSON(): object {
    const figures = [...this.#figures.values()].map(({ name, target, values }) => ({
      name,
      target: target?.text,
      values,
    }));
    return { title: this.title, figures, otherShares: this.#otherShares };
  }
}

function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function spreadText(values: readonly number[]): string {
  const sorted = [...values].sort((a, b) => a - b);
  const [least, most] = [sorted[0] ?? Number.NaN, sorted.at(-1) ?? Number.NaN];
  return `${show(medianOf(values))} (${show(least)} to ${show(most)})`;
}

function show(value: number): string {
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
}

/** One line about the machine. */
export function machineLine(): string {
  const memoryGib = (totalmem() / 2 ** 30).toFixed(1);
  const load = loadavg()
    .map((each) => each.toFixed(1))
    .join(' ');
  return `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Linux ${release()}, ${memoryGib} GiB, load average ${load} at the start`;
}
