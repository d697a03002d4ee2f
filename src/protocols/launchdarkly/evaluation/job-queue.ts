/** What waits for a thread. */
export interface Queued {
  readonly environmentId: string;
}

/** Waiting work: in order of arrival within an environment, and by turns between environments. */
export class JobQueue<T extends Queued> {
  /** The environment whose turn it is comes first. */
  readonly #waiting = new Map<string, T[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(job: T): void {
    const jobs = this.#waiting.get(job.environmentId);
    if (jobs === undefined) this.#waiting.set(job.environmentId, [job]);
    else jobs.push(job);
    this.#size++;
  }

  /** For work that had its turn already, and lost it. */
  pushFirst(job: T): void {
    const jobs = this.#waiting.get(job.environmentId);
    if (jobs === undefined) this.#waiting.set(job.environmentId, [job]);
    else jobs.unshift(job);
    this.#size++;
  }

  take(): T | undefined {
    const next = this.#waiting.entries().next();
    if (next.done === true) return undefined;
    const [environmentId, jobs] = next.value;
    const job = jobs.shift();
    this.#waiting.delete(environmentId);
    if (jobs.length > 0) this.#waiting.set(environmentId, jobs);
    this.#size--;
    return job;
  }

  /** Takes a job out of turn. */
  remove(job: T): void {
    const jobs = this.#waiting.get(job.environmentId);
    const at = jobs?.indexOf(job) ?? -1;
    if (jobs === undefined || at < 0) return;
    jobs.splice(at, 1);
    if (jobs.length === 0) this.#waiting.delete(job.environmentId);
    this.#size--;
  }

  /** Takes all, or all of one environment. */
  takeAll(environmentId?: string): T[] {
    const taken = environmentId === undefined ? [...this.#waiting.values()].flat() : this.#waiting.get(environmentId);
    if (environmentId === undefined) this.#waiting.clear();
    else this.#waiting.delete(environmentId);
    this.#size -= taken?.length ?? 0;
    return taken ?? [];
  }
}
