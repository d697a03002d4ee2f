import type { DataSet } from '../../../dataset/index.ts';
import { type Clock, HeadgateError } from '../../../kernel/index.ts';
import { JobQueue } from './job-queue.ts';
import { Slot, ThreadEnded } from './slot.ts';
import { beginThread } from './thread.ts';
import type { AffectedMessage, Answer, EvaluateMessage, EvaluationThread, UnreadableMessage } from './types.ts';

const ATTEMPTS_MAX = 2;
const BACKOFF_MS_MIN = 1000;
const BACKOFF_MS_MAX = 30_000;
/** Items of which it was said that they cannot be read: told once, though each thread finds it out anew. */
const UNREADABLE_MAX = 1000;

/** What threads need from outside. */
export interface PoolOptions {
  readonly clock: Clock;
  readonly threads: number;
  readonly onFailure: (error: unknown) => void;
  readonly beginThread?: () => EvaluationThread;
}

/** A question for any thread, without its number. */
export type Question = Omit<EvaluateMessage, 'number'> | Omit<AffectedMessage, 'number'>;

interface Job {
  readonly environmentId: string;
  readonly question: Question;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  readonly signal: AbortSignal | undefined;
  attempts: number;
}

/**
 * Threads that evaluate, started by the first question. Each works on one question at a time, and is brought to the
 * newest data when that question's turn comes.
 */
export class Pool {
  readonly #options: PoolOptions;
  readonly #environments = new Map<string, DataSet>();
  readonly #queue = new JobQueue<Job>();
  readonly #slots = new Set<Slot>();
  readonly #unreadable = new Set<string>();
  #started = false;
  #closed = false;
  /** Threads that ended one after the other before they had done anything. */
  #failedStarts = 0;
  /** Why the last one could not be started; undefined since one could. */
  #cannotStart: string | undefined;
  #threadFailures = 0;
  #itemFailures = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get stats(): { threads: number; queued: number; running: number; threadFailures: number; itemFailures: number } {
    return {
      threads: this.#slots.size,
      queued: this.#queue.size,
      running: [...this.#slots].filter(({ busy }) => busy).length,
      threadFailures: this.#threadFailures,
      itemFailures: this.#itemFailures,
    };
  }

  attach(environmentId: string, data: DataSet): void {
    this.#environments.set(environmentId, data);
    this.changed(environmentId);
  }

