import type { Batch, Item } from '../../../dataset/index.ts';
import type { Audience } from '../directory.ts';
import { KIND_FLAG } from '../words.ts';

/** Batches with more changes than this are not read flag by flag: what was known before them is no longer complete. */
const CHANGES_READ_MAX = 500;

/** What of a flag decides who sees it. */
interface Availability {
  readonly clientSideAvailability?: { readonly usingMobileKey?: boolean; readonly usingEnvironmentId?: boolean };
  readonly clientSide?: boolean;
}

/**
 * Which flags clients of one audience may ever have been shown.
 *
 * A flag that is gone, or is not theirs, must be deleted with those that had it; but the names of flags that only servers
 * see are nobody else's business. So a deletion is told only of flags that were shown, or may have been before this
 * process knew.
 */
export class Visible {
  readonly #audience: Audience;
  readonly #keys = new Set<string>();
  /** All that were shown since this offset are known; undefined: since none. */
  #since: number | undefined;

  constructor(audience: Audience) {
    this.#audience = audience;
  }

  /** Whether all that were shown are known, from some offset on. */
  get isKnown(): boolean {
    return this.#since !== undefined;
  }

  /** Everything that this audience sees at an offset. */
  seen(keys: Iterable<string>, offset: number): void {
    for (const key of keys) this.#keys.add(key);
    this.#since = offset;
  }

  /** What came with a batch. */
  changed({ changes, offset }: Pick<Batch, 'changes' | 'offset'>): void {
    if (this.#since === undefined) return;
    if (changes.length > CHANGES_READ_MAX) {
      this.#since = undefined;
      return;
    }
    if (this.#since > offset) return;
    for (const { item } of changes) {
      if (item?.kind === KIND_FLAG && isVisible(item, this.#audience)) this.#keys.add(item.key);
    }
  }

  /** Everything is another. */
  forget(): void {
    this.#since = undefined;
  }

  /** Whether somebody who has the data of `offset` may have this flag. */
  mayBeKnown(key: string, offset: number): boolean {
    return this.#since === undefined || offset < this.#since || this.#keys.has(key);
  }
}

/** A flag that cannot be read counts as seen: to delete it is right for whoever has it. */
function isVisible({ text }: Item, audience: Audience): boolean {
  try {
    const { clientSideAvailability: available, clientSide } = JSON.parse(text) as Availability;
    if (audience === 'mobile') return available?.usingMobileKey ?? true;
    return available === undefined ? clientSide === true : available.usingEnvironmentId === true;
  } catch {
    return true;
  }
}
