import { performance } from 'node:perf_hooks';
import type { Deliveries, DeliveryProgress } from '../delivery/index.ts';
import type { Behind, DecisionFigures, EnvironmentFigures, Figures } from './figures.ts';
import type { Metrics } from './metrics.ts';
import type { State, StateTrouble } from './state.ts';
import type { TroubleLine } from './trouble.ts';

/** What a state is made of: the same sources as those of the metrics. */
export interface StateParts {
  readonly version: string;
  /** Unix time at which this process began to serve, in milliseconds. */
  readonly startedAtMs: number;
  readonly wallNow: () => number;
  readonly ready: () => boolean;
  readonly healthy: () => boolean;
  readonly stopping: () => boolean;
  readonly figures: () => Figures;
  readonly metrics: Pick<Metrics, 'totals' | 'loopDelay'>;
  /** Those in progress, one by one; asked for a state alone, since all of them are looked at. */
  readonly deliveries: Pick<Deliveries, 'slowest' | 'copiedBytes'>;
  readonly trouble: () => readonly TroubleLine[];
  /** What metrics call an environment, by its name in facts. */
  readonly tenantOf: (name: string) => string;
  /** A text without keys and IDs. */
  readonly hide: (text: string) => string;
  /** How long the event loop has waited, and worked, since it began, in milliseconds; default this process's. */
  readonly loopTimes?: () => { readonly idle: number; readonly active: number };
}

/** Deliveries that are shown one by one. */
const SLOWEST_MAX = 20;
/** Environments that are shown; metrics have more. */
const ENVIRONMENTS_MAX = 200;
/** A shorter time says little about how busy the loop is. */
const UTILIZATION_MS_MIN = 500;

/**
 * Reads the state of a process, as of now.
 *
 * @example
 * function answerState(exchange: { reply(status: number, headers: object, body: string): void }, reader: StateReader): void {
 *   exchange.reply(200, { 'content-type': 'application/json' }, JSON.stringify(reader.read()));
 * }
 */
export class StateReader {
  readonly #parts: StateParts;
  readonly #loopTimes: NonNullable<StateParts['loopTimes']>;
  #loop: ReturnType<NonNullable<StateParts['loopTimes']>>;
  #utilization = 0;
  /** The lines of the last state, as they were shown: what a line hides stays hidden when the environment has gone. */
  #hidden: ReadonlyMap<string, string> = new Map();

  constructor(parts: StateParts) {
    this.#parts = parts;
    this.#loopTimes = parts.loopTimes ?? (() => performance.eventLoopUtilization());
    this.#loop = this.#loopTimes();
  }

  read(): State {
    const { version, startedAtMs, wallNow, ready, healthy, stopping, figures, metrics } = this.#parts;
    const now = figures();
    const { deliveries, decisions } = now;
    return {
      atMs: wallNow(),
      startedAtMs,
      version,
      node: process.version,
      ready: ready(),
      healthy: healthy(),
      stopping: stopping(),
      budget: budgetOf(now),
      deliveries: {
        active: deliveries.active,
        parked: deliveries.parked,
        started: deliveries.started,
        parks: deliveries.parks,
        ended: deliveries.ended,
        bytes: deliveries.bytes,
        kernelHeldBytes: now.kernelHeldBytes ?? null,
        slowest: this.#slowest(),
      },
      environments: shownOf(now.environments).map(environmentOf),
      environmentsTotal: now.environments.length,
      streams: now.environments.reduce((sum, { streams }) => sum + streamsOf(streams), 0),
      decisions: decisions === undefined ? null : decisionsOf(decisions),
      sharing: {
        ...metrics.totals(),
        copiedBytes: this.#parts.deliveries.copiedBytes(),
        pinnedBytes: now.admission.pinnedBytes,
      },
      memory: memoryOf(now),
      loop: { ...metrics.loopDelay(), utilization: this.#utilizationNow() },
      trouble: this.#trouble(),
    };
  }

  #slowest(): DeliveryProgress[] {
    const { deliveries, tenantOf } = this.#parts;
    const tenants = new Map<string, string>();
    return deliveries.slowest(SLOWEST_MAX).map((progress) => {
      if (progress.front !== 'flags') return progress;
      const name = tenants.get(progress.name) ?? tenantOf(progress.name);
      tenants.set(progress.name, name);
      return { ...progress, name };
    });
  }

