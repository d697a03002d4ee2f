import { Slices } from '../kernel/index.ts';
import type { OldEvaluation } from './old-events.ts';

interface Counter {
  readonly variation: number | undefined;
  readonly version: number | undefined;
  readonly value: string;
  count: number;
}

interface FlagCounters {
  readonly fallback: string;
  readonly counters: Map<string, Counter>;
  readonly kinds: Set<string>;
}

/** What an entry of a map costs besides its texts, in bytes, about. */
const ENTRY_BYTES = 200;

/** How often each flag was evaluated to what, between two flushes: one event in place of thousands. */
export class Summary {
  readonly #flags = new Map<string, FlagCounters>();
  #startMs = Number.POSITIVE_INFINITY;
  #endMs = 0;

  get isEmpty(): boolean {
    return this.#flags.size === 0;
  }

  /** What counting this evaluation would add, in bytes. */
  growth({ key, variation, version, value, fallback, context }: OldEvaluation): number {
    const flag = this.#flags.get(key);
    let bytes = flag === undefined ? ENTRY_BYTES + 2 * (key.length + fallback.length) : 0;
    if (flag?.counters.has(counterKey(variation, version)) !== true) bytes += ENTRY_BYTES + 2 * value.length;
    for (const kind in context.keys) if (flag?.kinds.has(kind) !== true) bytes += ENTRY_BYTES + 2 * kind.length;
    return bytes;
  }

  add({ key, variation, version, value, fallback, context, creationDate }: OldEvaluation): void {
    let flag = this.#flags.get(key);
    if (flag === undefined) this.#flags.set(key, (flag = { fallback, counters: new Map(), kinds: new Set() }));
    const name = counterKey(variation, version);
    const counter = flag.counters.get(name);
    if (counter === undefined) flag.counters.set(name, { variation, version, value, count: 1 });
    else counter.count++;
    for (const kind in context.keys) flag.kinds.add(kind);
    this.#startMs = Math.min(this.#startMs, creationDate);
    this.#endMs = Math.max(this.#endMs, creationDate);
  }

  /** The summary event, written in slices. */
  async encode(): Promise<Uint8Array> {
    const slices = new Slices();
    const texts: string[] = [];
    for (const [key, { fallback, counters, kinds }] of this.#flags) {
      const counts = [...counters.values()].map(textOf).join(',');
      const kindTexts = JSON.stringify([...kinds]);
      texts.push(`${JSON.stringify(key)}:{"default":${fallback},"counters":[${counts}],"contextKinds":${kindTexts}}`);
      if (slices.due()) await slices.pause();
    }
    const dates = `"startDate":${this.#startMs},"endDate":${this.#endMs}`;
    return Buffer.from(`{"kind":"summary",${dates},"features":{${texts.join(',')}}}`);
  }
}

function counterKey(variation: number | undefined, version: number | undefined): string {
  return `${variation}:${version}`;
}

function textOf({ variation, version, value, count }: Counter): string {
  const of = variation === undefined ? '' : `"variation":${variation},`;
  return `{${of}${version === undefined ? '"unknown":true' : `"version":${version}`},"value":${value},"count":${count}}`;
}
