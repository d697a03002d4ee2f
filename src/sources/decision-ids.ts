import { hash as hashOf } from 'node:crypto';

/** What makes a decision of a file the same one in another version of that file. */
export interface Identity {
  /** Whether it lasts as long as it is listed. */
  readonly leased: boolean;
  readonly scope: string;
  readonly type: string;
  readonly value: string;
  readonly origin: string;
  readonly scenario: string;
}

/** 2^39: an id has 40 bits, the lowest of which says whether the decision is leased. */
const HASHES = 2 ** 39;
/** A hash has 32 bytes: four for the check, and seven times four for ids. */
const ATTEMPTS_MAX = 6;
const SLOTS_MIN = 1024;
const FREE = -1;

/** Two decisions have one hash. Reading begins anew, with both of them avoiding it. */
export class IdCollision extends Error {}

/**
 * Numbers for the decisions of a file: of a decision's own content alone, so that they are the same after a restart, in
 * another order, and beside other decisions.
 *
 * The number is 39 bits of a hash. Among 500,000 decisions two have the same ones in one of five sets. Then neither may
 * have it: both take the next bits of their hashes, whichever of them stands first.
 */
export class DecisionIds {
  /** Hashes that more than one decision has. */
  readonly #taken: Set<number>;
  /** By slot: a hash, and more bits of the hash that it is from. */
  #ids: Float64Array = new Float64Array(SLOTS_MIN).fill(FREE);
  #checks: Uint32Array = new Uint32Array(SLOTS_MIN);
  #untils: Float64Array = new Float64Array(SLOTS_MIN);
  #size = 0;

  /** @param taken - the hashes that were found to collide in earlier readings; more are added to it */
  constructor(taken: Set<number>) {
    this.#taken = taken;
  }

  /**
   * The number of a decision; undefined when it was there already and ended no earlier. When it is there a second time
   * and ends later it is given again.
   *
   * @throws IdCollision when reading must begin anew
   */
  take(identity: Identity, untilMs: number): number | undefined {
    const { leased } = identity;
    const hash = hashed(identity);
    const check = hash.readUInt32LE(28);
    let id = idIn(hash, 0);
    for (let attempt = 1; this.#taken.has(id); attempt++) {
      if (attempt > ATTEMPTS_MAX) throw new Error(`Cannot number a decision: its hash is taken, got ${identity.value}`);
      id = idIn(hash, attempt);
    }
    const slot = this.#slotOf(id);
    if (this.#ids[slot] === FREE) {
      this.#put(slot, { id, check, untilMs });
      return shownId(id, leased);
    }
    if (this.#checks[slot] !== check) {
      this.#taken.add(id);
      throw new IdCollision();
    }
    if (untilMs <= (this.#untils[slot] as number)) return undefined;
    this.#untils[slot] = untilMs;
    return shownId(id, leased);
  }

  #put(slot: number, { id, check, untilMs }: { id: number; check: number; untilMs: number }): void {
    this.#ids[slot] = id;
    this.#checks[slot] = check;
    this.#untils[slot] = untilMs;
    this.#size++;
    if (this.#size * 2 > this.#ids.length) this.#grow();
  }

  #slotOf(id: number): number {
    let slot = id % this.#ids.length;
    while (this.#ids[slot] !== FREE && this.#ids[slot] !== id) slot = (slot + 1) % this.#ids.length;
    return slot;
  }

  #grow(): void {
    const [ids, checks, untils] = [this.#ids, this.#checks, this.#untils];
    this.#ids = new Float64Array(ids.length * 2).fill(FREE);
    this.#checks = new Uint32Array(ids.length * 2);
    this.#untils = new Float64Array(ids.length * 2);
    for (let old = 0; old < ids.length; old++) {
      const id = ids[old] as number;
      if (id === FREE) continue;
      const slot = this.#slotOf(id);
      this.#ids[slot] = id;
      this.#checks[slot] = checks[old] as number;
      this.#untils[slot] = untils[old] as number;
    }
  }
}

function hashed({ leased, scope, type, value, origin, scenario }: Identity): Buffer {
  return hashOf('sha256', JSON.stringify([leased, scope, type, value, origin, scenario]), 'buffer');
}

function idIn(hash: Buffer, attempt: number): number {
  return (hash.readUInt32LE(attempt * 4) * 128 + (hash[attempt * 4 + 4] as number)) % HASHES;
}

function shownId(id: number, leased: boolean): number {
  return id * 2 + (leased ? 1 : 0);
}

/** Whether a number is one that this decision can have. */
export function isIdOf(id: number, identity: Identity): boolean {
  const hash = hashed(identity);
  for (let attempt = 0; attempt <= ATTEMPTS_MAX; attempt++) {
    if (shownId(idIn(hash, attempt), identity.leased) === id) return true;
  }
  return false;
}

/** Whether a decision of this number lasts as long as it is listed. */
export function isLeased(id: number): boolean {
  return id % 2 === 1;
}
