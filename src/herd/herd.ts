import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type Clock, systemClock, type Timer } from '../kernel/index.ts';
import { arrivalsOf, mixOf, rolesOf, seededRandom } from './arrivals.ts';
import { Client, type World } from './client.ts';
import { checkFiles } from './machine.ts';
import { checkOptions, type HerdOptions } from './options.ts';
import { addressOf, type Plan } from './plan.ts';
import { profileOf } from './profiles.ts';
import { type HerdEnd, type HerdReport, machineOf, reportOf, type ToolReport } from './report.ts';
import { ServerWatch } from './server-watch.ts';
import { spreadOf } from './spread.ts';
import { Tally } from './tally.ts';
import { findTarget, type Target } from './target.ts';
import { HERD_SDKS } from './words.ts';

/** How far a herd is. */
export interface HerdProgress {
  readonly seconds: number;
  readonly clients: number;
  readonly arrived: number;
  /** Steady clients, and those of them that have a full copy. */
  readonly steady: number;
  readonly served: number;
  readonly connected: number;
  /** Streams that lost their connection at the drop and are up to date again. */
  readonly back: number;
  readonly refused: number;
  readonly failed: number;
  readonly bytes: number;
}

/** How a herd is run. */
export interface HerdRun {
  /** The version of this program, for the report. */
  readonly version: string;
  /** Ends it early; the report says so. */
  readonly signal?: AbortSignal;
  /** Called about three times a second, and once at the end. */
  readonly onProgress?: (progress: HerdProgress) => void;
  /** The names' addresses; the system's own when left out. */
  readonly resolve?: (name: string) => Promise<readonly string[]>;
  readonly clock?: Clock;
  readonly random?: () => number;
}

const TICK_MS = 100;
const PROGRESS_TICKS = 3;
const LOOK_TICKS = 10;
/** So many come before others are read: the first bytes of some are not to wait for the connections of all. */
const ARRIVALS_MAX = 250;
/** How long the server has after the herd left to notice it, for its counters. */
const SETTLE_MS_MAX = 3000;
const SETTLE_LOOK_MS = 100;
/** Beyond these the tool's own delay shows in the times it measures. */
const BUSY_DELAY_MS = 100;
const BUSY_CPU_SHARE = 0.9;
/** One delay alone does, when it is this much of what a client waits for its copy. */
const BUSY_DELAY_SHARE = 0.2;
/** How often the event loop is looked at; the histogram has it in each of its values. */
const DELAY_LOOK_MS = 10;
/** No server says these: this machine has no port or no file left. */
const OWN_FAILURES: ReadonlySet<string> = new Set(
  ['EADDRNOTAVAIL', 'EMFILE', 'ENFILE'].map((code) => `unreachable: ${code}`),
);

/**
 * Sends a herd of clients to a server and says what became of them.
 *
 * @throws HeadgateError HG_OPTION when an option is out of range, the target is not of this machine and no other is allowed, the
 * process may not open as many connections, or the admin listener does not answer.
 *
 * @example
 * import { createServer } from 'node:http';
 * const server = createServer((_, response) => response.end('{"flags":{},"segments":{}}'));
 * await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
 * const { port } = server.address() as { port: number };
 * const herd = herdOptions(`http://127.0.0.1:${port}`, { parts: [{ kind: 'fdv1-poll', weight: 1 }], keys: ['sdk-1'], clients: 20 });
 * const report = await runHerd(herd, { version: '1.0.0' });
 * console.log(report.ok, report.ended, report.roles.steady.whole); // true served 20
 * server.close();
 */
export async function runHerd(options: HerdOptions, run: HerdRun): Promise<HerdReport> {
  checkOptions(options);
  checkFiles(options.clients);
  const { allowRemote, admin } = options;
  const found = { allowRemote, ...(run.resolve === undefined ? {} : { resolve: run.resolve }) };
  const target = await findTarget(options.url, { name: 'the URL', ...found });
  const adminTarget = admin === undefined ? undefined : await findTarget(admin, { name: '--admin', ...found });
  const watch = adminTarget === undefined ? undefined : new ServerWatch(adminTarget, options.adminToken);
  await watch?.begin();
  return new Herd(options, run, target, watch).run();
}

/** What a herd does when nothing else is said: all at once, everybody steady, until everybody is served. */
const DEFAULTS = {
  parts: [{ kind: 'fdv1', weight: 1 }],
  sdks: [],
  keys: [],
  bouncerKeys: [],
  clients: 100,
  arriveMs: 0,
  shares: {
    stalled: 0,
    stalledAfterBytes: 10 * 1024,
    slow: 0,
    slowBytesPerSecond: 64 * 1024,
    leaving: 0,
    leavingAfterBytes: 64 * 1024,
  },
  deadlineMs: 60_000,
  durationMs: undefined,
  bytesMax: undefined,
  reconnects: true,
  dropAtMs: undefined,
  everyMs: undefined,
  flag: undefined,
  isPlain: false,
  isInsecure: false,
  allowRemote: false,
  admin: undefined,
  adminToken: undefined,
  seed: 1,
} as const satisfies Omit<HerdOptions, 'url'>;

