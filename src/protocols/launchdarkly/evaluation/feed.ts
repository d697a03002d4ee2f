import type { Change, DataSet, Item } from '../../../dataset/index.ts';
import { Slices } from '../../../kernel/index.ts';
import type { DataState, ToThread } from './types.ts';

/** Characters and items per message: copied in a quarter of a millisecond. */
const MESSAGE_LENGTH_MAX = 128 * 1024;
const MESSAGE_ITEMS_MAX = 512;

const KINDS = ['flags', 'segments'];

interface Fed {
  readonly data: DataSet;
  readonly state: DataState;
}

/** Knows what one thread holds, and gives it what it lacks. One call at a time. */
export class Feed {
  readonly #post: (message: ToThread) => void;
  readonly #fed = new Map<string, Fed>();

  constructor(post: (message: ToThread) => void) {
    this.#post = post;
  }

  has(environmentId: string): boolean {
    return this.#fed.has(environmentId);
  }

  /**
   * Brings the thread to the state of now, in slices: by the changes since, or by everything when it has nothing yet or
   * the log was broken. What comes meanwhile is for the next time.
   */
  async bring(environmentId: string, data: DataSet): Promise<void> {
    const fed = this.#fed.get(environmentId);
    const known = fed?.data === data ? fed.state : undefined;
    const { digest, clock, offset } = data.snapshot();
    if (known?.offset === offset && known.clock === clock) return;
    const state = { digest, clock, offset };
    // a clock may rise with nothing changed
    if (known?.offset !== offset) await this.#give(environmentId, data, known);
    this.#post({ type: 'commit', environmentId, state });
    this.#fed.set(environmentId, { data, state });
  }

  /** Lets the thread forget an environment. */
  drop(environmentId: string): void {
    if (this.#fed.delete(environmentId)) this.#post({ type: 'drop', environmentId });
  }

  async #give(environmentId: string, data: DataSet, known: DataState | undefined): Promise<void> {
    using pin = data.pin();
    const catchUp = known && data.sinceOffset(known.offset);
    this.#post({ type: 'begin', environmentId, whole: catchUp === undefined });
    const slices = new Slices();
    for (const kind of KINDS) {
      const changes = catchUp?.keys ?? asChanges(pin.snapshot.items(kind));
      await this.#send({ environmentId, kind }, changes, slices);
    }
  }

  async #send(
    of: { readonly environmentId: string; readonly kind: string },
    changes: Iterable<Change>,
    slices: Slices,
  ): Promise<void> {
    let message = new ItemsDraft(of);
    for (const change of changes) {
      if (change.kind !== of.kind) continue;
      message.add(change);
      if (!message.full) continue;
      this.#post(message.message());
      message = new ItemsDraft(of);
      if (slices.due()) await slices.pause();
    }
    if (!message.empty) this.#post(message.message());
  }
}

function* asChanges(items: Iterable<Item>): Iterable<Change> {
  for (const item of items) yield { kind: item.kind, key: item.key, version: item.version, item };
}

/** A message that grows until it is large enough. */
class ItemsDraft {
  readonly #of: { readonly environmentId: string; readonly kind: string };
  readonly #keys: string[] = [];
  readonly #versions: number[] = [];
  readonly #texts: (string | undefined)[] = [];
  #length = 0;

  constructor(of: { readonly environmentId: string; readonly kind: string }) {
    this.#of = of;
  }

  get full(): boolean {
    return this.#length >= MESSAGE_LENGTH_MAX || this.#keys.length >= MESSAGE_ITEMS_MAX;
  }

  get empty(): boolean {
    return this.#keys.length === 0;
  }

  add({ key, version, item }: Change): void {
    this.#keys.push(key);
    this.#versions.push(version);
    this.#texts.push(item?.text);
    this.#length += item?.text.length ?? 0;
  }

  message(): ToThread {
    return { type: 'items', ...this.#of, keys: this.#keys, versions: this.#versions, texts: this.#texts };
  }
}
