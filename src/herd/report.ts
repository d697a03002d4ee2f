import { arch, cpus, platform } from 'node:os';
import type { Client } from './client.ts';
import type { HerdOptions } from './options.ts';
import type { ServerReport } from './server-watch.ts';
import { curveOf, type Spread, spreadOf } from './spread.ts';
import type { Tally } from './tally.ts';
import type { TimelineReport } from './timeline.ts';
import { type HerdKind, ROLES, type Role } from './words.ts';

/** Why a herd ended. */
export type HerdEnd = 'served' | 'settled' | 'deadline' | 'duration' | 'bytes' | 'interrupted';

/** What became of the clients of one role. */
export interface RoleReport {
  readonly clients: number;
  readonly arrived: number;
  /** They have, or had, a full copy. */
  readonly whole: number;
  /** Of these, those that had it within the deadline. */
  readonly inTime: number;
  /** They will never come again: refused for good, or left. */
  readonly gone: number;
}

/** How the tool itself fared: where it was the bottleneck, its times are those of the tool. */
export interface ToolReport {
  /** It was: the times in the report are upper bounds. */
  readonly wasBusy: boolean;
  readonly loopDelayMs: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly cpuSeconds: number;
  readonly rssBytesMax: number;
  readonly version: string;
  readonly machine: string;
}

/** Everything that a herd found out. Times are in seconds, sizes in bytes; `docs/herd.md` explains each. */
export interface HerdReport {
  readonly schema: 'headgate.herd/1';
  readonly startedAt: string;
  readonly target: string;
  readonly address: string;
  /** Every steady client had a full copy within the deadline. */
  readonly ok: boolean;
  readonly ended: HerdEnd;
  readonly seconds: number;
  readonly asked: {
    readonly clients: number;
    readonly kinds: Readonly<Record<string, number>>;
    readonly sdks: Readonly<Record<string, number>>;
    readonly arriveSeconds: number;
    readonly deadlineSeconds: number;
    readonly durationSeconds: number | null;
    readonly reconnects: boolean;
    readonly dropAtSeconds: number | null;
    readonly seed: number;
  };
  readonly roles: Readonly<Record<Role, RoleReport>>;
  /** Of steady clients, from the arrival of each. */
  readonly firstByteSeconds: Spread | null;
  readonly wholeSeconds: Spread | null;
  /** The size of a whole copy as it came. */
  readonly copyBytes: Spread | null;
  readonly attempts: number;
  readonly reconnects: number;
  /** Answers by what they were: everything, what changed, that nothing did. */
  readonly answers: { readonly full: number; readonly changes: number; readonly current: number };
  readonly changes: number;
  /** Answers that refuse, by status, and what they said in Retry-After. */
  readonly refused: Readonly<Record<string, number>>;
  readonly retryAfter: Readonly<Record<string, number>>;
  readonly endings: Readonly<
    Record<'cut' | 'unanswered' | 'timeout' | 'unreachable' | 'broken' | 'streamsEnded', number>
  >;
  /** The same with their causes. */
  readonly failures: Readonly<Record<string, number>>;
  readonly stalled: { readonly stood: number; readonly cut: number; readonly cutSeconds: Spread | null };
  /** Streams that lost their connection at the drop, and how they came back. */
  readonly returns: {
    readonly lost: number;
    readonly back: number;
    readonly full: number;
    readonly changes: number;
    readonly current: number;
    readonly seconds: Spread | null;
  };
  readonly bytes: number;
  readonly bytesPerSecond: number;
  readonly timeline: TimelineReport;
  /** Seconds at each percentile from 0 to 100. */
  readonly curves: { readonly firstByteSeconds: readonly number[]; readonly wholeSeconds: readonly number[] };
  readonly tool: ToolReport;
  readonly server: ServerReport | null;
}

/** What a report is made of. */
export interface Findings {
  readonly options: HerdOptions;
  readonly target: { readonly shown: string; readonly address: string };
  readonly clients: readonly Client[];
  readonly tally: Tally;
  readonly startedAt: Date;
  readonly ended: HerdEnd;
  readonly tookMs: number;
  readonly tool: ToolReport;
  readonly server: ServerReport | null;
}

/** Milliseconds are exact enough, and short to read. */
function seconds(ms: number): number {
  return Math.round(ms) / 1000;
}