/**
 * A herd's options: the defaults, and what is said instead of them.
 *
 * @example
 * console.log(herdOptions('http://127.0.0.1:8030', { clients: 500 }).deadlineMs); // 60000
 */
export function herdOptions(url: string, options: Partial<Omit<HerdOptions, 'url'>> = {}): HerdOptions {
  return { ...DEFAULTS, ...options, url };
}

class Herd {
  readonly #options: HerdOptions;
  readonly #run: HerdRun;
  readonly #target: Target;
  readonly #watch: ServerWatch | undefined;
  readonly #clock: Clock;
  readonly #beganMs: number;
  readonly #tally: Tally;
  readonly #clients: readonly Client[];
  readonly #steady: number;
  readonly #delay = monitorEventLoopDelay({ resolution: DELAY_LOOK_MS });
  readonly #cpu = process.cpuUsage();
  /** Steady clients that are served, or will never be. */
  readonly #settled = new Set<Client>();
  #rssBytesMax = 0;
  #ticks = 0;
  #hasDropped = false;
  /** How many have come, and what the next one waits for. */
  #come = 0;
  #coming: Timer | undefined;

  constructor(options: HerdOptions, run: HerdRun, target: Target, watch: ServerWatch | undefined) {
    this.#options = options;
    this.#run = run;
    this.#target = target;
    this.#watch = watch;
    this.#clock = run.clock ?? systemClock;
    this.#beganMs = this.#clock.now();
    this.#tally = new Tally(this.#beganMs);
    const world = this.#world();
    this.#clients = plansOf(options, target).map((plan) => new Client(plan, world));
    this.#steady = this.#clients.filter(({ plan }) => plan.role === 'steady').length;
  }

  async run(): Promise<HerdReport> {
    const startedAt = new Date();
    this.#delay.enable();
    this.#letCome();
    const ended = await this.#until();
    const tookMs = this.#clock.now() - this.#beganMs;
    this.#tell();
    // what is open now is counted as open: only then it is closed
    await this.#watch?.look();
    this.#come = this.#clients.length;
    this.#coming?.cancel();
    for (const client of this.#clients) client.stop();
    this.#delay.disable();
    const tool = this.#toolReport(tookMs);
    await this.#settle();
    const { shown, address } = this.#target;
    return reportOf({
      options: this.#options,
      target: { shown, address },
      clients: this.#clients,
      tally: this.#tally,
      startedAt,
      ended,
      tookMs,
      tool,
      server: this.#watch?.report() ?? null,
    });
  }

  #world(): World {
    const { isInsecure, reconnects, shares } = this.#options;
    const { stalledAfterBytes, leavingAfterBytes, slowBytesPerSecond } = shares;
    return {
      clock: this.#clock,
      random: this.#run.random ?? Math.random,
      target: this.#target,
      isInsecure,
      reconnects,
      stalledAfterBytes,
      leavingAfterBytes,
      slowBytesPerSecond,
      tally: this.#tally,
      onSettled: (client) => {
        if (client.plan.role === 'steady') this.#settled.add(client);
      },
    };
  }

  /** Lets those come whose time it is; nobody after it was interrupted. */
  #letCome(): void {
    const sinceMs = this.#clock.now() - this.#beganMs;
    for (let left = ARRIVALS_MAX; left > 0; left--) {
      const client = this.#clients[this.#come];
      if (client === undefined || this.#run.signal?.aborted === true) return;
      const waitMs = client.plan.arrivalMs - sinceMs;
      if (waitMs > 0) {
        this.#coming = this.#clock.after(waitMs, () => this.#letCome());
        return;
      }
      this.#come++;
      client.arrive();
    }
    setImmediate(() => this.#letCome());
  }

  /** Waits until it is over, and says why. */
  async #until(): Promise<HerdEnd> {
    return new Promise((resolve) => {
      // holds the process, too: all clients may be waiting to come back
      const ticking = setInterval(() => {
        this.#tick();
        const end = this.#endNow();
        if (end === undefined) return;
        clearInterval(ticking);
        resolve(end);
      }, TICK_MS);
    });
  }

