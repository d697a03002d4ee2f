import { type Decision, type FullRead, type Ledger, problemOf } from '../dataset/decisions/index.ts';
import { type Clock, Slices } from '../kernel/index.ts';
import { type BodyForm, DecisionScanner, type Scanned } from './lapi-body.ts';
import type { ClientReply, LapiClient } from './lapi-client.ts';
import { LapiError } from './lapi-error.ts';
import { HeldRows } from './lapi-held.ts';

/** Settings of a {@link Puller}. */
export interface PullerOptions {
  readonly client: LapiClient;
  readonly source: number;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly wallNow: () => number;
  /** What every request carries. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The changes since the last answer. */
export interface Delta {
  readonly added: readonly Decision[];
  readonly removedIds: readonly number[];
  readonly toleranceMs: number;
  /** How long the answer took, in milliseconds. */
  readonly ms: number;
}

/** Everything, read and not committed yet. */
export interface Full {
  readonly read: FullRead;
  /** How many decisions came. */
  readonly got: number;
  /** Those that the local API says are over. */
  readonly removedIds: ReadonlySet<number>;
  /** Decisions that came and cannot be held. */
  readonly unusable: number;
  readonly bytes: number;
  readonly ms: number;
}

/** What is known of every scope, simulated decisions included, apart from the enforced ones that we hold already. */
export type Wide = Map<number, Decision>;

/** What a piece of a body brought. */
interface Piece extends Scanned {
  readonly unusable: number;
  /** Bytes of the body so far. */
  readonly bytes: number;
}

/** About 5 million decisions: no local API holds as many, and what it sends costs us memory. */
const BODY_BYTES_MAX = 1024 * 1024 * 1024;
/** About 6 MB of objects. More are read as a full answer, which goes into the ledger one by one. */
const DELTA_ROWS_MAX = 20_000;
/** A set of numbers, 8 MB. */
const REMOVED_IDS_MAX = 200_000;
/** About 50 MB of objects: simulated decisions are few, and the others are known. */
const WIDE_ROWS_MAX = 200_000;
/** A delta that drips for longer is asked for anew; a full answer may take as long as it needs. */
const DELTA_MS_MAX = 120_000;
/** Whole seconds are rounded at either end of a difference. */
const ROUNDING_MS = 1500;
/** Clocks are set right a little at a time, by some seconds an hour. */
const LAG_MS_MIN = 10_000;
/** What was restored was told by an answer of which we know nothing any more. */
const RESTORED_LAG_MS = 60_000;
const COMPLAINT_BYTES_MAX = 4096;

/** Asks one local API for decisions, and reads what it answers. */
export class Puller {
  readonly #options: PullerOptions;
  /** How much later than the truth the ends of what we hold may be: how long the answers took that told them. */
  #lagMs: number;

  constructor(options: PullerOptions) {
    this.#options = options;
    this.#lagMs = options.ledger.sourceCount(options.source) > 0 ? RESTORED_LAG_MS : LAG_MS_MIN;
  }

