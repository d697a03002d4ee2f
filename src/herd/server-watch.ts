import { request } from 'node:http';
import { request as requestTls } from 'node:https';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import type { Target } from './target.ts';

/** What the server says of itself: counters as they rose from before to after, gauges as the largest seen. */
export interface ServerReport {
  /** How often it was asked, and how often in vain. */
  readonly asked: number;
  readonly missed: number;
  readonly rssBytesBefore: number | null;
  readonly rssBytesMax: number | null;
  readonly heldMax: number | null;
  readonly waitingMax: number | null;
  readonly parkedMax: number | null;
  /** How often it was another process than at the look before: it had ended, and was started again. */
  readonly restarts: number;
  readonly cpuSeconds: number | null;
  readonly admitted: number;
  /** Requests answered 503 for want of a slot, by cause. */
  readonly refused: Readonly<Record<string, number>>;
  /** Deliveries that ended, by outcome. */
  readonly deliveries: Readonly<Record<string, number>>;
  readonly sentBytes: number;
}

/** The values of a page of metrics, by series. */
export type Metrics = ReadonlyMap<string, number>;

const PAGE_BYTES_MAX = 16 * 1024 * 1024;
const ANSWER_MS_MAX = 10_000;

/** Reads Prometheus' text format: `name{labels} value`. Lines that are no sample are passed over. */
export function readMetrics(text: string): Metrics {
  const values = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, series, value] = /^([a-zA-Z_:][\w:]*(?:\{.*\})?)\s+(\S+)/.exec(line) ?? [];
    if (series !== undefined && value !== undefined) values.set(series, Number(value));
  }
  return values;
}

/** The sum of a metric's series, apart by one label; all under one empty name when there is none. */
export function sumBy(metrics: Metrics, name: string, label?: string): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [series, value] of metrics) {
    if (series !== name && !series.startsWith(`${name}{`)) continue;
    const key = label === undefined ? '' : (new RegExp(`[{,]${label}="((?:[^"\\\\]|\\\\.)*)"`).exec(series)?.[1] ?? '');
    sums.set(key, (sums.get(key) ?? 0) + value);
  }
  return sums;
}

/** Asks a server's admin listener for its metrics, again and again, and says what became of them. */
export class ServerWatch {
  readonly #admin: Target;
  readonly #token: string | undefined;
  #before: Metrics = new Map();
  #last: Metrics = new Map();
  #restarts = 0;
  /** By how much each series rose, look by look. */
  readonly #risen = new Map<string, number>();
  readonly #largest = new Map<string, number>();
  #asked = 0;
  #missed = 0;
  #isAsking = false;

  constructor(admin: Target, token: string | undefined) {
    this.#admin = admin;
    this.#token = token;
  }

  /** The first look. Throws HG_OPTION when the listener does not answer as one. */
  async begin(): Promise<void> {
    try {
      this.#before = await this.#fetch();
    } catch (error) {
      const cause = messageOf(error);
      throw new HeadgateError('HG_OPTION', `Cannot use --admin: /metrics must answer there, got ${cause}`);
    }
    this.#last = this.#before;
    this.#noteGauges(this.#before);
  }

  /** Another look, unless the last one has not been answered yet. */
  async look(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      this.#note(await this.#fetch());
    } catch {
      // it may be too busy to answer: the report says how often
      this.#missed++;
    } finally {
      this.#isAsking = false;
    }
  }

  /** Whether a delivery is still in progress, as of the last look. */
  get isBusy(): boolean {
    return (sumBy(this.#last, 'headgate_deliveries_active').get('') ?? 0) > 0;
  }

  report(): ServerReport {
    const risen = (name: string): number => this.#risenBy(name)[''] ?? 0;
    const largest = (name: string): number | null => this.#largest.get(name) ?? null;
    const first = sumBy(this.#before, RSS).get('');
    return {
      asked: this.#asked,
      missed: this.#missed,
      rssBytesBefore: first ?? null,
      rssBytesMax: largest(RSS),
      heldMax: largest('headgate_admission_held'),
      waitingMax: largest('headgate_admission_waiting'),
      parkedMax: largest('headgate_admission_parked'),
      restarts: this.#restarts,
      cpuSeconds: sumBy(this.#before, CPU).has('') ? risen(CPU) : null,
      admitted: risen('headgate_admission_admitted_total'),
      refused: this.#risenBy('headgate_refusals_total', 'reason'),
      deliveries: this.#risenBy('headgate_deliveries_total', 'outcome'),
      sentBytes: risen('headgate_sent_bytes_total'),
    };
  }

  #risenBy(name: string, label?: string): Readonly<Record<string, number>> {
    const risen = [...sumBy(this.#risen, name, label)];
    return Object.fromEntries(risen.filter(([, value]) => value !== 0));
  }

  #note(metrics: Metrics): void {
    const isAnother = metrics.get(STARTED) !== this.#last.get(STARTED);
    if (isAnother) this.#restarts++;
    for (const [series, value] of metrics) {
      // a process that was started again counts from nothing
      const since = isAnother ? 0 : (this.#last.get(series) ?? 0);
      this.#risen.set(series, (this.#risen.get(series) ?? 0) + value - since);
    }
    this.#last = metrics;
    this.#noteGauges(metrics);
  }

  #noteGauges(metrics: Metrics): void {
    for (const name of GAUGES) {
      const value = sumBy(metrics, name).get('');
      if (value !== undefined) this.#largest.set(name, Math.max(value, this.#largest.get(name) ?? 0));
    }
  }

  async #fetch(): Promise<Metrics> {
    this.#asked++;
    const { address, port, base, host, isTls } = this.#admin;
    const headers = { host, ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }) };
    // for the whole answer: one that comes byte by byte would hold the report for ever
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const options = { host: address, port, path: `${base}/metrics`, headers, signal, agent: false };
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        reject(signal.aborted ? new Error(`no whole answer within ${ANSWER_MS_MAX / 1000} s`) : error);
      };
      const asked = (isTls ? requestTls : request)(options, (response) => {
        const pieces: Buffer[] = [];
        let bytes = 0;
        response.on('data', (piece: Buffer) => {
          bytes += piece.length;
          if (bytes > PAGE_BYTES_MAX) asked.destroy(new Error(`more than ${PAGE_BYTES_MAX} bytes`));
          else pieces.push(piece);
        });
        response.on('error', fail);
        response.on('end', () => {
          if (response.statusCode === 200) resolve(readMetrics(Buffer.concat(pieces).toString()));
          else reject(new Error(`status ${response.statusCode}`));
        });
      });
      asked.on('error', fail);
      asked.end();
    });
  }
}

const RSS = 'process_resident_memory_bytes';
const CPU = 'process_cpu_seconds_total';
const STARTED = 'process_start_time_seconds';
const GAUGES = [RSS, 'headgate_admission_held', 'headgate_admission_waiting', 'headgate_admission_parked'] as const;