  #tick(): void {
    const nowMs = this.#clock.now();
    this.#ticks++;
    for (const client of this.#clients) client.tick(nowMs);
    const { dropAtMs } = this.#options;
    if (dropAtMs !== undefined && !this.#hasDropped && nowMs - this.#beganMs >= dropAtMs) {
      this.#hasDropped = true;
      for (const client of this.#clients) client.lose();
    }
    if (this.#ticks % LOOK_TICKS === 0) {
      this.#rssBytesMax = Math.max(this.#rssBytesMax, process.memoryUsage.rss());
      void this.#watch?.look();
    }
    if (this.#ticks % PROGRESS_TICKS === 0) this.#tell();
  }

  #endNow(): HerdEnd | undefined {
    const { durationMs, bytesMax, arriveMs, deadlineMs } = this.#options;
    const tookMs = this.#clock.now() - this.#beganMs;
    if (this.#run.signal?.aborted === true) return 'interrupted';
    if (bytesMax !== undefined && this.#tally.bytes >= bytesMax) return 'bytes';
    if (durationMs !== undefined) return tookMs >= durationMs ? 'duration' : undefined;
    if (this.#steady > 0 && this.#settled.size === this.#steady && this.#come === this.#clients.length) {
      return this.#served === this.#steady ? 'served' : 'settled';
    }
    // the last one arrives this late, and has its deadline from then on
    return tookMs >= arriveMs + deadlineMs ? 'deadline' : undefined;
  }

  get #served(): number {
    let served = 0;
    for (const { wholeMs } of this.#settled) if (wholeMs !== undefined) served++;
    return served;
  }

  #tell(): void {
    const { onProgress } = this.#run;
    if (onProgress === undefined) return;
    const count = (isSo: (client: Client) => boolean): number => this.#clients.filter(isSo).length;
    const { cut, unanswered, timeout, unreachable, broken } = this.#tally.endings;
    onProgress({
      seconds: (this.#clock.now() - this.#beganMs) / 1000,
      clients: this.#clients.length,
      arrived: count(({ arrivedMs }) => arrivedMs !== undefined),
      steady: this.#steady,
      served: this.#served,
      connected: count(({ isConnected }) => isConnected),
      back: count(({ backMs }) => backMs !== undefined),
      refused: this.#tally.refused.total,
      failed: cut + unanswered + timeout + unreachable + broken,
      bytes: this.#tally.bytes,
    });
  }

  /** How long it took half of those that are served; infinite when nobody is. */
  get #typicalMs(): number {
    const times = [...this.#settled].flatMap(({ wholeMs, arrivedMs }) =>
      wholeMs === undefined || arrivedMs === undefined ? [] : [wholeMs - arrivedMs],
    );
    return spreadOf(times)?.p50 ?? Number.POSITIVE_INFINITY;
  }

  #toolReport(tookMs: number): ToolReport {
    const { user, system } = process.cpuUsage(this.#cpu);
    const cpuSeconds = Math.round((user + system) / 1e3) / 1000;
    const ms = (ns: number): number => Math.max(0, Math.round(ns / 1e5 - DELAY_LOOK_MS * 10) / 10);
    const delay = this.#delay;
    const loopDelayMs = { p50: ms(delay.percentile(50)), p99: ms(delay.percentile(99)), max: ms(delay.max) };
    return {
      wasBusy:
        loopDelayMs.p99 > BUSY_DELAY_MS ||
        loopDelayMs.max > Math.max(BUSY_DELAY_MS, this.#typicalMs * BUSY_DELAY_SHARE) ||
        cpuSeconds > (tookMs / 1000) * BUSY_CPU_SHARE ||
        Object.keys(this.#tally.failures.report()).some((cause) => OWN_FAILURES.has(cause)),
      loopDelayMs,
      cpuSeconds,
      rssBytesMax: Math.max(this.#rssBytesMax, process.memoryUsage.rss()),
      version: this.#run.version,
      machine: `Node ${process.version}, ${machineOf()}`,
    };
  }

  /** Waits until the server has noticed that everybody left. */
  async #settle(): Promise<void> {
    const watch = this.#watch;
    if (watch === undefined) return;
    const untilMs = this.#clock.now() + SETTLE_MS_MAX;
    do {
      await new Promise((resolve) => setTimeout(resolve, SETTLE_LOOK_MS));
      await watch.look();
    } while (watch.isBusy && this.#clock.now() < untilMs);
  }
}

/** Who is what. The same options and seed make the same herd. */
function plansOf(options: HerdOptions, target: Target): readonly Plan[] {
  const { parts, clients, arriveMs, shares, seed, sdks, keys, bouncerKeys, everyMs, flag, isPlain } = options;
  const kinds = mixOf(
    clients,
    parts.map(({ kind, weight }) => ({ value: kind, weight })),
  );
  const roles = rolesOf(clients, shares, seededRandom(seed));
  const arrivals = arrivalsOf(clients, arriveMs);
  const spreads = process.platform === 'linux' && target.address.startsWith('127.');
  const turns = new Map<string, number>();
  return kinds.map((kind, number) => {
    const turn = turns.get(kind) ?? 0;
    turns.set(kind, turn + 1);
    const known = HERD_SDKS[kind].filter((sdk) => sdks.length === 0 || sdks.includes(sdk));
    const profile = profileOf(kind, known[turn % known.length] ?? '');
    const own = kind === 'bouncer' ? bouncerKeys : keys;
    return {
      number,
      role: roles[number] ?? 'steady',
      profile,
      key: own[turn % own.length] ?? '',
      arrivalMs: arrivals[number] ?? 0,
      everyMs: everyMs !== undefined && !profile.isStream ? everyMs : profile.everyMs,
      localAddress: kind === 'bouncer' && spreads ? addressOf(number) : undefined,
      flag,
      isPlain,
    };
  });
}
