import { HeadgateError } from '../../kernel/index.ts';
import { Intake } from './intake.ts';
import type { Parts } from './parts.ts';
import type { CommitReport } from './reports.ts';
import { IDS_PER_SOURCE } from './rows.ts';
import type { Decision } from './types.ts';

/** How a full copy is compared with what is held. */
export interface FullReadOptions {
  /** Ends that differ by no more than this are the same. */
  readonly toleranceMs: number;
  /** Whether the copy has simulated decisions as well. Without it those that are held stay. Default false. */
  readonly simulatedToo?: boolean;
}

/** What a full copy would do, as far as it has come. */
export interface FullReadSummary {
  /** Decisions of the source that are held, of those that the copy tells about. */
  readonly held: number;
  /** Those among them that came. */
  readonly kept: number;
  readonly added: number;
  /** Held, and not come. */
  readonly missing: number;
}

/** A full copy of a source on its way. Nobody sees anything of it before `commit`. */
export interface FullRead {
  /**
   * Takes a decision. Of an id that comes twice the later one counts.
   *
   * @throws HeadgateError HG_SOURCE when it cannot be held: the rest of the copy is as good as before
   */
  add(decision: Decision): void;
  /** A decision counts as kept or added as it was when it came. */
  summary(): FullReadSummary;
  /**
   * Makes the ledger hold what came, and of this source nothing else.
   *
   * @throws HeadgateError HG_SOURCE (the promise is rejected) when it is over: committed, abandoned, or another began
   */
  commit(nowMs: number): Promise<CommitReport>;
  /** Leaves everything as it is. Idempotent. */
  abandon(): void;
}

/** What a full copy needs of its ledger. */
interface Home {
  held(): number;
  commit(intake: Intake, nowMs: number): Promise<CommitReport>;
  /** It does not count any more as the copy of its source that is on its way. */
  over(): void;
}

export class FullCopy implements FullRead {
  readonly #parts: Parts;
  readonly #home: Home;
  readonly #firstId: number;
  readonly #simulatedToo: boolean;
  #intake: Intake | undefined = new Intake();
  #kept = 0;
  #state = 'arriving';

  constructor(parts: Parts, o: FullReadOptions & { readonly source: number }, home: Home) {
    this.#parts = parts;
    this.#home = home;
    this.#firstId = o.source * IDS_PER_SOURCE;
    this.#simulatedToo = o.simulatedToo ?? false;
  }

  add(decision: Decision): void {
    if (!this.#arriving().take(decision)) return;
    const row = this.#parts.index.find(decision.id + this.#firstId);
    if (row >= 0 && (this.#simulatedToo || this.#parts.rows.simulated[row] === 0)) this.#kept++;
  }

  summary(): FullReadSummary {
    const held = this.#home.held();
    const came = this.#arriving().size;
    return { held, kept: this.#kept, added: came - this.#kept, missing: Math.max(0, held - this.#kept) };
  }

  async commit(nowMs: number): Promise<CommitReport> {
    const intake = this.#arriving();
    this.#end('committed');
    return this.#home.commit(intake, nowMs);
  }

  abandon(): void {
    if (this.#intake !== undefined) this.#end('abandoned');
  }

  #end(state: string): void {
    this.#intake = undefined;
    this.#state = state;
    this.#home.over();
  }

  #arriving(): Intake {
    if (this.#intake !== undefined) return this.#intake;
    throw new HeadgateError('HG_SOURCE', `Cannot go on with a full copy: it is over, got one that was ${this.#state}`);
  }
}