  /** Undefined when there are more changes than fit into memory. */
  async delta(scopes: string): Promise<Delta | undefined> {
    const { clock } = this.#options;
    const beganMs = clock.now();
    const added: Decision[] = [];
    const removedIds: number[] = [];
    const target = `/v1/decisions/stream?startup=false&dedup=false&scopes=${scopes}`;
    const reply = await this.#ask(target, DELTA_MS_MAX);
    for await (const scanned of this.#scan(reply, 'stream')) {
      for (const decision of scanned.added) added.push(decision);
      for (const id of scanned.removedIds) removedIds.push(id);
      // leaving the answer here leaves the local API's cursor where it was
      if (added.length + removedIds.length > DELTA_ROWS_MAX) return undefined;
    }
    const ms = clock.now() - beganMs;
    this.#lagMs = Math.max(this.#lagMs, ms);
    return { added, removedIds, toleranceMs: this.#lagMs + ROUNDING_MS, ms };
  }

  /** Reads everything. What it gives must be committed or abandoned. */
  async full(scopes: string, wide: Wide | undefined): Promise<Full> {
    const { clock, ledger, source } = this.#options;
    const beganMs = clock.now();
    const target = `/v1/decisions/stream?startup=true&dedup=false&scopes=${scopes}`;
    const reply = await this.#ask(target);
    const options = { toleranceMs: this.#lagMs + ROUNDING_MS, simulatedToo: wide !== undefined };
    const read = ledger.begin(source, options);
    try {
      const removedIds = new Set<number>();
      let [got, unusable, bytes] = [0, 0, 0];
      for await (const scanned of this.#scan(reply, 'stream')) {
        got += scanned.added.length;
        unusable += scanned.unusable;
        bytes = scanned.bytes;
        for (const decision of scanned.added) {
          read.add(decision);
          wide?.delete(decision.id);
        }
        for (const id of scanned.removedIds) this.#noteRemoved(removedIds, id, wide);
      }
      await addSimulated(read, wide);
      const ms = clock.now() - beganMs;
      // ends are compared at the commit, and only now is it known how late they may be
      options.toleranceMs = Math.max(this.#lagMs, ms) + ROUNDING_MS;
      return { read, got: got + (wide?.size ?? 0), removedIds, unusable, bytes, ms };
    } catch (thrown) {
      read.abandon();
      throw thrown;
    }
  }

  /** Says that a full answer was taken over: what is held is as late as that answer at most. */
  took(full: Full): void {
    this.#lagMs = Math.max(LAG_MS_MIN, full.ms);
  }

  /**
   * Every decision of every scope that is not known as an enforced one. Moves the local API's cursor for our key, so it
   * must be followed by a full answer.
   */
  async wide(): Promise<Wide> {
    const { ledger, source } = this.#options;
    const known = new HeldRows(ledger, source).enforcedIds();
    const rows: Wide = new Map();
    const reply = await this.#ask('/v1/decisions?simulated=true');
    for await (const { added } of this.#scan(reply, 'list')) {
      for (const decision of added) {
        if (!known.has(decision.id)) rows.set(decision.id, decision);
      }
      if (rows.size > WIDE_ROWS_MAX) {
        throw this.#failure(
          'answer',
          `there may be ${WIDE_ROWS_MAX} decisions that are not known as enforced, got more`,
        );
      }
    }
    return rows;
  }

  #noteRemoved(removedIds: Set<number>, id: number, wide: Wide | undefined): void {
    // deleted between the two answers: not simulated
    wide?.delete(id);
    if (removedIds.size < REMOVED_IDS_MAX) removedIds.add(id);
  }

  async #ask(target: string, totalMsMax?: number): Promise<ClientReply> {
    const { client, headers } = this.#options;
    const bound = totalMsMax === undefined ? {} : { totalMsMax };
    const reply = await client.request({ method: 'GET', target, headers, decode: true, ...bound });
    if (reply.status === 200) return reply;
    const got = `${reply.status} ${await complaintOf(reply)}`.trim();
    if (reply.status === 403)
      throw this.#failure('refused', `it refuses our key (is it in cscli bouncers list?), got ${got}`);
    const retryAfterMs = 1000 * (Number.parseInt(reply.headers['retry-after'] ?? '', 10) || 0);
    throw this.#failure('status', `expected 200, got ${got}`, retryAfterMs);
  }

  /** What each piece of the body completed, as it comes; the event loop has its turn in between. */
  async *#scan(reply: ClientReply, form: BodyForm): AsyncGenerator<Piece, void, undefined> {
    const { client, wallNow } = this.#options;
    const scanner = new DecisionScanner(client.name, form);
    const slices = new Slices();
    for await (const chunk of reply.body) {
      const scanned = scanner.feed(chunk, wallNow());
      const { bytes } = scanner;
      if (bytes > BODY_BYTES_MAX) throw this.#failure('answer', `it may have ${BODY_BYTES_MAX} bytes, got more`);
      // one that cannot be held is no reason to do without the others
      const added = scanned.added.filter((decision) => problemOf(decision) === undefined);
      yield { ...scanned, added, unusable: scanned.added.length - added.length, bytes };
      if (slices.due()) await slices.pause();
    }
    scanner.finish();
  }

  #failure(failure: LapiError['failure'], cause: string, retryAfterMs = 0): LapiError {
    const { name, url } = this.#options.client;
    const message = `Cannot pull decisions from the local API ${name} at ${url}: ${cause}`;
    return new LapiError(failure, message, { retryAfterMs });
  }
}

/** What only the wide answer has is not enforced. */
async function addSimulated(read: FullRead, wide: Wide | undefined): Promise<void> {
  const slices = new Slices();
  for (const decision of wide?.values() ?? []) {
    read.add({ ...decision, simulated: true });
    if (slices.due()) await slices.pause();
  }
}

/** What an answer other than 200 says: the message of a JSON body, or its first characters. */
async function complaintOf(reply: ClientReply): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of reply.body) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > COMPLAINT_BYTES_MAX) break;
  }
  const text = Buffer.concat(pieces).toString('utf8').slice(0, 200);
  const message = /^\s*\{\s*"message"\s*:\s*("(?:[^"\\]|\\.)*")\s*[,}]/.exec(text)?.[1];
  return message ?? (text === '' ? '' : JSON.stringify(text));
}