/** Makes the report. Keys are not in it. */
export function reportOf(found: Findings): HerdReport {
  const { options, target, clients, tally, tool, server } = found;
  const roles = Object.fromEntries(
    ROLES.map((role) => [
      role,
      roleReport(
        clients.filter(({ plan }) => plan.role === role),
        options.deadlineMs,
      ),
    ]),
  ) as Record<Role, RoleReport>;
  const { steady } = roles;
  const served = clients.filter(({ plan, wholeMs }) => plan.role === 'steady' && wholeMs !== undefined);
  const firstBytes = served.map(({ firstByteMs, arrivedMs }) => seconds((firstByteMs ?? 0) - (arrivedMs ?? 0)));
  const wholes = served.map(({ wholeMs, arrivedMs }) => seconds((wholeMs ?? 0) - (arrivedMs ?? 0)));
  return {
    schema: 'headgate.herd/1',
    startedAt: found.startedAt.toISOString(),
    target: target.shown,
    address: target.address,
    ok: steady.inTime === steady.clients,
    ended: found.ended,
    seconds: seconds(found.tookMs),
    asked: askedOf(options, clients),
    roles,
    firstByteSeconds: spreadOf(firstBytes),
    wholeSeconds: spreadOf(wholes),
    copyBytes: spreadOf(served.map(({ copyBytes }) => copyBytes)),
    attempts: tally.attempts,
    reconnects: clients.reduce((sum, { comebacks }) => sum + comebacks, 0),
    answers: { ...tally.copies },
    changes: tally.changes,
    refused: tally.refused.report(),
    retryAfter: tally.retryAfter.report(),
    endings: { ...tally.endings, streamsEnded: tally.streamsEnded },
    failures: tally.failures.report(),
    stalled: stalledOf(clients),
    returns: returnsOf(clients),
    bytes: tally.bytes,
    bytesPerSecond: Math.round(tally.bytes / Math.max(0.001, found.tookMs / 1000)),
    timeline: tally.timeline.report(found.tookMs),
    curves: { firstByteSeconds: curveOf(firstBytes), wholeSeconds: curveOf(wholes) },
    tool,
    server,
  };
}

function roleReport(clients: readonly Client[], deadlineMs: number): RoleReport {
  const count = (isSo: (client: Client) => boolean): number => clients.filter(isSo).length;
  return {
    clients: clients.length,
    arrived: count(({ arrivedMs }) => arrivedMs !== undefined),
    whole: count(({ wholeMs }) => wholeMs !== undefined),
    inTime: count(({ wholeMs, arrivedMs }) => wholeMs !== undefined && wholeMs - (arrivedMs ?? 0) <= deadlineMs),
    gone: count(({ isGone }) => isGone),
  };
}

function askedOf(options: HerdOptions, clients: readonly Client[]): HerdReport['asked'] {
  const { arriveMs, deadlineMs, durationMs, reconnects, dropAtMs, seed } = options;
  return {
    clients: clients.length,
    kinds: countBy(clients, ({ plan }): HerdKind => plan.profile.kind),
    sdks: countBy(clients, ({ plan }) => plan.profile.sdk),
    arriveSeconds: seconds(arriveMs),
    deadlineSeconds: seconds(deadlineMs),
    durationSeconds: durationMs === undefined ? null : seconds(durationMs),
    reconnects,
    dropAtSeconds: dropAtMs === undefined ? null : seconds(dropAtMs),
    seed,
  };
}

function countBy(clients: readonly Client[], nameOf: (client: Client) => string): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const client of clients) counts[nameOf(client)] = (counts[nameOf(client)] ?? 0) + 1;
  return counts;
}

function stalledOf(clients: readonly Client[]): HerdReport['stalled'] {
  const stood = clients.filter(({ stoodMs }) => stoodMs !== undefined);
  const cut = stood.filter(({ cutMs }) => cutMs !== undefined);
  return {
    stood: stood.length,
    cut: cut.length,
    cutSeconds: spreadOf(cut.map(({ cutMs, stoodAtCutMs }) => seconds((cutMs ?? 0) - (stoodAtCutMs ?? 0)))),
  };
}

function returnsOf(clients: readonly Client[]): HerdReport['returns'] {
  const back = clients.filter(({ backMs }) => backMs !== undefined);
  const having = (copy: string): number => back.filter(({ backWith }) => backWith === copy).length;
  return {
    lost: clients.filter(({ lostMs }) => lostMs !== undefined).length,
    back: back.length,
    full: having('full'),
    changes: having('changes'),
    current: having('current'),
    seconds: spreadOf(back.map(({ backMs, lostMs }) => seconds((backMs ?? 0) - (lostMs ?? 0)))),
  };
}

/** Where the tool runs, for its report. */
export function machineOf(): string {
  const cores = cpus();
  return `${platform()} ${arch()}, ${cores.length} × ${cores[0]?.model.trim() ?? 'unknown'}`;
}