  /** Since the last time that somebody asked, unless that was just now. */
  #utilizationNow(): number {
    const now = this.#loopTimes();
    const activeMs = now.active - this.#loop.active;
    const ms = activeMs + now.idle - this.#loop.idle;
    if (ms < UTILIZATION_MS_MIN) return this.#utilization;
    this.#loop = now;
    this.#utilization = activeMs / ms;
    return this.#utilization;
  }

  #trouble(): StateTrouble[] {
    const { trouble, tenantOf, hide } = this.#parts;
    const lines = trouble();
    // every key there is, is looked for in each: done once, and not each second
    this.#hidden = new Map(lines.map(({ text }) => [text, this.#hidden.get(text) ?? hide(text)]));
    return lines.map(({ atMs, level, text, subject, count }) => {
      const name = subject?.kind === 'environment' ? tenantOf(subject.name) : subject?.name;
      const shown = this.#hidden.get(text) ?? '';
      return { atMs, level, text: shown + (name === undefined ? '' : ` (${name})`), count };
    });
  }
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** A wait that was refused before it began is early, and no timeout. */
function budgetOf({
  admission,
  slotsMax,
  queueMax = Number.POSITIVE_INFINITY,
  pinnedBytesMax,
  parkedMax,
}: Figures): State['budget'] {
  const { enabled, held, parked, waiting, waitingOpen, pinnedBytes, admitted, refused, refusedEarly } = admission;
  const { full, timeout, aborted, closed } = refused;
  return {
    enabled,
    slotsMax: enabled ? finite(slotsMax) : null,
    queueMax: enabled ? finite(queueMax) : null,
    held,
    parked,
    parkedMax: enabled ? (parkedMax ?? null) : null,
    waiting,
    waitingOpen,
    pinnedBytes,
    pinnedBytesMax: enabled ? finite(pinnedBytesMax) : null,
    admitted,
    refused: { full, timeout: timeout - refusedEarly, early: refusedEarly, aborted, closed },
    longestWaitMs: admission.longestWaitMs,
  };
}

function memoryOf({ memoryLimitBytes = Number.POSITIVE_INFINITY }: Figures): State['memory'] {
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rssBytes: rss, heapUsedBytes: heapUsed, externalBytes: external, limitBytes: finite(memoryLimitBytes) };
}

/** All of them, or those that are not well before the others. */
function shownOf(environments: readonly EnvironmentFigures[]): readonly EnvironmentFigures[] {
  if (environments.length <= ENVIRONMENTS_MAX) return environments;
  const isWell = ({ ready, connected }: EnvironmentFigures): boolean => ready && connected;
  return environments.toSorted((one, other) => Number(isWell(one)) - Number(isWell(other))).slice(0, ENVIRONMENTS_MAX);
}

function streamsOf(streams: EnvironmentFigures['streams']): number {
  return streams.reduce((sum, { count }) => sum + count, 0);
}

function environmentOf(figures: EnvironmentFigures): State['environments'][number] {
  const { name, ready, connection, dataStore, items, bytes, position, ageMs, streams, behind } = figures;
  return {
    name,
    ready,
    connection,
    dataStore,
    items,
    bytes: bytes ?? null,
    position: position ?? null,
    ageMs: ageMs ?? null,
    streams: streamsOf(streams),
    behind: behindOf(behind),
  };
}

function decisionsOf(figures: DecisionFigures): State['decisions'] {
  const { tombstones, bytes, offset, counts, cursors, behind, sources } = figures;
  return {
    held: counts.reduce((sum, { count }) => sum + count, 0),
    tombstones,
    bytes,
    offset,
    bouncers: cursors,
    behind: behindOf(behind),
    sources: sources.map(({ name, up, ageMs, decisions }) => ({ name, up, ageMs: ageMs ?? null, decisions })),
  };
}

/** Members by name: what is counted with may have more. */
function behindOf({ current, few, many }: Behind): Behind {
  return { current, few, many };
}
