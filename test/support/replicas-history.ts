/** An item or a deletion as clients see it. */
export interface ReplicaChange {
  /** Kind and key. */
  readonly id: string;
  readonly version: number;
  readonly deleted: boolean;
}

/** What an upstream did: what a client may see follows from it. */
export class ReplicasHistory {
  readonly live: Map<string, number> = new Map();
  /** The last version that each deleted item was deleted at. */
  readonly #graves = new Map<string, number>();

  take({ id, version, deleted }: ReplicaChange): void {
    if (deleted) {
      this.live.delete(id);
      this.#graves.set(id, version);
    } else this.live.set(id, version);
  }

  /** Whether an item that was seen at this version was deleted after it. */
  isGoneSince(id: string, version: number): boolean {
    return (this.#graves.get(id) ?? -1) > version;
  }
}

/** What one client holds, and whether it was ever taken back. */
export class ReplicaView {
  readonly live: Map<string, number> = new Map();
  /** Of each item, the newest version that was seen, deletions included. */
  readonly #seen = new Map<string, number>();
  readonly #history: ReplicasHistory;
  /** How often something older than what had been seen arrived. */
  stepsBack = 0;
  /** The first of them, to be read. */
  firstStep: string | undefined;

  constructor(history: ReplicasHistory) {
    this.#history = history;
  }

  /** Changes that an SDK takes one by one, the lower version of two being old news. */
  change(change: ReplicaChange): void {
    const seen = this.#seen.get(change.id) ?? -1;
    if (change.version < seen) this.#step(`${change.id} at ${change.version} after ${seen}`);
    this.#take(change);
  }

  /** Everything anew, as an SDK takes it: without looking at what it had. */
  full(items: readonly ReplicaChange[]): void {
    const before = new Map(this.live);
    let older: string | undefined;
    for (const { id, version } of items) {
      const seen = this.#seen.get(id) ?? -1;
      const isBack = version < seen || (version === seen && !before.has(id));
      if (isBack) older ??= `${id} at ${version} after ${seen}${before.has(id) ? '' : ', deleted'} in a full copy`;
      before.delete(id);
    }
    for (const [id, version] of before) {
      if (!this.#history.isGoneSince(id, version)) older ??= `no ${id} after ${version} in a full copy`;
    }
    if (older !== undefined) this.#step(older);
    this.live.clear();
    for (const item of items) this.#take(item);
  }

  /** The items whose versions are not the upstream's. */
  get differing(): readonly string[] {
    const ids = new Set([...this.live.keys(), ...this.#history.live.keys()]);
    return [...ids].filter((id) => this.live.get(id) !== this.#history.live.get(id));
  }

  #take({ id, version, deleted }: ReplicaChange): void {
    this.#seen.set(id, Math.max(version, this.#seen.get(id) ?? -1));
    if (deleted) this.live.delete(id);
    else this.live.set(id, version);
  }

  #step(what: string): void {
    this.stepsBack += 1;
    this.firstStep ??= what;
  }
}
