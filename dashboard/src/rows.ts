import type { Behind, DeliveryProgress, Environment, State } from './contract.ts';
import {
  bytes,
  bytesPerSecond,
  clockTime,
  count,
  counted,
  dayTime,
  duration,
  milliseconds,
  NONE,
  percent,
  share,
  shortPosition,
} from './format.ts';
import { connectionTone, isStoreTroubled, type Tone } from './verdict.ts';

/** More rows than anybody reads, few enough to be drawn each second. */
const ENVIRONMENTS_MAX = 200;
const SOURCES_MAX = 100;
const DELIVERIES_MAX = 20;
const TROUBLE_MAX = 20;
const NAMES = new Intl.Collator('en', { numeric: true });

export interface DeliveryRow {
  readonly name: string;
  readonly route: string;
  readonly address: string;
  readonly progress: string;
  /** Undefined: nobody knows how much there is to send. */
  readonly share: number | undefined;
  readonly rate: string;
  readonly age: string;
  readonly slot: string;
  readonly tone: Tone;
}

/** Deliveries in progress, the slowest readers first. */
export function deliveryRows({ budget, deliveries }: State): readonly DeliveryRow[] {
  return deliveries.slowest.slice(0, DELIVERIES_MAX).map((each) => ({
    name: each.name,
    route: each.route,
    address: each.address,
    progress: progressOf(each),
    share: each.totalBytes === null ? undefined : share(each.bytes, each.totalBytes),
    rate: bytesPerSecond(each.bytesPerSecond),
    age: duration(each.ageMs),
    // without limits there are no slots to hold
    slot: each.parked ? 'parked' : budget.enabled ? 'held' : 'no limit',
    tone: each.parked ? 'warn' : 'calm',
  }));
}

function progressOf({ bytes: sent, totalBytes }: DeliveryProgress): string {
  return totalBytes === null ? bytes(sent) : `${bytes(sent)} of ${bytes(totalBytes)}`;
}

/** What stands above the deliveries. */
export function deliveriesNote({ deliveries }: State, perSecond: number): string {
  const { active, parked, slowest } = deliveries;
  if (active === 0) return `None. ${counted(deliveries.started, 'delivery', 'deliveries')} since the start.`;
  const shown =
    active > slowest.length ? `the slowest ${count(slowest.length)} of ${count(active)}` : `all ${count(active)}`;
  return `${shown}, ${count(parked)} parked; ${bytesPerSecond(perSecond)} to all of them`;
}

export interface EnvironmentRow {
  readonly name: string;
  readonly state: string;
  readonly tone: Tone;
  readonly position: string;
  readonly positionShort: string;
  readonly age: string;
  readonly items: string;
  readonly size: string;
  readonly clients: string;
  readonly behind: string;
  readonly behindShares: readonly number[];
}

/** Environments of flags: those that are not well first, each group by name. */
export function environmentRows({ environments }: State): readonly EnvironmentRow[] {
  return environments.map(environmentRow).toSorted(byNeed).slice(0, ENVIRONMENTS_MAX);
}

function environmentRow(environment: Environment): EnvironmentRow {
  const { name, position, ageMs, items, bytes: size, streams, behind } = environment;
  return {
    name,
    ...environmentState(environment),
    position: position ?? NONE,
    positionShort: position === null ? NONE : shortPosition(position),
    age: duration(ageMs),
    items: count(items),
    size: bytes(size),
    clients: count(streams),
    behind: behindText(behind),
    behindShares: behindShares(behind),
  };
}

function environmentState(environment: Environment): { state: string; tone: Tone } {
  const { ready, connection, dataStore } = environment;
  if (!ready) return { state: `no data, ${connection}`, tone: 'bad' };
  const tone = connectionTone(environment);
  const store = isStoreTroubled(dataStore) ? `, store ${dataStore}` : '';
  return {
    state: `${tone === 'good' ? 'ready' : connection}${store}`,
    tone: tone === 'good' && store !== '' ? 'warn' : tone,
  };
}

/** What is not well first, each group by name: 2 before 10. */
function byNeed(a: { tone: Tone; name: string }, b: { tone: Tone; name: string }): number {
  return weight(a.tone) - weight(b.tone) || NAMES.compare(a.name, b.name);
}

function weight(tone: Tone): number {
  return tone === 'good' ? 2 : tone === 'warn' ? 1 : 0;
}

/** How far behind clients are, in words. */
export function behindText({ current, few, many }: Behind): string {
  if (few + many === 0) return current === 0 ? 'no clients' : 'all current';
  return `${count(current)} current, ${count(few)} by 1–10, ${count(many)} by more`;
}

/** The same as parts of one, for a bar. */
export function behindShares({ current, few, many }: Behind): readonly number[] {
  const all = current + few + many;
  return [current, few, many].map((part) => share(part, all));
}

/** What is not shown of a list that is bounded. */
export function environmentsNote({ environments, environmentsTotal }: State): string {
  const shown = Math.min(environments.length, ENVIRONMENTS_MAX);
  if (environmentsTotal === 0) return 'No source of flags is set up.';
  if (shown < environmentsTotal) return `${count(shown)} of ${count(environmentsTotal)}`;
  return counted(environmentsTotal, 'environment');
}

