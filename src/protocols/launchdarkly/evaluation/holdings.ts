import type { Clause, RevivedFlag, RevivedSegment, Vendor } from './sdk.ts';
import type { DataState, EvaluationAudience, ItemsMessage } from './types.ts';

/** A flag that can be evaluated. */
export interface FlagRecord {
  readonly key: string;
  readonly version: number;
  readonly flag: RevivedFlag;
  /** JSON of its values, by variation, as far as they were needed. */
  readonly values: Map<number, string>;
  readonly dependsOn: Dependencies;
}

interface SegmentRecord {
  readonly segment: RevivedSegment;
  readonly dependsOn: Dependencies;
}

interface Dependencies {
  readonly flags: readonly string[];
  readonly segments: readonly string[];
}

interface Staged {
  readonly whole: boolean;
  readonly flags: Map<string, FlagRecord | undefined>;
  readonly segments: Map<string, SegmentRecord | undefined>;
}

const NO_STATE: DataState = { digest: '', clock: 0, offset: 0 };
const NO_KEYS: readonly string[] = [];

/** What one thread holds of one environment: its flags and segments, parsed and revived once per change. */
export class Holdings {
  /** What it was given: nothing yet has an offset of 0. */
  state: DataState = NO_STATE;
  readonly #vendor: Vendor;
  readonly #unreadable: (kind: string, key: string, cause: string) => void;
  #flags = new Map<string, FlagRecord>();
  #segments = new Map<string, SegmentRecord>();
  #staged: Staged | undefined;
  readonly #visible = new Map<EvaluationAudience, readonly FlagRecord[]>();
  #dependents: { readonly flags: Dependents; readonly segments: Dependents } | undefined;

  /** @param unreadable - told of items whose text is of no use; they count as absent. */
  constructor(vendor: Vendor, unreadable: (kind: string, key: string, cause: string) => void) {
    this.#vendor = vendor;
    this.#unreadable = unreadable;
  }

  /** Begins a change, or everything anew. What was begun before and not committed is forgotten. */
  begin(whole: boolean): void {
    this.#staged = { whole, flags: new Map(), segments: new Map() };
  }

  stage({ kind, keys, versions, texts }: ItemsMessage): void {
    for (const [at, key] of keys.entries()) {
      const text = texts[at];
      if (kind === 'flags') this.#staged?.flags.set(key, this.#flagOf(key, versions[at]!, text));
      if (kind === 'segments') this.#staged?.segments.set(key, this.#segmentOf(key, text));
    }
  }

