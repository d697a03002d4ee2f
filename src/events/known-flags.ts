import type { KnownFlag } from './summarizer.ts';

/** How many flags are remembered as read. */
const FLAGS_MAX = 2000;

/** A larger one is not read for the sake of an event. */
const FLAG_LENGTH_MAX = 256 * 1024;

/** What summaries need to know of flags, read once from each text. */
export class KnownFlags {
  readonly #textOf: (environmentId: string, key: string) => string | undefined;
  readonly #flags = new Map<string, { readonly text: string; readonly flag: KnownFlag }>();

  constructor(textOf: (environmentId: string, key: string) => string | undefined) {
    this.#textOf = textOf;
  }

  get(environmentId: string, key: string): KnownFlag | undefined {
    const text = this.#textOf(environmentId, key);
    if (text === undefined || text.length > FLAG_LENGTH_MAX) return undefined;
    const name = `${environmentId}\n${key}`;
    const known = this.#flags.get(name);
    if (known?.text === text) return known.flag;
    const flag = readFlag(text);
    this.#flags.delete(name);
    this.#flags.set(name, { text, flag });
    const [oldest] = this.#flags.keys();
    if (this.#flags.size > FLAGS_MAX && oldest !== undefined) this.#flags.delete(oldest);
    return flag;
  }
}

function readFlag(text: string): KnownFlag {
  const { trackEvents, debugEventsUntilDate, variations } = JSON.parse(text) as Readonly<Record<string, unknown>>;
  return {
    trackEvents: trackEvents === true,
    debugUntilMs: typeof debugEventsUntilDate === 'number' ? debugEventsUntilDate : undefined,
    variations: Array.isArray(variations) ? variations.map((value) => JSON.stringify(value)) : [],
  };
}
