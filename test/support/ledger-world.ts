import assert, { deepEqual, equal } from 'node:assert/strict';
import fc from 'fast-check';
import { type Decision, ENFORCED, type Filter, Ledger } from '../../src/dataset/decisions/index.ts';
import { deltaOf, fullOf, groupName, liveRows, load, NOW_MS, patch } from './ledger-kit.ts';

const MARGIN_MS = 10_000;
const KEEP_MS = 60_000;
/** True ends are multiples of it, so that no two of them are within the tolerance. */
const STEP_MS = 7000;
const TOLERANCE_MS = 1500;
/** A tick at least so often: late ones would tell later ends too late. */
const TICK_MS_MAX = MARGIN_MS / 2;

const ANY: Filter = { ...ENFORCED, scopes: undefined };
const FILTERS: readonly Filter[] = [
  ENFORCED,
  { ...ANY, simulated: true },
  { ...ANY, origins: ['CAPI'] },
  { ...ANY, origins: ['CAPI', 'cscli'], scenariosContaining: ['ssh'] },
  { ...ANY, scenariosNotContaining: ['ssh'], simulated: true },
];

/** Bouncers that are away, kept at most. */
const AWAY_MAX = 40;

interface Told {
  readonly id: number;
  readonly what: number;
  readonly steps: number;
  readonly jitterMs: number;
}

/** Few of each, so that rows meet: in a group, in an id, in an end. */
const CONTENTS: readonly Partial<Decision>[] = [
  { origin: 'CAPI', scenario: 'ssh' },
  { origin: 'CAPI', scenario: 'http' },
  { origin: 'cscli', scenario: 'ssh' },
  { origin: 'cscli', scenario: 'ssh', value: '192.0.2.2' },
  { origin: 'cscli', scenario: 'ssh', simulated: true },
  { origin: 'cscli', scenario: 'http', scope: 'Country', value: 'AQ' },
];
const told: fc.Arbitrary<Told> = fc.record({
  id: fc.nat(5),
  what: fc.nat(CONTENTS.length - 1),
  steps: fc.integer({ min: -1, max: 15 }),
  jitterMs: fc.nat(TOLERANCE_MS),
});

/** What can happen. */
export type Step =
  | { readonly kind: 'full'; readonly source: number; readonly told: readonly Told[]; readonly simulatedToo: boolean }
  | { readonly kind: 'patch'; readonly source: number; readonly told: readonly Told[]; readonly removedIds: number[] }
  | { readonly kind: 'again'; readonly steps: number; readonly idsFrom: number; readonly keep: boolean }
  | { readonly kind: 'move'; readonly at: number; readonly steps: number; readonly as: 'same' | 'another' | 'instead' }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'follow' }
  | { readonly kind: 'restart' };

export const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('full' as const),
      source: fc.nat(1),
      told: fc.array(told, { maxLength: 6 }),
      simulatedToo: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('patch' as const),
      source: fc.nat(1),
      told: fc.array(told, { maxLength: 2 }),
      removedIds: fc.array(fc.nat(5), { maxLength: 2 }),
    }),
  },
  // a list that is imported anew: the same decisions under other ids, with later ends
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('again' as const),
      steps: fc.integer({ min: 0, max: 9 }),
      idsFrom: fc.integer({ min: 6, max: 40 }),
      keep: fc.boolean(),
    }),
  },
  // one decision gets another end, under its id, beside it under another id, or in its place
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('move' as const),
      at: fc.nat(5),
      steps: fc.integer({ min: -4, max: 9 }),
      as: fc.constantFrom('same' as const, 'another' as const, 'instead' as const),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(3 * TICK_MS_MAX) }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'follow' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
);

/** What a source says, as the ledger should hold it. */
interface Held {
  readonly content: string;
  readonly untilMs: number;
}

/** A bouncer: what it was told of each group, up to its cursor. */
interface Bouncer {
  readonly filter: Filter;
  readonly dedup: boolean;
  /** After every step, after some, or never: one that comes with a full copy, and is away from then on. */
  readonly polls: 'always' | 'sometimes' | 'never';
  from: number;
  ends: Map<string, number>;
}

function contentOf({ uuid, origin, scenario, scope, type, value, simulated }: Decision): string {
  return JSON.stringify([uuid ?? '', origin, scenario, scope, type, value, simulated]);
}

