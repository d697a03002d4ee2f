import type { Page } from './dashboard-browser.mjs';

/** What stands on the page at one moment, as text. */
export interface Reading {
  /** Unix time of the numbers, in ms. */
  readonly atMs: number;
  readonly word: string;
  /** Value and what it is compared with, by the name of the figure. */
  readonly figures: Readonly<Record<string, readonly [value: string, note: string]>>;
  /** Lately and in all, by the name that the cause has in metrics. */
  readonly causes: Readonly<Record<string, readonly [recent: string, total: string]>>;
  /** Cells by the title of their column. */
  readonly environments: readonly Readonly<Record<string, string>>[];
  readonly deliveries: readonly Readonly<Record<string, string>>[];
  readonly sources: readonly Readonly<Record<string, string>>[];
}

const READ = `(() => {
  const text = (element) => element?.innerText.trim() ?? '';
  const rows = (id) => [...document.querySelectorAll('#' + id + ' > tr')].map((row) =>
    Object.fromEntries([...row.children].map((cell) => [cell.dataset.label, text(cell)])));
  return {
    atMs: Number(document.querySelector('#main').dataset.at),
    word: text(document.querySelector('#state-word')),
    figures: Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((figure) =>
      [figure.dataset.figure, [text(figure.querySelector('.big, .value')), text(figure.querySelector('.note'))]])),
    causes: Object.fromEntries([...document.querySelectorAll('[data-cause]')].map((row) =>
      [row.dataset.cause, [text(row.children[1]), text(row.children[2])]])),
    environments: rows('environments'),
    deliveries: rows('deliveries'),
    sources: rows('sources'),
  };
})()`;

/** Reads the page as somebody does who looks at it. */
export function readPage(page: Page): Promise<Reading> {
  return page.evaluate<Reading>(READ);
}

const WAIT_MS_MAX = 30_000;

/** Waits until an expression holds in the page, asked at each frame. Playwright's own wait needs what the page's policy forbids. */
export async function untilInPage(page: Page, expression: string, msMax: number = WAIT_MS_MAX): Promise<void> {
  const byMs = performance.now() + msMax;
  const asked = `new Promise((resolve) => requestAnimationFrame(() => resolve(Boolean(${expression}))))`;
  while (!(await page.evaluate<boolean>(asked).catch(falseWhenLoading))) {
    if (performance.now() > byMs) throw new Error(`Cannot see ${expression} in the page: not so in ${msMax} ms`);
  }
}

/** A page that loads itself anew while it is asked is no answer yet. */
function falseWhenLoading(error: unknown): false {
  if (error instanceof Error && error.message.includes('Execution context was destroyed')) return false;
  throw error;
}

/** Reads the page once its numbers are of this moment or later. */
export async function readPageSince(page: Page, atMs: number): Promise<Reading> {
  await untilInPage(page, `Number(document.querySelector('#main').dataset.at) >= ${atMs}`);
  return readPage(page);
}

/** The first number in a text, as people write it: `1,234 of 4,096` is 1234. */
export function numberIn(text: string | undefined): number {
  const found = /-?[\d,]+(\.\d+)?/.exec(text ?? '')?.[0];
  if (found === undefined)
    throw new Error(`Cannot read a number off the page: expected one, got ${JSON.stringify(text)}`);
  return Number(found.replaceAll(',', ''));
}

const UNITS: Readonly<Record<string, number>> = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

/** Bytes in a text, from the least to the most that would be written so: `1.5 MiB`. */
export function bytesIn(text: string | undefined): readonly [least: number, most: number] {
  const unit = UNITS[/[\d.,]+ (\w+)/.exec(text ?? '')?.[1] ?? ''];
  if (unit === undefined)
    throw new Error(`Cannot read bytes off the page: expected a unit, got ${JSON.stringify(text)}`);
  const half = unit === 1 ? 0 : unit / 20;
  const bytes = numberIn(text) * unit;
  return [bytes - half, bytes + half];
}

/** Metrics, as the admin listener tells them. */
export class MetricsReading {
  readonly #series: ReadonlyMap<string, number>;

  constructor(text: string) {
    const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    this.#series = new Map(
      lines.map((line) => [line.replace(/ [^ ]+$/, ''), Number(line.slice(line.lastIndexOf(' ') + 1))]),
    );
  }

  /** The sum of the series of a metric that have these labels; 0 where nothing was told yet. */
  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    let sum = 0;
    for (const [series, value] of this.#series) {
      if (series !== name && !series.startsWith(`${name}{`)) continue;
      if (wanted.every((label) => series.includes(label))) sum += value;
    }
    return sum;
  }
}
