/** A flag or segment as the fake keeps it: any members, `key` and `version` among them. */
export interface FakeItem {
  readonly key: string;
  readonly version: number;
  readonly [member: string]: unknown;
}

export type FakeKind = 'flags' | 'segments';

/** Everything of an environment. */
export interface FakeData {
  readonly flags?: readonly FakeItem[];
  readonly segments?: readonly FakeItem[];
}

/** A server-sent event before it is written. */
export interface FakeEvent {
  readonly name: string;
  readonly data: unknown;
  readonly id?: string;
}

interface Entry {
  readonly kind: FakeKind;
  readonly key: string;
  readonly version: number;
  /** Undefined: deleted. */
  readonly item: FakeItem | undefined;
  /** The payload version of its last change. */
  readonly at: number;
}

/** Which items a filter lets through. */
export type FakeFilter = (kind: FakeKind, item: FakeItem) => boolean;

const KINDS: readonly FakeKind[] = ['flags', 'segments'];

/** What a stream of one environment is sent when something changes. */
export interface FakeChange {
  readonly fdv1: FakeEvent;
  readonly fdv2: readonly FakeEvent[];
}

/** One environment: its keys, its data, and what clients of both protocols are told of them. */
export class FakeEnvironment {
  /** SDK keys that are accepted. */
  readonly keys: Set<string>;
  readonly filters: Map<string, FakeFilter> = new Map();
  /** Told with `X-Ld-EnvId`. */
  envId: string | undefined;
  /** Whether events that complete a state carry it as their id. */
  ids = false;
  #entries = new Map<string, Entry>();
  #payload = 1;
  readonly #changed: (environment: FakeEnvironment, make: (filter: FakeFilter) => FakeChange) => void;

  constructor(key: string, changed: (environment: FakeEnvironment, make: (filter: FakeFilter) => FakeChange) => void) {
    this.keys = new Set([key]);
    this.#changed = changed;
  }

  /** What `basis` is once a client has everything. */
  get state(): string {
    return `(p:fake:${this.#payload})`;
  }

  /** Replaces everything; open streams are sent it whole. */
  set(data: FakeData): void {
    this.#payload += 1;
    const at = this.#payload;
    this.#entries = new Map();
    for (const kind of KINDS) {
      for (const item of data[kind] ?? []) this.#put({ kind, key: item.key, version: item.version, item, at });
    }
    this.#changed(this, (filter) => ({ fdv1: this.put(filter), fdv2: this.full(filter) }));
  }

  /** Sets one item; open streams are sent it. Its version is taken as it is. */
  patch(kind: FakeKind, item: FakeItem): void {
    this.#payload += 1;
    this.#put({ kind, key: item.key, version: item.version, item, at: this.#payload });
    this.#changed(this, (filter) =>
      filter(kind, item) ? this.#change(kind, item.key, item.version, item) : this.#gone(kind, item.key, item.version),
    );
  }

  /** Deletes one item, with a version above its last unless one is given. */
  remove(kind: FakeKind, key: string, version?: number): void {
    this.#payload += 1;
    const grave = version ?? (this.#entries.get(`${kind}/${key}`)?.version ?? 0) + 1;
    this.#put({ kind, key, version: grave, item: undefined, at: this.#payload });
    this.#changed(this, () => this.#gone(kind, key, grave));
  }

  /** Accepts another key, and the old ones no longer unless they are kept; streams that are open stay open. */
  rotate(key: string, keepOld = false): void {
    if (!keepOld) this.keys.clear();
    this.keys.add(key);
  }

  /** FDv1: everything. */
  put(filter: FakeFilter): FakeEvent {
    return { name: 'put', data: { path: '/', data: this.all(filter) }, ...this.#id() };
  }

  /** The body of `/sdk/latest-all`. */
  all(filter: FakeFilter): Record<FakeKind, Record<string, FakeItem>> {
    const all: Record<FakeKind, Record<string, FakeItem>> = { flags: {}, segments: {} };
    for (const { kind, key, item } of this.#entries.values()) {
      if (item !== undefined && filter(kind, item)) all[kind][key] = item;
    }
    return all;
  }

  /** FDv2: what a client at `basis` is told at first. */
  since(basis: string | undefined, filter: FakeFilter): readonly FakeEvent[] {
    if (basis === this.state) return [this.#intent('none', 'up-to-date')];
    const from = Number(/^\(p:fake:(\d+)\)$/.exec(basis ?? '')?.[1] ?? Number.NaN);
    if (Number.isNaN(from) || from > this.#payload) return this.full(filter);
    const changes = [...this.#entries.values()]
      .filter(({ at }) => at > from)
      .map((entry) => this.#object(entry, filter));
    return [this.#intent('xfer-changes', 'stale'), ...changes, this.#transferred()];
  }

  full(filter: FakeFilter): readonly FakeEvent[] {
    const present = [...this.#entries.values()].filter(({ kind, item }) => item !== undefined && filter(kind, item));
    const objects = present.map((entry) => this.#object(entry, filter));
    return [this.#intent('xfer-full', 'payload-missing'), ...objects, this.#transferred()];
  }

  #put(entry: Entry): void {
    this.#entries.set(`${entry.kind}/${entry.key}`, entry);
  }

  #change(kind: FakeKind, key: string, version: number, item: FakeItem): FakeChange {
    return {
      fdv1: { name: 'patch', data: { path: `/${kind}/${key}`, data: item }, ...this.#id() },
      fdv2: [this.#object({ kind, key, version, item, at: 0 }, () => true), this.#transferred()],
    };
  }

  #gone(kind: FakeKind, key: string, version: number): FakeChange {
    return {
      fdv1: { name: 'delete', data: { path: `/${kind}/${key}`, version }, ...this.#id() },
      fdv2: [this.#object({ kind, key, version, item: undefined, at: 0 }, () => true), this.#transferred()],
    };
  }

  #object({ kind, key, version, item }: Entry, filter: FakeFilter): FakeEvent {
    const names = { kind: kind === 'flags' ? 'flag' : 'segment', key, version };
    if (item === undefined || !filter(kind, item)) return { name: 'delete-object', data: names };
    return { name: 'put-object', data: { ...names, object: item } };
  }

  #intent(intentCode: string, reason: string): FakeEvent {
    return {
      name: 'server-intent',
      data: { payloads: [{ id: 'fake', target: this.#payload, intentCode, reason }] },
    };
  }

  #transferred(): FakeEvent {
    return { name: 'payload-transferred', data: { state: this.state, version: this.#payload }, ...this.#id() };
  }

  #id(): { readonly id?: string } {
    return this.ids ? { id: this.state } : {};
  }
}

/** An event as it stands in a stream. */
export function eventText({ name, data, id }: FakeEvent): string {
  const idLine = id === undefined ? '' : `id: ${id}\n`;
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n${idLine}\n`;
}