/**
 * A ledger with its sources, its store and its bouncers, and what each of them should know.
 *
 * `check` throws when one does not.
 */
export class World {
  ledger: Ledger;
  readonly store: Map<string, Uint8Array> = new Map();
  readonly bouncers: Bouncer[] = [];
  readonly held: Map<string, Held> = new Map();
  nowMs: number = NOW_MS;
  #moves = 0;
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
    this.ledger = this.#make();
    for (const polls of ['always', 'sometimes', 'never'] as const) this.#meet(polls);
  }

  async do(step: Step): Promise<void> {
    if (step.kind === 'full') await this.#full(step);
    else if (step.kind === 'patch') await this.#patch(step);
    else if (step.kind === 'again') await this.#again(step);
    else if (step.kind === 'move') await this.#move(step);
    else if (step.kind === 'pass') await this.#pass(step.ms);
    else if (step.kind === 'restart') await this.#restart();
    this.#follow(step.kind === 'follow');
    this.#meet('never');
  }

  check(): void {
    this.#checkHeld();
    for (const bouncer of this.bouncers) this.#checkBouncer(bouncer);
  }

  #make(): Ledger {
    const ledger = new Ledger({
      refreshMarginMs: MARGIN_MS,
      keepExpiredMs: KEEP_MS,
      sources: 2,
      tombstonesMax: 12,
      random: this.#random,
    });
    ledger.subscribe((commit) => {
      for (const [key, value] of commit.records()) {
        if (value === undefined) assert(this.store.delete(key), `nothing is stored under ${key}`);
        else this.store.set(key, value);
      }
    });
    return ledger;
  }

  decisionOf({ id, what, steps, jitterMs }: Told): Decision {
    const trueEndMs = NOW_MS + Math.ceil((this.nowMs - NOW_MS) / STEP_MS + steps) * STEP_MS;
    const ordinary = { uuid: undefined, scope: 'Ip', type: 'ban', value: '192.0.2.1', simulated: false };
    return { ...ordinary, origin: '', scenario: '', ...CONTENTS[what], id, untilMs: trueEndMs + jitterMs };
  }

  async #full({ source, told, simulatedToo }: Step & { kind: 'full' }): Promise<void> {
    const decisions = told.map((one) => this.decisionOf(one));
    await load(this.ledger, decisions, { source, simulatedToo, nowMs: this.nowMs, toleranceMs: TOLERANCE_MS });
    const ids = new Set(decisions.map(({ id }) => id));
    for (const [key, { content }] of this.held) {
      const [of = '', id = ''] = key.split(':');
      const isSimulated = content.endsWith('true]');
      if (of === String(source) && !ids.has(Number(id)) && (simulatedToo || !isSimulated)) this.held.delete(key);
    }
    this.#hold(source, decisions);
  }

  async #patch({ source, told, removedIds }: Step & { kind: 'patch' }): Promise<void> {
    const decisions = told.map((one) => this.decisionOf(one));
    await patch(this.ledger, decisions, { source, removedIds, nowMs: this.nowMs, toleranceMs: TOLERANCE_MS });
    for (const id of removedIds) this.held.delete(`${source}:${id}`);
    this.#hold(source, decisions);
  }

  /** The decisions of source 0 come again under other ids; the old ones go at once, or stay until a full copy. */
  async #again({ steps, idsFrom, keep }: Step & { kind: 'again' }): Promise<void> {
    const { rows } = this.ledger;
    const mine = liveRows(this.ledger).filter((row) => rows.source[row] === 0);
    const anew = mine.map((row, at) => this.#movedOf(row, { id: idsFrom + at, steps }));
    const o = { nowMs: this.nowMs, toleranceMs: TOLERANCE_MS };
    if (keep) await patch(this.ledger, anew, o);
    else await load(this.ledger, anew, { ...o, simulatedToo: true });
    if (!keep) for (const key of this.held.keys()) if (key.startsWith('0:')) this.held.delete(key);
    this.#hold(0, anew);
  }

  async #move({ at, steps, as }: Step & { kind: 'move' }): Promise<void> {
    const { rows } = this.ledger;
    const row = liveRows(this.ledger)[at];
    if (row === undefined) return;
    const source = rows.source[row] as number;
    const own = (rows.id[row] as number) - source * 2 ** 40;
    const id = as === 'same' ? own : 50 + this.#moves++;
    const removedIds = as === 'instead' ? [own] : [];
    const moved = [this.#movedOf(row, { id, steps })];
    await patch(this.ledger, moved, { source, removedIds, nowMs: this.nowMs, toleranceMs: TOLERANCE_MS });
    for (const removed of removedIds) this.held.delete(`${source}:${removed}`);
    this.#hold(source, moved);
  }

  /** The decision of a row with another id and another end. */
  #movedOf(row: number, o: { id: number; steps: number }): Decision {
    const trueEndMs = NOW_MS + Math.floor(((this.ledger.rows.untilMs[row] as number) - NOW_MS) / STEP_MS) * STEP_MS;
    const untilMs = trueEndMs + o.steps * STEP_MS + (o.id % 2) * TOLERANCE_MS;
    return { ...this.#decisionOf(row), id: o.id, untilMs };
  }

  #hold(source: number, decisions: readonly Decision[]): void {
    const last = new Map(decisions.map((decision) => [decision.id, decision]));
    for (const decision of last.values()) {
      const key = `${source}:${decision.id}`;
      const content = contentOf(decision);
      const before = this.held.get(key);
      const { untilMs } = decision;
      if (untilMs <= this.nowMs) this.held.delete(key);
      else if (before?.content === content && Math.abs(before.untilMs - untilMs) <= TOLERANCE_MS)
        this.held.set(key, { content, untilMs: Math.min(before.untilMs, untilMs) });
      else this.held.set(key, { content, untilMs });
    }
  }

  async #pass(ms: number): Promise<void> {
    for (let leftMs = ms; leftMs >= 0; leftMs -= TICK_MS_MAX) {
      this.nowMs += Math.min(leftMs, TICK_MS_MAX);
      await this.ledger.tick(this.nowMs);
    }
    for (const [key, { untilMs }] of this.held) if (untilMs <= this.nowMs) this.held.delete(key);
  }

  /** The ledger is made anew from what was stored; what it says must be the same. */
  async #restart(): Promise<void> {
    const before = this.ledger;
    this.ledger = this.#make();
    const { offset, reach } = before;
    await this.ledger.restore(this.store, { offset, reach, nowMs: this.nowMs });
    deepEqual(this.#describe(this.ledger), this.#describe(before));
    // ends that were trimmed silently are not stored, and are known a little less well now
    const { rows } = this.ledger;
    for (const row of liveRows(this.ledger)) {
      const key = this.#keyOf(row);
      const held = this.held.get(key);
      if (held !== undefined) this.held.set(key, { ...held, untilMs: rows.untilMs[row] as number });
    }
  }

  #describe(ledger: Ledger): unknown {
    const { rows, offset, reach, count, tombstones } = ledger;
    const all = [...rows.order()].filter((row) => rows.added[row] !== 0);
    const described = all.map((row) => {
      const columns = [rows.id, rows.source, rows.toldMs, rows.added, rows.touched, rows.removed, rows.simulated];
      const trueEnd = Math.floor(((rows.untilMs[row] as number) - NOW_MS) / STEP_MS);
      return [...columns.map((column) => column[row]), trueEnd, groupName(rows, row), rows.text(row)];
    });
    const key = (value: unknown): string => JSON.stringify(value);
    const counts = ledger.counts().map(key).toSorted();
    const sources = [ledger.sourceCount(0), ledger.sourceCount(1)];
    return { offset, reach, count, tombstones, counts, sources, rows: described.map(key).toSorted() };
  }

  #keyOf(row: number): string {
    const { rows } = this.ledger;
    const source = rows.source[row] as number;
    return `${source}:${(rows.id[row] as number) - source * 2 ** 40}`;
  }

  #contentOf(row: number): string {
    return contentOf(this.#decisionOf(row));
  }

  #decisionOf(row: number): Decision {
    const { rows } = this.ledger;
    return {
      id: rows.id[row] as number,
      untilMs: rows.untilMs[row] as number,
      uuid: rows.uuidOf(row) || undefined,
      origin: rows.origins.textOf(rows.origin[row] as number),
      scenario: rows.scenarios.textOf(rows.scenario[row] as number),
      scope: rows.scopes.textOf(rows.scope[row] as number),
      type: rows.types.textOf(rows.type[row] as number),
      value: rows.valueOf(row),
      simulated: rows.simulated[row] === 1,
    };
  }

  #checkHeld(): void {
    const { rows } = this.ledger;
    const found = new Map(
      liveRows(this.ledger).map((row) => [
        this.#keyOf(row),
        { content: this.#contentOf(row), untilMs: rows.untilMs[row] as number },
      ]),
    );
    deepEqual(found, this.held);
    equal(this.ledger.count, found.size);
  }

  /** Comes with a full copy, for each filter. */
  #meet(polls: Bouncer['polls']): void {
    const away = this.bouncers.filter((bouncer) => bouncer.polls === 'never');
    if (away.length > AWAY_MAX)
      for (const bouncer of away.slice(0, FILTERS.length * 2)) this.bouncers.splice(this.bouncers.indexOf(bouncer), 1);
    for (const filter of FILTERS) {
      for (const dedup of [true, false]) {
        const ends = this.#endsOf({ filter, dedup });
        this.bouncers.push({ filter, dedup, polls, from: this.ledger.offset, ends });
      }
    }
  }

  #follow(some: boolean): void {
    for (const bouncer of this.bouncers) {
      if (bouncer.polls === 'never' || (bouncer.polls === 'sometimes' && !some)) continue;
      // away for longer than the ledger remembers: it gets a full copy
      bouncer.ends = bouncer.from < this.ledger.reach ? this.#endsOf(bouncer) : this.#after(bouncer);
      bouncer.from = this.ledger.offset;
    }
  }

  /** What a full copy tells. */
  #endsOf({ filter, dedup }: Pick<Bouncer, 'filter' | 'dedup'>): Map<string, number> {
    const ends = new Map<string, number>();
    const { rows } = this.ledger;
    for (const row of fullOf(this.ledger, filter, dedup).fresh) {
      const name = groupName(rows, row);
      ends.set(name, Math.max(ends.get(name) ?? 0, rows.untilMs[row] as number));
    }
    return ends;
  }

  /** What a bouncer would hold after its next delta. */
  #after({ filter, dedup, from, ends }: Bouncer): Map<string, number> {
    const { rows } = this.ledger;
    const after = new Map(ends);
    const { fresh, gone } = deltaOf(this.ledger, filter, { dedup, from });
    const freshNames = new Map<string, number>();
    for (const row of fresh) {
      const name = groupName(rows, row);
      freshNames.set(name, Math.max(freshNames.get(name) ?? 0, rows.untilMs[row] as number));
    }
    for (const row of gone) {
      const name = groupName(rows, row);
      assert(!freshNames.has(name), `in both lists: ${name}`);
      after.delete(name);
    }
    for (const [name, untilMs] of freshNames) {
      // who asks for all rows of a value is taken to keep the longest of them
      after.set(name, dedup ? untilMs : Math.max(untilMs, after.get(name) ?? 0));
    }
    return after;
  }

  #checkBouncer(bouncer: Bouncer): void {
    const { ledger } = this;
    if (bouncer.from < ledger.reach) return;
    const after = this.#after(bouncer);
    const { rows } = ledger;
    const full = new Map<string, number>();
    for (const row of fullOf(ledger, bouncer.filter, true).fresh) full.set(groupName(rows, row), row);
    deepEqual(new Set(after.keys()), new Set(full.keys()), `from ${bouncer.from}`);
    for (const [name, row] of full) this.#checkEnd({ bouncer, name, row, end: after.get(name) as number });
  }

  #checkEnd({ bouncer, name, row, end }: { bouncer: Bouncer; name: string; row: number; end: number }): void {
    const { rows } = this.ledger;
    const untilMs = rows.untilMs[row] as number;
    const toldMs = rows.toldMs[row] as number;
    const what = `${name} from ${bouncer.from} ${JSON.stringify(bouncer.filter)}: knows ${end - NOW_MS}, it is ${untilMs - NOW_MS}, told ${toldMs - NOW_MS}, now ${this.nowMs - NOW_MS}`;
    if (toldMs < untilMs) {
      // a later end is held back: until it is told, nobody may have let the ban go
      assert(end >= toldMs - TOLERANCE_MS, what);
      assert(end > this.nowMs, `over already: ${what}`);
      if (bouncer.dedup) assert(end <= untilMs + TOLERANCE_MS, what);
    } else if (bouncer.dedup) {
      assert(Math.abs(end - untilMs) <= TOLERANCE_MS, what);
    }
  }
}