export interface SourceRow {
  readonly name: string;
  readonly state: string;
  readonly tone: Tone;
  readonly age: string;
  readonly decisions: string;
}

/** Sources of decisions: those that do not answer first. */
export function sourceRows({ decisions }: State): readonly SourceRow[] {
  const rows = (decisions?.sources ?? []).map(
    (source): SourceRow => ({
      name: source.name,
      state: source.up ? 'works' : source.ageMs === null ? 'no data yet' : 'fails',
      tone: source.up ? 'good' : 'bad',
      age: duration(source.ageMs),
      decisions: count(source.decisions),
    }),
  );
  return rows.toSorted(byNeed).slice(0, SOURCES_MAX);
}

/** A name and what stands beside it. */
export interface Fact {
  readonly id: string;
  readonly name: string;
  readonly value: string;
  readonly note: string;
  readonly share?: number | undefined;
}

/** The data set of decisions. */
export function decisionFacts({ decisions }: State): readonly Fact[] {
  if (decisions === null) return [];
  const { held, tombstones, bytes: size, offset, bouncers, behind } = decisions;
  return [
    { id: 'decisions-held', name: 'Decisions', value: count(held), note: `and ${count(tombstones)} ends remembered` },
    { id: 'decisions-bytes', name: 'Size in memory', value: bytes(size), note: '' },
    { id: 'decisions-offset', name: 'Offset', value: count(offset), note: 'of the last change' },
    { id: 'decisions-bouncers', name: 'Bouncers', value: count(bouncers), note: behindText(behind) },
  ];
}

/** Memory of the process. */
export function memoryFacts({ memory, deliveries }: State): readonly Fact[] {
  const { rssBytes, limitBytes, heapUsedBytes, externalBytes } = memory;
  return [
    {
      id: 'rss',
      name: 'Resident',
      value: bytes(rssBytes),
      note: limitBytes === null ? 'no limit known' : `of ${bytes(limitBytes)}, ${percent(share(rssBytes, limitBytes))}`,
      share: limitBytes === null ? undefined : share(rssBytes, limitBytes),
    },
    { id: 'heap', name: 'JavaScript heap', value: bytes(heapUsedBytes), note: 'in use' },
    { id: 'external', name: 'Outside of the heap', value: bytes(externalBytes), note: 'buffers, pages of data' },
    {
      id: 'kernel-held',
      name: 'Held by the kernel',
      value: bytes(deliveries.kernelHeldBytes),
      note: deliveries.kernelHeldBytes === null ? 'cannot be asked here' : 'written, not yet taken by readers',
    },
  ];
}

/** What was saved, and how. */
export function savingFacts({ sharing }: State): readonly Fact[] {
  const { copiedBytes, pinnedBytes, savedBytes, compressedAwayBytes, full, catchUps, current, sentBytes } = sharing;
  const sent = sentBytes.identity + sentBytes.gzip;
  return [
    {
      id: 'saved-sharing',
      name: 'By sharing, now',
      value: bytes(Math.max(0, copiedBytes - pinnedBytes)),
      note: `${bytes(pinnedBytes)} pinned in place of ${bytes(copiedBytes)} in copies`,
    },
    {
      id: 'saved-catch-up',
      name: 'By catch-ups',
      value: bytes(savedBytes),
      note: `${count(full)} full copies, ${count(catchUps)} catch-ups, ${count(current)} nothing new`,
    },
    {
      id: 'saved-compression',
      name: 'By compression',
      value: bytes(compressedAwayBytes),
      note: `${bytes(sentBytes.gzip)} sent in place of ${bytes(sentBytes.gzip + compressedAwayBytes)}`,
    },
    {
      id: 'sent',
      name: 'Sent',
      value: bytes(sent),
      note: `${bytes(sentBytes.gzip)} of it compressed, ${bytes(sentBytes.identity)} not`,
      share: sent === 0 ? undefined : share(sentBytes.gzip, sent),
    },
  ];
}

/** The event loop. */
export function loopFacts({ loop }: State): readonly Fact[] {
  return [
    {
      id: 'loop-utilization',
      name: 'Event loop busy',
      value: percent(loop.utilization),
      note: '',
      share: share(loop.utilization, 1),
    },
    {
      id: 'loop-delay',
      name: 'Loop delay, p99',
      value: milliseconds(loop.p99Ms),
      note: `p50 ${milliseconds(loop.p50Ms)}, longest ${milliseconds(loop.maxMs)}`,
    },
  ];
}

export interface TroubleRow {
  readonly at: string;
  readonly level: string;
  readonly tone: Tone;
  readonly text: string;
  readonly count: string;
}

const DAY_MS = 86_400_000;

/** What the log said, newest first. */
export function troubleRows({ trouble, atMs: nowMs }: State): readonly TroubleRow[] {
  return trouble.slice(0, TROUBLE_MAX).map(({ atMs, level, text, count: times }) => ({
    at: nowMs - atMs < DAY_MS ? clockTime(atMs) : dayTime(atMs),
    level: level === 'error' ? 'error' : 'warning',
    tone: level === 'error' ? 'bad' : 'warn',
    text,
    count: times > 1 ? `${count(times)} times` : '',
  }));
}
