import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import {
  type AutoConfigMessage,
  type EnvironmentRep,
  type FilterRep,
  isMalformed,
  type Malformed,
  parseEnvironment,
  parseFilter,
  type Reps,
} from './autoconfig-reps.ts';
import type { SourceEnvironment } from './source.ts';

/** An environment as the automatic configuration has it. */
export interface AutoConfigEnvironment extends SourceEnvironment {
  /** The payload filters of its project, in order, each once. */
  readonly filterKeys: readonly string[];
}

/** How many deletions of a kind are remembered: far more than happen between two times that everything is told. */
const TOMBSTONES_MAX = 1000;

const SAVED = z.object({
  environments: z.array(z.tuple([z.string(), z.unknown()])),
  filters: z.array(z.tuple([z.string(), z.unknown()])),
  tombstones: z.object({
    environments: z.array(z.tuple([z.string(), z.number()])),
    filters: z.array(z.tuple([z.string(), z.number()])),
  }),
});

/**
 * What is known of the automatic configuration. Pure: it neither listens nor tells.
 *
 * A description or a deletion counts only when its version is above what is known of its ID, deletions included. What a
 * put does not have is gone, and so is the memory of its version: the put names no version to compare with, so if it came
 * from a replica that is behind, the next one must be able to bring the environment back under the version it had.
 */
export class AutoConfigState {
  readonly #environments: VersionedReps<EnvironmentRep>;
  readonly #filters: VersionedReps<FilterRep>;
  /** As they were shown last: what did not change is the same object, which makes it cheap to compare. */
  #shown = new Map<string, AutoConfigEnvironment>();
  readonly #madeOf = new WeakMap<AutoConfigEnvironment, EnvironmentRep>();

  constructor(tombstonesMax: number = TOMBSTONES_MAX) {
    this.#environments = new VersionedReps(tombstonesMax);
    this.#filters = new VersionedReps(tombstonesMax);
  }

  /** Takes a message over. Answers whether anything is known now that was not before, be it only a version. */
  apply(message: AutoConfigMessage): boolean {
    switch (message.kind) {
      case 'put': {
        const changed = this.#environments.put(message.environments);
        return this.#filters.put(message.filters) || changed;
      }
      case 'patch':
        return message.of === 'environments'
          ? this.#environments.patch(message.id, message.rep)
          : this.#filters.patch(message.id, message.rep);
      case 'delete':
        return (message.of === 'environments' ? this.#environments : this.#filters).delete(message.id, message.version);
      case 'malformed':
      case 'unknown':
      case 'reconnect':
        return false;
    }
  }

  /** Every environment, with the filters of its project. */
  environments(): Map<string, AutoConfigEnvironment> {
    const keysOf = new Map<string, Set<string>>();
    for (const [, { projKey, key }] of this.#filters.live()) {
      const keys = keysOf.get(projKey) ?? new Set();
      keysOf.set(projKey, keys.add(key));
    }
    const sorted = new Map(Array.from(keysOf, ([projKey, keys]) => [projKey, Array.from(keys).toSorted()]));
    const all = new Map<string, AutoConfigEnvironment>();
    for (const [id, rep] of this.#environments.live()) {
      const { projKey } = rep.environment;
      all.set(id, this.#show(id, rep, (projKey === undefined ? undefined : sorted.get(projKey)) ?? []));
    }
    this.#shown = all;
    return new Map(all);
  }

  /** Everything that is known, as JSON. */
  save(): string {
    const saved: z.infer<typeof SAVED> = {
      environments: Array.from(this.#environments.live(), ([id, { raw }]) => [id, raw]),
      filters: Array.from(this.#filters.live(), ([id, { raw }]) => [id, raw]),
      tombstones: {
        environments: Array.from(this.#environments.tombstones()),
        filters: Array.from(this.#filters.tombstones()),
      },
    };
    return JSON.stringify(saved);
  }

  /**
   * Takes over what {@link save} gave, in place of what is known. Answers what of it cannot be read and was left out;
   * undefined when it has another form, and nothing was taken.
   */
  restore(json: string): readonly Malformed[] | undefined {
    const parsed = SAVED.safeParse(parseJson(json));
    if (!parsed.success) return undefined;
    const { environments, filters, tombstones } = parsed.data;
    const malformed: Malformed[] = [];
    this.#environments.restore(readable(environments, parseEnvironment, malformed), tombstones.environments);
    this.#filters.restore(readable(filters, parseFilter, malformed), tombstones.filters);
    return malformed;
  }

  #show(id: string, rep: EnvironmentRep, filterKeys: readonly string[]): AutoConfigEnvironment {
    const before = this.#shown.get(id);
    const isSame = before !== undefined && this.#madeOf.get(before) === rep;
    if (isSame && isDeepStrictEqual(before.filterKeys, filterKeys)) return before;
    const environment = { ...rep.environment, filterKeys };
    this.#madeOf.set(environment, rep);
    return environment;
  }
}

/** Descriptions of one kind by ID, and the versions at which others were deleted. */
class VersionedReps<R extends { readonly version: number }> {
  readonly #live = new Map<string, R>();
  /** Insertion order is age. */
  readonly #tombstones = new Map<string, number>();
  readonly #tombstonesMax: number;

  constructor(tombstonesMax: number) {
    this.#tombstonesMax = tombstonesMax;
  }

  live(): Iterable<[string, R]> {
    return this.#live;
  }

  tombstones(): Iterable<[string, number]> {
    return this.#tombstones;
  }

  put(reps: Reps<R>): boolean {
    let changed = false;
    for (const [id, rep] of reps) if (rep !== undefined && this.patch(id, rep)) changed = true;
    for (const known of [this.#live, this.#tombstones]) {
      for (const id of known.keys()) if (!reps.has(id)) changed = known.delete(id) || changed;
    }
    return changed;
  }

  patch(id: string, rep: R): boolean {
    if (!this.#rises(id, rep.version)) return false;
    this.#tombstones.delete(id);
    this.#live.set(id, rep);
    return true;
  }

  delete(id: string, version: number): boolean {
    if (!this.#rises(id, version)) return false;
    this.#live.delete(id);
    this.#bury(id, version);
    return true;
  }

  restore(live: Iterable<[string, R]>, tombstones: Iterable<[string, number]>): void {
    this.#live.clear();
    this.#tombstones.clear();
    for (const [id, rep] of live) this.#live.set(id, rep);
    for (const [id, version] of tombstones) this.#bury(id, version);
  }

  #rises(id: string, version: number): boolean {
    const known = this.#live.get(id)?.version ?? this.#tombstones.get(id);
    return known === undefined || version > known;
  }

  #bury(id: string, version: number): void {
    this.#tombstones.delete(id);
    this.#tombstones.set(id, version);
    if (this.#tombstones.size <= this.#tombstonesMax) return;
    const [oldest] = this.#tombstones.keys();
    if (oldest !== undefined) this.#tombstones.delete(oldest);
  }
}

function readable<R extends EnvironmentRep | FilterRep>(
  saved: readonly (readonly [string, unknown])[],
  parse: (id: string, raw: unknown) => R | Malformed,
  malformed: Malformed[],
): [string, R][] {
  const read: [string, R][] = [];
  for (const [id, raw] of saved) {
    const rep = parse(id, raw);
    if (isMalformed(rep)) malformed.push(rep);
    else read.push([id, rep]);
  }
  return read;
}

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
