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
    this.#note(this.#before);
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
      cpuSeconds: sumBy(this.#before, CPU).has('') ? risen(CPU) : null,
      admitted: risen('headgate_admission_admitted_total'),
      refused: this.#risenBy('headgate_refusals_total', 'reason'),
      deliveries: this.#risenBy('headgate_deliveries_total', 'outcome'),
      sentBytes: risen('headgate_sent_bytes_total'),
    };
  }

  #risenBy(name: string, label?: string): Readonly<Record<string, number>> {
    const before = sumBy(this.#before, name, label);
    const risen = [...sumBy(this.#last, name, label)].map(([key, value]) => [key, value - (before.get(key) ?? 0)]);
    return Object.fromEntries(risen.filter(([, value]) => value !== 0)) as Record<string, number>;
  }

  #note(metrics: Metrics): void {
    this.#last = metrics;
    for (const name of GAUGES) {
      const value = sumBy(metrics, name).get('');
      if (value !== undefined) this.#largest.set(name, Math.max(value, this.#largest.get(name) ?? 0));
    }
  }

  async #fetch(): Promise<Metrics> {
    this.#asked++;
    const { address, port, base, host, isTls } = this.#admin;
    const headers = { host, ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }) };
    const options = { host: address, port, path: `${base}/metrics`, headers, timeout: ANSWER_MS_MAX, agent: false };
    return new Promise((resolve, reject) => {
      const asked = (isTls ? requestTls : request)(options, (response) => {
        const pieces: Buffer[] = [];
        let bytes = 0;
        response.on('data', (piece: Buffer) => {
          bytes += piece.length;
          if (bytes > PAGE_BYTES_MAX) asked.destroy(new Error(`more than ${PAGE_BYTES_MAX} bytes`));
          else pieces.push(piece);
        });
        response.on('error', reject);
        response.on('end', () => {
          if (response.statusCode === 200) resolve(readMetrics(Buffer.concat(pieces).toString()));
          else reject(new Error(`status ${response.statusCode}`));
        });
      });
      asked.on('timeout', () => asked.destroy(new Error('no answer')));
      asked.on('error', reject);
      asked.end();
    });
  }
}

const RSS = 'process_resident_memory_bytes';
const CPU = 'process_cpu_seconds_total';
const GAUGES = [RSS, 'headgate_admission_held', 'headgate_admission_waiting', 'headgate_admission_parked'] as const;
