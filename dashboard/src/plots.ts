import uPlot from 'uplot';
import type { Bucket, Timeline } from './contract.ts';
import { byId, make, mark, say } from './dom.ts';
import { bytes, clockTime, count, NONE, rate, wholeSeconds } from './format.ts';
import { type Chart, CHARTS, Hour } from './lines.ts';

const SYNC_KEY = 'hour';
const HEIGHT_PX = 146;
/** Above the plot, where the units stand. */
const UNITS_PX = 22;
const AXIS_PX = 48;
const RIGHT_AXIS_PX = 64;
const BYTES_MIN = 1024 * 1024;
/** A process that began just now has not much to show. */
const SECONDS_MIN = 60;
const MINUTE_MS = 60_000;
const FONT = '11px system-ui, sans-serif';

/** A chart on the page, and what it shows. */
interface Drawn {
  readonly chart: Chart;
  readonly place: HTMLElement;
  readonly values: readonly HTMLElement[];
  columns: number[][];
  plot: uPlot | undefined;
}

/** The timeline: plots with one cursor, which the pointer and the arrow keys move. */
export class Plots {
  readonly #hour: Hour = new Hour();
  readonly #root: HTMLElement = byId('charts');
  readonly #moment: HTMLElement = byId('moment');
  readonly #drawn: readonly Drawn[];
  #minutes = 15;
  /** Where the cursor stands; undefined: at now. */
  #at: number | undefined;
  /** The moment that was chosen with keys, in seconds: it stays the same while the plots move on. */
  #kept: number | undefined;
  #isStale = true;

