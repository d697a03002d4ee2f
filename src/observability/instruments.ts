/** What a metric counts in, by its UCUM name: seconds, bytes, or nothing. */
type Unit = 's' | 'By' | '';

/** A metric, before anything was measured. */
export interface Definition {
  /** With dots: as OpenTelemetry has it. Without: a name that others know, and that stays as it is. */
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly unit?: Unit;
  /** One sentence, without a full stop. */
  readonly help: string;
  /** Names of labels, in order. */
  readonly labels?: readonly string[];
  /** Upper bounds of the buckets of a histogram, rising. */
  readonly bounds?: readonly number[];
}

/** One value of one metric: a number, or the buckets of a histogram. */
export interface Point {
  /** One for each label of the definition. */
  readonly values: readonly string[];
  readonly value: number | HistogramSeries;
}

/** A metric and what is known of it now. */
export interface Collected {
  readonly definition: Definition;
  readonly points: readonly Point[];
}

/** A counter or gauge with its labels bound: to write to it is to add to a number. */
export class NumberSeries {
  readonly values: readonly string[];
  value = 0;

  constructor(values: readonly string[]) {
    this.values = values;
  }

  add(more: number): void {
    this.value += more;
  }
}

/** A histogram with its labels bound. */
export class HistogramSeries {
  readonly values: readonly string[];
  /** The number of values in each bucket, and above the last bound. */
  readonly counts: Float64Array;
  readonly bounds: readonly number[];
  sum = 0;
  count = 0;

  constructor(values: readonly string[], bounds: readonly number[]) {
    this.values = values;
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  /** @param times - so many of it at once */
  record(value: number, times = 1): void {
    const { bounds, counts } = this;
    let at = 0;
    // most values are small, and there are few bounds: a binary search would look at as many
    while (at < bounds.length && value > (bounds[at] as number)) at++;
    counts[at] = (counts[at] as number) + times;
    this.sum += value * times;
    this.count += times;
  }
}

/** More than any dashboard shows; beyond them everything goes to one series whose labels are all `other`. */
const SERIES_MAX = 4000;
export const OTHER = 'other';

/** The series of one metric, by the values of their labels. */
export class Family<Series extends { readonly values: readonly string[] }> {
  readonly definition: Definition;
  readonly #make: (values: readonly string[]) => Series;
  readonly #series = new Map<string, Series>();

  constructor(definition: Definition, make: (values: readonly string[]) => Series) {
    this.definition = definition;
    this.#make = make;
  }

  /** The series of these values, one for each label. Look it up once and keep it: then writing costs next to nothing. */
  bind(...values: readonly string[]): Series {
    const key = values.join('\n');
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    const full = this.#series.size >= SERIES_MAX && values.some((value) => value !== OTHER);
    if (full) return this.bind(...values.map(() => OTHER));
    const series = this.#make(values);
    this.#series.set(key, series);
    return series;
  }

  all(): Iterable<Series> {
    return this.#series.values();
  }
}

/** Every metric of a process: written to where things happen, read when somebody asks. */
export class Registry {
  readonly #sources: (() => Iterable<Collected>)[] = [];

  /** A counter or gauge that is written to. One without labels is there from the start, at 0. */
  number(definition: Definition): Family<NumberSeries> {
    return this.#add(new Family(definition, (values) => new NumberSeries(values)), ({ value }) => value);
  }

  histogram(definition: Definition): Family<HistogramSeries> {
    const bounds = definition.bounds ?? [];
    return this.#add(new Family(definition, (values) => new HistogramSeries(values, bounds)), (series) => series);
  }

  /** Metrics whose values are known elsewhere: `read` is called whenever somebody asks. */
  observe(read: () => Iterable<Collected>): void {
    this.#sources.push(read);
  }

  /** Every metric that has a value, as of now. */
  *collect(): Generator<Collected> {
    for (const source of this.#sources)
      for (const collected of source()) if (collected.points.length > 0) yield collected;
  }

  #add<Series extends { readonly values: readonly string[] }>(
    family: Family<Series>,
    valueOf: (series: Series) => number | HistogramSeries,
  ): Family<Series> {
    const { definition } = family;
    if ((definition.labels ?? []).length === 0) family.bind();
    this.#sources.push(() => [
      { definition, points: Array.from(family.all(), (series) => ({ values: series.values, value: valueOf(series) })) },
    ]);
    return family;
  }
}

/** One value that is known elsewhere, or several under their labels. */
export function observed(
  definition: Definition,
  value: number | undefined | Iterable<readonly [values: readonly string[], value: number]>,
): Collected {
  if (value === undefined) return { definition, points: [] };
  if (typeof value === 'number') return { definition, points: [{ values: [], value }] };
  return { definition, points: Array.from(value, ([values, each]) => ({ values, value: each })) };
}

/**
 * What is bound for one name, for at most so many names: the rest share one. Names come from outside, and what they make us
 * keep must be bounded.
 */
export class BoundByName<Bound> {
  readonly #make: (name: string) => Bound;
  readonly #namesMax: number;
  readonly #bound = new Map<string, Bound>();
  #other: Bound | undefined;

  constructor(namesMax: number, make: (name: string) => Bound) {
    this.#namesMax = namesMax;
    this.#make = make;
  }

  of(name: string): Bound {
    const known = this.#bound.get(name);
    if (known !== undefined) return known;
    if (this.#bound.size >= this.#namesMax) return (this.#other ??= this.#make(OTHER));
    const bound = this.#make(name);
    this.#bound.set(name, bound);
    return bound;
  }
}
