import { messageOf } from '../../../kernel/index.ts';
import { evaluateFlags } from './evaluate.ts';
import { Holdings } from './holdings.ts';
import { loadVendor, type Vendor } from './sdk.ts';
import type { EvaluateMessage, FromThread, ToThread } from './types.ts';

/** What a thread does: it is given data, and asked. Messages are handled in order, each to its end. */
export class ThreadRoom {
  readonly #post: (message: FromThread) => void;
  readonly #environments = new Map<string, Holdings>();
  #vendor: Vendor | undefined;
  readonly #broken: (thrown: unknown) => void;
  #last: Promise<void>;

  /** @param broken - told when nothing will be answered any more: the vendor's SDK cannot be loaded, or data were lost. */
  constructor(post: (message: FromThread) => void, broken: (thrown: unknown) => void) {
    this.#post = post;
    this.#broken = broken;
    this.#last = loadVendor().then((vendor) => {
      this.#vendor = vendor;
      post({ type: 'ready' });
    });
    this.#last.catch(broken);
  }

  handle(message: ToThread): void {
    this.#last = this.#last.then(() => this.#handle(message));
    // what it holds may be half of a change: nothing is evaluated from that
    this.#last.catch(this.#broken);
  }

  async #handle(message: ToThread): Promise<void> {
    switch (message.type) {
      case 'begin':
        return this.#holdings(message.environmentId).begin(message.whole);
      case 'items':
        return this.#holdings(message.environmentId).stage(message);
      case 'commit':
        return this.#holdings(message.environmentId).commit(message.state);
      case 'drop':
        return void this.#environments.delete(message.environmentId);
      case 'affected': {
        const keys = this.#holdings(message.environmentId).affected(message.changed);
        return this.#post({ type: 'affected', number: message.number, keys });
      }
      case 'evaluate':
        return this.#evaluate(message);
    }
  }

  async #evaluate(message: EvaluateMessage): Promise<void> {
    const { number } = message;
    const holdings = this.#holdings(message.environmentId);
    try {
      const outcome = await evaluateFlags(this.#vendor!, holdings, message);
      this.#post({ type: 'evaluated', number, state: holdings.state, ...outcome });
    } catch (thrown) {
      this.#post({ type: 'failed', number, cause: messageOf(thrown) });
    }
  }

  #holdings(environmentId: string): Holdings {
    let holdings = this.#environments.get(environmentId);
    if (holdings === undefined) {
      holdings = new Holdings(this.#vendor!, (kind, key, cause) =>
        this.#post({ type: 'unreadable', environmentId, kind, key, cause }),
      );
      this.#environments.set(environmentId, holdings);
    }
    return holdings;
  }
}
