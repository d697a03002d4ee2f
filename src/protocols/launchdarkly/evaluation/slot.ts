import { type Clock, HeadgateError, type Timer } from '../../../kernel/index.ts';
import { Feed } from './feed.ts';
import type { AffectedMessage, Answer, EvaluateMessage, EvaluationThread, UnreadableMessage } from './types.ts';

/** A regular expression of a flag's can take for ever on a value that somebody chose for that. */
const ANSWER_MS_MAX = 30_000;

/** The thread ended: whoever waited may try another one, unless it was what was asked that took too long. */
export class ThreadEnded extends Error {
  readonly tookTooLong: boolean;

  constructor(message: string, tookTooLong = false) {
    super(message);
    this.tookTooLong = tookTooLong;
  }
}

/** What a slot tells its pool. */
export interface SlotListener {
  readonly ready: () => void;
  readonly ended: (cause: string) => void;
  readonly unreadable: (message: UnreadableMessage) => void;
}

/** One thread, what it holds, and the one question that it is working on. */
export class Slot {
  readonly feed: Feed;
  /** Environments whose data have changed since it was fed, or are not wanted any more. */
  readonly stale: Set<string> = new Set();
  ready = false;
  /** Whether it has answered anything. */
  worked = false;
  alive = true;
  /** Whether somebody is giving it work. */
  serving = false;
  readonly #thread: EvaluationThread;
  readonly #clock: Clock;
  readonly #listener: SlotListener;
  #number = 0;
  #waiting: { readonly resolve: (answer: Answer) => void; readonly reject: (error: Error) => void } | undefined;

  constructor(thread: EvaluationThread, clock: Clock, listener: SlotListener) {
    this.#thread = thread;
    this.#clock = clock;
    this.#listener = listener;
    this.feed = new Feed((message) => {
      if (this.alive) thread.post(message);
    });
    // somebody waits for it: until it is ready, nothing else might keep the process alive
    thread.hold(true);
    thread.onMessage((message) => {
      // what a thread said before it was ended may come behind it
      if (!this.alive) return;
      if (message.type === 'ready') {
        this.ready = true;
        thread.hold(false);
        listener.ready();
      } else if (message.type === 'unreadable') listener.unreadable(message);
      else this.#settle(message);
    });
    thread.onEnd((cause) => this.#lost(cause));
  }

  get busy(): boolean {
    return this.#waiting !== undefined;
  }

  /** Asks; one question at a time. Rejects with ThreadEnded when the thread ends before it has answered. */
  async ask(make: (number: number) => EvaluateMessage | AffectedMessage): Promise<Answer> {
    if (!this.alive) throw new ThreadEnded('it had ended');
    this.#number += 1;
    const message = make(this.#number);
    let timer: Timer | undefined;
    this.#thread.hold(true);
    try {
      return await new Promise<Answer>((resolve, reject) => {
        this.#waiting = { resolve, reject };
        timer = this.#clock.after(ANSWER_MS_MAX, () => {
          void this.#thread.end();
          this.#lost(`it gave no answer for ${ANSWER_MS_MAX} ms`, true);
        });
        this.#thread.post(message);
      });
    } finally {
      timer?.cancel();
      this.#thread.hold(false);
    }
  }

  async end(): Promise<void> {
    this.alive = false;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(new HeadgateError('HG_SOURCE', 'Cannot evaluate flags: the evaluator is closed, got a request'));
    await this.#thread.end();
  }

  #settle(answer: Answer): void {
    if (answer.number !== this.#number) return;
    this.worked = true;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(answer);
  }

  #lost(cause: string, tookTooLong = false): void {
    if (!this.alive) return;
    this.alive = false;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    this.#listener.ended(cause);
    waiting?.reject(new ThreadEnded(cause, tookTooLong));
  }
}
