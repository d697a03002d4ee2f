import { SingleFlight } from '../../../admission/index.ts';
import type { Change, DataSet } from '../../../dataset/index.ts';
import { HeadgateError } from '../../../kernel/index.ts';
import { Memberships, revisionOf } from './big-segments.ts';
import { type CachedResult, ResultCache } from './cache.ts';
import { type ParsedContext, parseContext } from './context.ts';
import { unpack } from './packed.ts';
import { Pool } from './pool.ts';
import type {
  DataState,
  Evaluated,
  EvaluatedFlag,
  EvaluatedMessage,
  EvaluationRequest,
  EvaluationsOptions,
  EvaluationsStats,
  KnownMemberships,
} from './types.ts';

const BIG_SEGMENTS_STALE_MS = 5 * 60 * 1000;
/** Each round finds a context's key that no earlier one asked for, and a context has few. */
const ROUNDS_MAX = 20;

/** An environment whose flags can be evaluated. */
interface Attached {
  readonly data: DataSet;
  readonly memberships: Memberships | undefined;
  readonly stop: () => void;
  /** Parts requests from those for data that were attached under the same name before. */
  readonly number: number;
}

interface Result {
  readonly state: DataState;
  readonly cached: CachedResult;
  /** Unpacked once for all who share it; absent where it comes from the cache. */
  readonly flags?: readonly EvaluatedFlag[];
}

/**
 * Evaluates flags for browsers and phones, with the vendor's own evaluator, in threads.
 *
 * @example
 * import { DataSet } from 'headgate/dataset';
 *
 * const evaluations = new Evaluations({ clock: systemClock, threads: 1, cacheBytesMax: 1e6, onFailure: console.error });
 * const data = new DataSet({ name: 'production', kinds: ['flags', 'segments'] });
 * const text = '{"key":"a","version":1,"on":false,"offVariation":0,"variations":["off"]}';
 * await data.replace([{ kind: 'flags', key: 'a', version: 1, text }]);
 * evaluations.attach('production', data);
 * const context = evaluations.parseContext('{"kind":"user","key":"me"}');
 * if ('error' in context) throw new Error(context.error);
 * const asked = { environmentId: 'production', audience: 'server', withReasons: false } as const;
 * const { flags } = await evaluations.evaluate({ ...asked, context: context.canonical });
 * console.log(flags.map(({ key, fields }) => `${key} ${fields}`)); // [ 'a "value":"off","variation":0' ]
 * await evaluations.close();
 */
export class Evaluations {
  readonly #options: EvaluationsOptions;
  readonly #pool: Pool;
  readonly #cache: ResultCache;
  readonly #flights = new SingleFlight<Result>();
  readonly #environments = new Map<string, Attached>();
  readonly #affected = new WeakMap<readonly Change[], Promise<readonly string[]>>();
  #evaluations = 0;
  #cacheHits = 0;
  #cacheMisses = 0;
  #attachedCount = 0;

  /** @throws HeadgateError HG_OPTION for an option that cannot be used. */
  constructor(options: EvaluationsOptions) {
    const { threads, cacheBytesMax } = options;
    if (!Number.isSafeInteger(threads) || threads < 1) throw wrong('threads', 1, threads);
    if (!(cacheBytesMax >= 0)) throw wrong('cacheBytesMax', 0, cacheBytesMax);
    this.#options = options;
    this.#pool = new Pool(options);
    this.#cache = new ResultCache(cacheBytesMax);
  }