  constructor() {
    this.#drawn = CHARTS.map((chart) => makeChart(chart, this.#root));
    const buttons = [...document.querySelectorAll<HTMLButtonElement>('[data-minutes]')];
    for (const button of buttons) {
      button.addEventListener('click', () => {
        this.#minutes = Number(button.dataset['minutes']);
        for (const each of buttons) mark(each, 'aria-pressed', String(each === button));
        this.draw();
      });
    }
    this.#root.addEventListener('keydown', (event) => this.#press(event));
    this.#root.addEventListener('pointermove', () => {
      this.#kept = undefined;
    });
    new ResizeObserver(() => {
      for (const { plot, place } of this.#drawn) plot?.setSize({ width: place.clientWidth, height: HEIGHT_PX });
    }).observe(this.#root);
  }

  reset(timeline: Timeline): void {
    this.#hour.reset(timeline);
    this.#isStale = true;
  }

  add(bucket: Bucket): void {
    this.#hour.add(bucket);
    this.#isStale = true;
  }

  /** How many were refused in the last minute. */
  get refusedInMinute(): number {
    return this.#hour.sum('refused', MINUTE_MS);
  }

  /** Draws what came since it last did. */
  update(): void {
    if (this.#isStale) this.draw();
  }

  /** Draws everything anew, with the colours of now. */
  recolour(): void {
    for (const drawn of this.#drawn) {
      drawn.plot?.destroy();
      drawn.plot = undefined;
    }
    this.draw();
  }

  draw(): void {
    this.#isStale = false;
    for (const drawn of this.#drawn) {
      drawn.columns = this.#hour.columns(drawn.chart, this.#minutes * MINUTE_MS);
      drawn.plot ??= this.#plot(drawn);
      drawn.plot.setData(drawn.columns as uPlot.AlignedData);
    }
    if (this.#kept !== undefined) this.#at = this.#indexOf(this.#kept);
    this.#read();
  }

  /** Where a moment stands; undefined when it is over, or not there yet. */
  #indexOf(seconds: number): number | undefined {
    const at = this.#drawn[0]?.columns[0]?.indexOf(seconds) ?? -1;
    return at < 0 ? undefined : at;
  }

  /** Puts the cursor of a plot where the moment is that was chosen with keys. */
  #place(plot: uPlot): void {
    if (this.#kept === undefined) return;
    const left = this.#indexOf(this.#kept) === undefined ? -10 : plot.valToPos(this.#kept, 'x');
    plot.setCursor({ left, top: left < 0 ? -10 : 0 }, false);
  }

  #plot(drawn: Drawn): uPlot {
    const options: uPlot.Options = {
      ...optionsOf(drawn.chart, () => this.#range()),
      width: drawn.place.clientWidth,
      height: HEIGHT_PX,
      hooks: {
        setCursor: [
          (plot) => {
            this.#at = plot.cursor.idx ?? undefined;
            this.#read();
          },
        ],
        draw: [(plot) => this.#place(plot)],
      },
    };
    return new uPlot(options, drawn.columns as uPlot.AlignedData, drawn.place);
  }

  /** From when to when, in seconds: to the last numbers that there are, and no further back than the first. */
  #range(): [number, number] {
    const times = this.#drawn[0]?.columns[0] ?? [];
    const to = times.at(-1) ?? Date.now() / 1000;
    const seconds = Math.max(SECONDS_MIN, Math.min(this.#minutes * 60, to - (times[0] ?? 0)));
    return [to - seconds, to];
  }

  /** Writes what the lines say where the cursor stands, or now. */
  #read(): void {
    const times = this.#drawn[0]?.columns[0] ?? [];
    const at = this.#at !== undefined && this.#at < times.length ? this.#at : undefined;
    const time = at === undefined ? undefined : times[at];
    say(
      this.#moment,
      time === undefined
        ? times.length === 0
          ? 'no numbers yet'
          : `last ${wholeSeconds(this.#hour.everyMs)}`
        : `at ${clockTime(time * 1000)}`,
    );
    for (const { chart, columns, values } of this.#drawn) {
      for (const [line, { format }] of chart.lines.entries()) {
        const value = Hour.read(columns, line, at);
        const element = values[line];
        if (element !== undefined) say(element, value === undefined ? NONE : format(value));
      }
    }
    this.#tell(times.length, at);
  }

  /** The same for those who do not see it. */
  #tell(length: number, at: number | undefined): void {
    const lines = this.#drawn.flatMap(({ chart, values }) =>
      chart.lines.map(({ name }, line) => `${name} ${values[line]?.textContent ?? NONE}`),
    );
    mark(this.#root, 'aria-valuemax', String(Math.max(0, length - 1)));
    mark(this.#root, 'aria-valuenow', String(at ?? Math.max(0, length - 1)));
    mark(this.#root, 'aria-valuetext', `${this.#moment.textContent ?? ''}: ${lines.join(', ')}`);
  }

  #press(event: KeyboardEvent): void {
    const last = (this.#drawn[0]?.columns[0]?.length ?? 0) - 1;
    const from = this.#at ?? last;
    const to = {
      ArrowLeft: from - 1,
      ArrowRight: from + 1,
      PageUp: from - 30,
      PageDown: from + 30,
      Home: 0,
      End: last,
      Escape: Number.NaN,
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    const at = Number.isNaN(to) ? undefined : Math.min(last, Math.max(0, to));
    this.#kept = at === undefined ? undefined : this.#drawn[0]?.columns[0]?.[at];
    this.#at = at;
    for (const { plot } of this.#drawn) {
      if (this.#kept === undefined) plot?.setCursor({ left: -10, top: -10 }, false);
      else if (plot !== undefined) this.#place(plot);
    }
    this.#read();
  }
}

function makeChart(chart: Chart, root: HTMLElement): Drawn {
  const figure = make('figure', 'chart');
  figure.id = `chart-${chart.id}`;
  const caption = make('figcaption');
  caption.append(make('span', 'chart-title', chart.title));
  const legend = make('span', 'legend');
  const values = chart.lines.map((line) => {
    const entry = make('span', 'entry');
    const key = make('span', line.dash === undefined ? 'key' : 'key dashed');
    key.style.color = `var(${line.colour})`;
    const value = make('span', 'value', NONE);
    value.dataset['line'] = line.key;
    mark(value, 'data-wide', line.format === count || line.format === rate ? undefined : 'yes');
    entry.append(key, make('span', '', line.name), value);
    legend.append(entry);
    return value;
  });
  caption.append(legend);
  const place = make('div', 'plot');
  place.append(make('span', 'unit', chart.unit), make('span', 'unit right', chart.unitRight));
  figure.append(caption, place);
  root.append(figure);
  return { chart, place, values, columns: [], plot: undefined };
}

function optionsOf(
  { lines, unitRight }: Chart,
  rangeOf: () => [number, number],
): Omit<uPlot.Options, 'width' | 'height'> {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = { stroke: colour('--quiet'), font: FONT, ticks: { show: false } };
  const grid = { stroke: colour('--grid'), width: 1 };
  return {
    legend: { show: false },
    // the same room at the right of each, so that moments stand below one another
    padding: [UNITS_PX, unitRight === undefined ? RIGHT_AXIS_PX : 0, 0, 0],
    cursor: { sync: { key: SYNC_KEY }, drag: { x: false, y: false }, y: false, points: { size: 6 } },
    scales: {
      x: { range: () => rangeOf() },
      y: { range: (_, __, max) => [0, ceilingOf(max)] },
      right: { range: (_, __, max) => [0, Math.max(BYTES_MIN, ceilingOf(max))] },
    },
    axes: [
      {
        ...axis,
        grid,
        size: 26,
        space: 70,
        values: (_, splits) =>
          splits.map((each) => clockTime(each * 1000).slice(0, (splits[1] ?? 0) - (splits[0] ?? 0) < 60 ? 8 : 5)),
        incrs: [10, 20, 30, 60, 120, 180, 300, 600, 900],
      },
      { ...axis, grid, size: AXIS_PX, space: 28, values: (_, splits) => splits.map(axisText) },
      ...(unitRight === undefined
        ? []
        : [
            {
              ...axis,
              scale: 'right',
              side: 1 as const,
              size: RIGHT_AXIS_PX,
              space: 24,
              grid: { show: false },
              incrs: BYTE_STEPS,
              values: (_: uPlot, splits: number[]) => splits.map((each) => bytes(each).replace('.0 ', ' ')),
            },
          ]),
    ],
    series: [
      {},
      ...lines.map((line) => ({
        scale: line.right === true ? 'right' : 'y',
        stroke: colour(line.colour),
        width: 1.5,
        points: { show: false },
        ...(line.dash === undefined ? {} : { dash: [...line.dash] }),
      })),
    ],
  };
}

/** Powers of two, so that the axis has round numbers of KiB and MiB. */
const BYTE_STEPS = Array.from({ length: 40 }, (_, at) => 2 ** at);

/** Some room above the highest point, and a scale where nothing happens. */
function ceilingOf(max: number | null): number {
  return Math.max(4, (max ?? 0) * 1.1);
}

function axisText(value: number): string {
  return value >= 10_000 ? `${rate(value / 1000).replace('.0', '')}k` : value % 1 === 0 ? count(value) : String(value);
}