  detach(environmentId: string): void {
    this.#environments.delete(environmentId);
    for (const { reject } of this.#queue.takeAll(environmentId)) reject(unknownEnvironment(environmentId));
    this.changed(environmentId);
  }

  /** Has threads that hold this environment follow its data, when they have nothing else to do. */
  changed(environmentId: string): void {
    for (const slot of this.#slots) {
      if (!slot.feed.has(environmentId)) continue;
      slot.stale.add(environmentId);
      this.#wake(slot);
    }
  }

  /**
   * Asks a thread. Rejects when two threads ended over it, or one found no end; when none can be started; and when the
   * environment goes.
   */
  ask(question: Question, signal?: AbortSignal): Promise<Answer> {
    const { environmentId } = question;
    if (this.#closed) return Promise.reject(closed());
    if (!this.#environments.has(environmentId)) return Promise.reject(unknownEnvironment(environmentId));
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    this.#start();
    if (this.#slots.size === 0 && this.#cannotStart !== undefined)
      return Promise.reject(cannotStart(this.#cannotStart));
    return new Promise((resolve, reject) => {
      const job: Job = { environmentId, question, resolve, reject, signal, attempts: 0 };
      this.#queue.push(job);
      signal?.addEventListener('abort', () => this.#giveUp(job), { once: true });
      for (const slot of this.#slots) this.#wake(slot);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { reject } of this.#queue.takeAll()) reject(closed());
    const slots = [...this.#slots];
    this.#slots.clear();
    await Promise.all(slots.map((slot) => slot.end()));
  }

  #giveUp(job: Job): void {
    this.#queue.remove(job);
    job.reject(job.signal?.reason);
  }

  #start(): void {
    if (this.#started) return;
    this.#started = true;
    for (let count = 0; count < this.#options.threads; count++) this.#begin();
  }

  #begin(): void {
    if (this.#closed) return;
    const thread = (this.#options.beginThread ?? beginThread)();
    const slot: Slot = new Slot(thread, this.#options.clock, {
      ready: () => {
        this.#cannotStart = undefined;
        this.#wake(slot);
      },
      ended: (cause) => this.#ended(slot, cause),
      unreadable: (message) => this.#noteUnreadable(message),
    });
    this.#slots.add(slot);
  }

  #wake(slot: Slot): void {
    if (slot.serving || !slot.ready) return;
    void this.#serve(slot);
  }

  async #serve(slot: Slot): Promise<void> {
    slot.serving = true;
    while (slot.alive) {
      const job = this.#queue.take();
      const [stale] = slot.stale;
      if (job !== undefined) await this.#work(slot, job);
      else if (stale !== undefined) await this.#follow(slot, stale);
      else break;
    }
    // in the same turn in which nothing was found: whoever comes later must find that it may wake the slot
    slot.serving = false;
  }

  /** Brings an environment of a thread that has nothing else to do up to date. */
  async #follow(slot: Slot, environmentId: string): Promise<void> {
    slot.stale.delete(environmentId);
    const data = this.#environments.get(environmentId);
    if (data === undefined) slot.feed.drop(environmentId);
    else {
      await slot.feed.bring(environmentId, data);
      this.#forgetIfGone(slot, environmentId, data);
    }
  }

  /** When an environment goes while a thread is given it, the thread has nothing yet of which it could be told. */
  #forgetIfGone(slot: Slot, environmentId: string, data: DataSet): void {
    if (this.#environments.get(environmentId) !== data) slot.stale.add(environmentId);
  }

  async #work(slot: Slot, job: Job): Promise<void> {
    const { environmentId, question } = job;
    const data = this.#environments.get(environmentId)!;
    try {
      await slot.feed.bring(environmentId, data);
      this.#forgetIfGone(slot, environmentId, data);
      if (job.signal?.aborted === true) return;
      if (this.#environments.get(environmentId) !== data) throw unknownEnvironment(environmentId);
      job.attempts++;
      const answer = await slot.ask((number) => ({ ...question, number }));
      this.#failedStarts = 0;
      if (answer.type === 'failed') throw failed(answer.cause);
      job.resolve(answer);
    } catch (thrown) {
      if (!(thrown instanceof ThreadEnded)) job.reject(thrown);
      else if (mayTryAgain(job, thrown) && !this.#closed) this.#again(job);
      else job.reject(failed(`its thread ended${thrown.tookTooLong ? '' : ' twice'}: ${thrown.message}`));
    }
  }

  #again(job: Job): void {
    if (!this.#environments.has(job.environmentId)) return job.reject(unknownEnvironment(job.environmentId));
    if (job.signal?.aborted === true) return;
    this.#queue.pushFirst(job);
    for (const slot of this.#slots) this.#wake(slot);
  }

  #ended(slot: Slot, cause: string): void {
    this.#slots.delete(slot);
    this.#threadFailures++;
    this.#options.onFailure(failed(`a thread ended: ${cause}`));
    if (slot.worked) return this.#begin();
    this.#failedStarts++;
    const waitMs = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** (this.#failedStarts - 1));
    this.#options.clock.after(waitMs, () => this.#begin());
    if (slot.ready) return;
    this.#cannotStart = cause;
    if (this.#slots.size > 0) return;
    for (const { reject } of this.#queue.takeAll()) reject(cannotStart(cause));
  }

  #noteUnreadable({ environmentId, kind, key, cause }: UnreadableMessage): void {
    const name = JSON.stringify([environmentId, kind, key, cause]);
    if (this.#unreadable.has(name) || this.#unreadable.size >= UNREADABLE_MAX) return;
    this.#unreadable.add(name);
    this.#itemFailures++;
    this.#options.onFailure(
      new HeadgateError(
        'HG_SOURCE',
        `Cannot evaluate ${JSON.stringify(key)} of ${kind} in ${environmentId}: its text must be what the vendor's SDK reads, got ${cause}`,
      ),
    );
  }
}

/** A context for which one thread found no end in time would hold up the next one as long. */
function mayTryAgain({ attempts, question }: Job, { tookTooLong }: ThreadEnded): boolean {
  return attempts < ATTEMPTS_MAX && !(tookTooLong && question.type === 'evaluate');
}

function unknownEnvironment(environmentId: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot evaluate flags: no such environment is held, got ${environmentId}`);
}

function cannotStart(cause: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot evaluate flags: no thread can be started, got ${cause}`);
}

function failed(cause: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot evaluate flags: ${cause}`);
}

function closed(): HeadgateError {
  return new HeadgateError('HG_SOURCE', 'Cannot evaluate flags: the evaluator is closed, got a request');
}
