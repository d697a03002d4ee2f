import { shownBytes, shownCount, shownSeconds } from './shown.ts';

/** A line or a row of bars in a plot. */
interface PlotSeries {
  readonly name: string;
  /** A CSS class that has its colour. */
  readonly style: string;
  readonly values: readonly number[];
}

/** A plot over time or over percentiles. */
export interface Plot {
  readonly title: string;
  readonly kind: 'lines' | 'bars';
  readonly series: readonly PlotSeries[];
  /** What is written at a place on the axis across, from 0 to 1. */
  readonly across: (share: number) => string;
  readonly up: (value: number) => string;
}

const WIDTH = 480;
const HEIGHT = 190;
const LEFT = 64;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 28;
const INNER_WIDTH = WIDTH - LEFT - RIGHT;
const INNER_HEIGHT = HEIGHT - TOP - BOTTOM;
const TICKS = 4;

/** Text as it may stand in HTML, in an attribute as well. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

/** The next number that reads well: 1, 2, 2.5 or 5 times a power of ten. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  // a thousandth more than it should be is what dividing made of it
  const factor = [1, 2, 2.5, 5, 10].find((candidate) => candidate * power >= value * 0.999_999) ?? 10;
  return factor * power;
}

/** A plot as SVG, with a title for who cannot see it. Colours come from the page's style. */
export function plotSvg(plot: Plot): string {
  const largest = largestOf(plot);
  const top = roundUp(largest);
  const marks = plot.kind === 'lines' ? linesOf(plot, top) : barsOf(plot, top);
  const summary = plot.series
    .map(({ name, values }) => `${name}: at most ${plot.up(values.reduce((most, value) => Math.max(most, value), 0))}`)
    .join('; ');
  return (
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(`${plot.title}. ${summary}`)}">` +
    `${axesOf(plot, top)}${marks}</svg>`
  );
}

/** For bars, those of a place stand on each other. */
function largestOf({ kind, series }: Plot): number {
  const length = Math.max(0, ...series.map(({ values }) => values.length));
  let largest = 0;
  for (let at = 0; at < length; at++) {
    const values = series.map((each) => each.values[at] ?? 0);
    const value = kind === 'bars' ? values.reduce((sum, each) => sum + each, 0) : Math.max(...values);
    largest = Math.max(largest, value);
  }
  return largest;
}

function axesOf({ across, up }: Plot, top: number): string {
  let text = '';
  for (let tick = 0; tick <= TICKS; tick++) {
    const share = tick / TICKS;
    const y = TOP + INNER_HEIGHT * (1 - share);
    const x = LEFT + INNER_WIDTH * share;
    text += `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${short(y)}" y2="${short(y)}"/>`;
    text += `<text class="up" x="${LEFT - 6}" y="${short(y + 4)}">${escapeHtml(up(top * share))}</text>`;
    const anchor = tick === 0 ? 'start' : tick === TICKS ? 'end' : 'middle';
    text += `<text class="${anchor}" x="${short(x)}" y="${HEIGHT - 8}">${escapeHtml(across(share))}</text>`;
  }
  return text;
}

function linesOf({ series }: Plot, top: number): string {
  return series
    .map(({ style, values }) => {
      const points = values.map((value, at) => {
        const x = LEFT + (INNER_WIDTH * at) / Math.max(1, values.length - 1);
        return `${short(x)},${short(TOP + INNER_HEIGHT * (1 - value / top))}`;
      });
      return `<polyline class="line ${style}" points="${points.join(' ')}"/>`;
    })
    .join('');
}

function barsOf({ series }: Plot, top: number): string {
  const length = Math.max(1, ...series.map(({ values }) => values.length));
  const width = INNER_WIDTH / length;
  let text = '';
  for (let at = 0; at < length; at++) {
    let bottom = TOP + INNER_HEIGHT;
    for (const { style, values } of series) {
      const height = (INNER_HEIGHT * (values[at] ?? 0)) / top;
      if (height <= 0) continue;
      bottom -= height;
      const x = short(LEFT + width * at);
      text += `<rect class="bar ${style}" x="${x}" y="${short(bottom)}" width="${short(Math.max(0.5, width * 0.9))}" height="${short(height)}"/>`;
    }
  }
  return text;
}

function short(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** The running sum of values. */
export function summed(values: readonly number[]): readonly number[] {
  let sum = 0;
  return values.map((value) => {
    sum += value;
    return sum;
  });
}

/** How values are written on an axis. */
export const axis: {
  readonly count: (value: number) => string;
  readonly bytesPerSecond: (value: number) => string;
  readonly seconds: (value: number) => string;
} = {
  count: (value) => (Number.isInteger(value) ? shownCount(value) : String(Number(value.toFixed(2)))),
  bytesPerSecond: (value) => `${shownBytes(value)}/s`,
  seconds: shownSeconds,
};