  /** What was staged is there from now on, all at once. */
  commit(state: DataState): void {
    this.state = state;
    if (this.#staged === undefined) return;
    if (this.#staged.whole) {
      this.#flags = new Map();
      this.#segments = new Map();
    }
    put(this.#flags, this.#staged.flags);
    put(this.#segments, this.#staged.segments);
    this.#staged = undefined;
    this.#visible.clear();
    this.#dependents = undefined;
  }

  flag(key: string): FlagRecord | undefined {
    return this.#flags.get(key);
  }

  segment(key: string): RevivedSegment | undefined {
    return this.#segments.get(key)?.segment;
  }

  /** What an audience sees, in key order; of `keys` only, when they are given. */
  visible(audience: EvaluationAudience, keys: readonly string[] | undefined): readonly FlagRecord[] {
    if (keys !== undefined) {
      const records = [...new Set(keys)].toSorted().map((key) => this.#flags.get(key));
      return records.filter((record) => record !== undefined && isVisible(record.flag, audience)) as FlagRecord[];
    }
    let records = this.#visible.get(audience);
    if (records === undefined) {
      records = [...this.#flags.values()]
        .filter(({ flag }) => isVisible(flag, audience))
        .sort((a, b) => (a.key < b.key ? -1 : 1));
      this.#visible.set(audience, records);
    }
    return records;
  }

  /** Flags whose value may change when these items do: themselves, and whatever leads to them. */
  affected(changed: readonly (readonly [kind: string, key: string])[]): string[] {
    const { flags, segments } = (this.#dependents ??= this.#invert());
    const affected = new Set<string>();
    const reached = new Set<string>();
    const waiting = changed.filter(([kind]) => kind === 'flags' || kind === 'segments');
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [kind, key] = next;
      const known = kind === 'flags' ? affected : reached;
      if (known.has(key)) continue;
      known.add(key);
      const dependents = kind === 'flags' ? flags : segments;
      for (const flag of dependents.flags.get(key) ?? NO_KEYS) waiting.push(['flags', flag]);
      for (const segment of dependents.segments.get(key) ?? NO_KEYS) waiting.push(['segments', segment]);
    }
    return [...affected].toSorted();
  }

  #flagOf(key: string, version: number, text: string | undefined): FlagRecord | undefined {
    return this.#read('flags', key, text, (item) => {
      const flag = item as RevivedFlag;
      if (flag.deleted === true) return undefined;
      const clauses = (flag.rules ?? []).flatMap((rule) => rule?.clauses ?? []);
      const prerequisites = (flag.prerequisites ?? []).map((prerequisite) => prerequisite?.key);
      return {
        key,
        version,
        flag,
        values: new Map(),
        dependsOn: { flags: prerequisites, segments: segmentsIn(clauses) },
      };
    });
  }

  #segmentOf(key: string, text: string | undefined): SegmentRecord | undefined {
    return this.#read('segments', key, text, (item) => {
      const segment = item as RevivedSegment;
      if (segment.deleted === true) return undefined;
      const clauses = (segment.rules ?? []).flatMap((rule) => rule?.clauses ?? []);
      return { segment, dependsOn: { flags: NO_KEYS, segments: segmentsIn(clauses) } };
    });
  }

  #read<T>(
    kind: 'flags' | 'segments',
    key: string,
    text: string | undefined,
    make: (item: object) => T,
  ): T | undefined {
    if (text === undefined) return undefined;
    try {
      return make(this.#vendor.revive(kind, text));
    } catch (thrown) {
      this.#unreadable(kind, key, String(thrown));
      return undefined;
    }
  }

  #invert(): { readonly flags: Dependents; readonly segments: Dependents } {
    const inverted = { flags: new Dependents(), segments: new Dependents() };
    for (const [key, { dependsOn }] of this.#flags) {
      for (const flag of dependsOn.flags) add(inverted.flags.flags, flag, key);
      for (const segment of dependsOn.segments) add(inverted.segments.flags, segment, key);
    }
    for (const [key, { dependsOn }] of this.#segments) {
      for (const segment of dependsOn.segments) add(inverted.segments.segments, segment, key);
    }
    return inverted;
  }
}

/** Who depends on an item, by its key. */
class Dependents {
  readonly flags = new Map<string, string[]>();
  readonly segments = new Map<string, string[]>();
}

function add(lists: Map<string, string[]>, key: string, dependent: string): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [dependent]);
  else list.push(dependent);
}

function put<T>(records: Map<string, T>, staged: ReadonlyMap<string, T | undefined>): void {
  for (const [key, record] of staged) {
    if (record === undefined) records.delete(key);
    else records.set(key, record);
  }
}

function segmentsIn(clauses: readonly Clause[]): readonly string[] {
  const matching = clauses.filter((clause) => clause?.op === 'segmentMatch');
  return matching.length === 0 ? NO_KEYS : matching.flatMap(({ values }) => (values ?? []).map(String));
}

/** A flag from before there was a choice says by one member whether browsers see it; phones then see all. */
function isVisible({ clientSide, clientSideAvailability }: RevivedFlag, audience: EvaluationAudience): boolean {
  if (audience === 'server') return true;
  if (clientSideAvailability === undefined) return audience === 'mobile' || clientSide === true;
  if (audience === 'mobile') return clientSideAvailability.usingMobileKey ?? true;
  return clientSideAvailability.usingEnvironmentId ?? false;
}