  /** Makes an environment's flags available. Nothing is read of them before somebody asks. */
  attach(environmentId: string, data: DataSet): void {
    this.#environments.get(environmentId)?.stop();
    this.#cache.remove(environmentId);
    const store = this.#options.bigSegments?.(environmentId);
    const { clock, onFailure, bigSegmentsStaleMs: staleMs = BIG_SEGMENTS_STALE_MS, unixNow = Date.now } = this.#options;
    this.#environments.set(environmentId, {
      data,
      number: ++this.#attachedCount,
      memberships: store && new Memberships({ store, clock, staleMs, unixNow, onFailure }),
      stop: data.subscribe(() => {
        this.#cache.advance(environmentId, data.snapshot().digest);
        this.#pool.changed(environmentId);
      }),
    });
    this.#pool.attach(environmentId, data);
  }

  /** Forgets an environment; what waits for it is rejected. */
  detach(environmentId: string): void {
    this.#environments.get(environmentId)?.stop();
    this.#environments.delete(environmentId);
    this.#cache.remove(environmentId);
    this.#pool.detach(environmentId);
  }

  /**
   * Evaluates flags for one context, at the state of the moment at which it is this request's turn. Requests for the same
   * share one evaluation, and its result is kept as long as there is room.
   *
   * Rejects with HG_SOURCE when there is no such environment, and when the context cannot be evaluated.
   */
  async evaluate(request: EvaluationRequest): Promise<Evaluated> {
    const { environmentId, signal } = request;
    const { data, number } = this.#attached(environmentId);
    const { digest, clock, offset } = data.snapshot();
    const key = keyOf(request);
    const cached = await this.#cached(request, `${key}\0${digest}`);
    // the same digest is the same data, so that what was computed then is what would be computed now
    if (cached !== undefined) return answerOf({ state: { digest, clock, offset }, cached }, request);
    // by the offset and not the digest, which may come back: whoever joins must not get an older state than he came at
    const flight = `${key}\0${number}\0${data.snapshot().offset}`;
    return answerOf(await this.#flights.run(flight, (given) => this.#evaluate(request, key, given), signal), request);
  }

  /** Reads a context, as its JSON came in a request. */
  parseContext(json: string): ParsedContext | { readonly error: string } {
    return parseContext(json);
  }

  /**
   * Flags whose value may change with these changes of an environment: the flags themselves, those that have them as
   * prerequisites, and those that use the segments. A thread computes it, from data that are at least as new.
   */
  affected(environmentId: string, changes: readonly Change[]): Promise<readonly string[]> {
    const known = this.#affected.get(changes);
    if (known !== undefined) return known;
    const changed = changes.map(({ kind, key }) => [kind, key] as const);
    const affected = this.#pool.ask({ type: 'affected', environmentId, changed }).then((answer) => {
      return answer.type === 'affected' ? answer.keys : [];
    });
    this.#affected.set(changes, affected);
    affected.catch(() => this.#affected.delete(changes));
    return affected;
  }

  /** Ends the threads; what they have not answered is rejected. */
  async close(): Promise<void> {
    for (const { stop } of this.#environments.values()) stop();
    this.#environments.clear();
    await this.#pool.close();
  }

  stats(): EvaluationsStats {
    return {
      ...this.#pool.stats,
      evaluations: this.#evaluations,
      cacheHits: this.#cacheHits,
      cacheMisses: this.#cacheMisses,
      cacheEntries: this.#cache.size,
      cacheBytes: this.#cache.bytes,
    };
  }

  #attached(environmentId: string): Attached {
    const attached = this.#environments.get(environmentId);
    if (attached !== undefined) return attached;
    throw new HeadgateError('HG_SOURCE', `Cannot evaluate flags: no such environment is held, got ${environmentId}`);
  }

  /** A result that still holds: that of all flags serves those who ask for some as well. */
  async #cached(request: EvaluationRequest, key: string): Promise<CachedResult | undefined> {
    const all = keyOf({ ...request, keys: undefined });
    const digest = key.slice(key.lastIndexOf('\0'));
    const cached = this.#cache.get(key) ?? this.#cache.get(all + digest);
    const holds = cached !== undefined && (await this.#revisionNow(request.environmentId, cached)) === cached.revision;
    if (holds) this.#cacheHits++;
    else this.#cacheMisses++;
    return holds ? cached : undefined;
  }

  async #revisionNow(environmentId: string, { consulted }: CachedResult): Promise<string> {
    if (consulted.length === 0) return '';
    const { memberships } = this.#attached(environmentId);
    return memberships === undefined ? '' : revisionOf(await memberships.of(consulted), consulted);
  }

  /** Asks again as long as it turns out that more must be known of big segments. */
  async #evaluate(request: EvaluationRequest, key: string, signal: AbortSignal): Promise<Result> {
    const { environmentId } = request;
    let asked: readonly string[] = [];
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const { memberships } = this.#attached(environmentId);
      const known = await memberships?.of(asked);
      const answer = await this.#ask(request, known, signal);
      this.#evaluations++;
      if (answer.unknown.length > 0) {
        asked = [...asked, ...answer.unknown];
        continue;
      }
      const { state, packed, consulted } = answer;
      const cached = { packed, consulted, revision: known === undefined ? '' : revisionOf(known, consulted) };
      this.#keep(request, `${key}\0${state.digest}`, { state, cached });
      return { state, cached, flags: await unpack(packed) };
    }
    throw new HeadgateError(
      'HG_SOURCE',
      `Cannot evaluate flags: big segments are asked for without end, got ${asked.length}`,
    );
  }

  async #ask(
    { environmentId, context, audience, withReasons, keys }: EvaluationRequest,
    memberships: KnownMemberships | undefined,
    signal: AbortSignal,
  ): Promise<EvaluatedMessage> {
    const question = { type: 'evaluate', environmentId, context, audience, withReasons, keys, memberships } as const;
    const answer = await this.#pool.ask(question, signal);
    if (answer.type === 'evaluated') return answer;
    throw new HeadgateError('HG_SOURCE', `Cannot evaluate flags: a thread answered something else, got ${answer.type}`);
  }

  #keep({ environmentId }: EvaluationRequest, key: string, { state, cached }: Result): void {
    const data = this.#environments.get(environmentId)?.data;
    if (data === undefined) return;
    const { digest } = state;
    this.#cache.put(key, { environmentId, digest, isPresent: data.snapshot().digest === digest }, cached);
  }
}

/** Names everything that decides a result but the data. */
function keyOf({
  environmentId,
  context,
  audience,
  withReasons,
  keys,
}: Omit<EvaluationRequest, 'keys'> & { readonly keys?: readonly string[] | undefined }): string {
  const wanted = keys && [...new Set(keys)].toSorted();
  return JSON.stringify([environmentId, audience, withReasons, wanted ?? null, context]);
}

async function answerOf({ state, cached, flags: unpacked }: Result, { keys }: EvaluationRequest): Promise<Evaluated> {
  const wanted = keys && new Set(keys);
  const flags = unpacked ?? (await unpack(cached.packed, wanted));
  const found = new Set(wanted && flags.map(({ key }) => key));
  const absent = wanted === undefined ? [] : [...wanted].filter((key) => !found.has(key));
  const { digest, clock, offset } = state;
  return { digest, clock, offset, bigSegmentsRevision: cached.revision, flags, absent };
}

function wrong(name: string, min: number, got: number): HeadgateError {
  return new HeadgateError('HG_OPTION', `Cannot evaluate flags: ${name} must be at least ${min}, got ${got}`);
}
