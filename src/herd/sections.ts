import type { HerdEnd, HerdReport } from './report.ts';
import type { ServerReport } from './server-watch.ts';
import { shownBytes, shownCount, shownCounts, shownSeconds } from './shown.ts';
import type { Spread } from './spread.ts';
import { ROLES } from './words.ts';

/** A table of a report: what both its text and its page show. */
export interface Section {
  readonly title: string;
  /** The heads of the columns; none for a list of names and values. */
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const ENDS: Readonly<Record<HerdEnd, string>> = {
  served: 'every steady client had a full copy',
  settled: 'every steady client had a full copy or will never have one',
  deadline: 'the deadline of the last client had passed',
  duration: 'the duration had passed',
  bytes: 'as many bytes had come as were allowed',
  interrupted: 'it was interrupted',
};

/** One sentence that says how it went. */
export function verdictOf({ ok, roles, asked, seconds }: HerdReport): string {
  const { clients, inTime, whole } = roles.steady;
  if (clients === 0) return 'No steady clients, so nothing to be judged.';
  const deadline = shownSeconds(asked.deadlineSeconds);
  if (ok) return `All ${shownCount(clients)} steady clients had a full copy within ${deadline}.`;
  const late = whole - inTime;
  // not all of them had their whole deadline
  const isEarly = seconds < asked.arriveSeconds + asked.deadlineSeconds;
  const when = isEarly ? `when it ended after ${shownSeconds(seconds)}` : `within ${deadline}`;
  return `${shownCount(clients - inTime)} of ${shownCount(clients)} steady clients had no full copy ${when}${late > 0 ? ` (${shownCount(late)} had it later)` : ''}.`;
}

/** Everything that a report has to show, in tables. */
export function sectionsOf(report: HerdReport): readonly Section[] {
  const { server } = report;
  return [
    herdSection(report),
    clientsSection(report),
    timesSection(report),
    answersSection(report),
    ...(report.asked.dropAtSeconds === null ? [] : [returnsSection(report)]),
    ...(server === null ? [] : [serverSection(server)]),
    toolSection(report),
  ];
}

function herdSection({ target, address, asked, ended, seconds, bytes, bytesPerSecond }: HerdReport): Section {
  return {
    title: 'The herd',
    columns: [],
    rows: [
      ['target', `${target} (${address})`],
      ['clients', `${shownCount(asked.clients)}: ${shownCounts(asked.kinds)}`],
      ['SDKs', shownCounts(asked.sdks)],
      ['arrival', asked.arriveSeconds === 0 ? 'all at once' : `evenly over ${shownSeconds(asked.arriveSeconds)}`],
      ['ended', `after ${shownSeconds(seconds)}: ${ENDS[ended]}`],
      ['received', `${shownBytes(bytes)}, ${shownBytes(bytesPerSecond)}/s`],
    ],
  };
}

function clientsSection({ roles, stalled }: HerdReport): Section {
  const rows = ROLES.filter((role) => roles[role].clients > 0).map((role) => {
    const { clients, arrived, whole, inTime, gone } = roles[role];
    return [role, ...[clients, arrived, whole, inTime, gone].map(shownCount)];
  });
  if (roles.stalled.clients > 0) {
    const after =
      stalled.cutSeconds === null ? '' : ` (median ${shownSeconds(stalled.cutSeconds.p50)} after its last byte)`;
    rows.push([
      `of the stalled, ${shownCount(stalled.stood)} stood still and ${shownCount(stalled.cut)} were cut${after}`,
    ]);
  }
  return { title: 'Clients', columns: ['', 'clients', 'arrived', 'full copy', 'in time', 'gone'], rows };
}

function timesSection({ firstByteSeconds, wholeSeconds, copyBytes, stalled, roles }: HerdReport): Section {
  const row = (name: string, spread: Spread | null, show: (value: number) => string): readonly string[] =>
    spread === null
      ? [name, '–', '–', '–', '–']
      : [name, show(spread.p50), show(spread.p90), show(spread.p99), show(spread.max)];
  return {
    title: 'From arrival, steady clients',
    columns: ['', 'p50', 'p90', 'p99', 'max'],
    rows: [
      row('to the first byte', firstByteSeconds, shownSeconds),
      row('to the full copy', wholeSeconds, shownSeconds),
      row('size of a full copy', copyBytes, shownBytes),
      ...(roles.stalled.clients > 0 ? [row('stalled, until cut', stalled.cutSeconds, shownSeconds)] : []),
    ],
  };
}

function answersSection({
  attempts,
  reconnects,
  answers,
  changes,
  refused,
  retryAfter,
  endings,
  failures,
}: HerdReport): Section {
  return {
    title: 'Requests',
    columns: [],
    rows: [
      ['sent', `${shownCount(attempts)}, of these ${shownCount(reconnects)} after a failure`],
      ['full copies', shownCount(answers.full)],
      ['catch-ups', shownCount(answers.changes)],
      ['nothing new', shownCount(answers.current)],
      ['changes on open streams', shownCount(changes)],
      ['refused, by status', shownCounts(refused)],
      ['their Retry-After', shownCounts(retryAfter)],
      ['cut before the end', shownCount(endings.cut)],
      ['given up by the client', shownCount(endings.timeout)],
      ['without an answer', shownCount(endings.unanswered + endings.unreachable)],
      ['open streams that were closed', shownCount(endings.streamsEnded)],
      ['failures, by cause', shownCounts(failures)],
    ],
  };
}

function returnsSection({ returns, asked }: HerdReport): Section {
  const { lost, back, full, changes, current, seconds } = returns;
  const took = seconds === null ? '–' : `p50 ${shownSeconds(seconds.p50)}, p99 ${shownSeconds(seconds.p99)}`;
  return {
    title: `Every connection lost after ${shownSeconds(asked.dropAtSeconds ?? 0)}`,
    columns: [],
    rows: [
      ['streams that lost it', shownCount(lost)],
      ['up to date again', `${shownCount(back)} (${took})`],
      ['by a full copy', shownCount(full)],
      ['by what changed', shownCount(changes)],
      ['by hearing that nothing did', shownCount(current)],
    ],
  };
}

function serverSection(server: ServerReport): Section {
  const or = (value: number | null, show: (value: number) => string): string => (value === null ? '–' : show(value));
  return {
    title: 'What the server says',
    columns: [],
    rows: [
      ['asked', `${shownCount(server.asked)} times, ${shownCount(server.missed)} in vain`],
      [
        'resident memory',
        `${or(server.rssBytesBefore, shownBytes)} before, ${or(server.rssBytesMax, shownBytes)} at most`,
      ],
      ...(server.restarts === 0 ? [] : [['started again', `${shownCount(server.restarts)} times`]]),
      ['processor time', or(server.cpuSeconds, shownSeconds)],
      ['slots held, at most', or(server.heldMax, shownCount)],
      ['waiting, at most', or(server.waitingMax, shownCount)],
      ['parked, at most', or(server.parkedMax, shownCount)],
      ['admitted', shownCount(server.admitted)],
      ['refused', shownCounts(server.refused)],
      ['deliveries', shownCounts(server.deliveries)],
      ['sent', shownBytes(server.sentBytes)],
    ],
  };
}

function toolSection({ tool }: HerdReport): Section {
  const { p50, p99, max } = tool.loopDelayMs;
  return {
    title: 'This tool',
    columns: [],
    rows: [
      ['version', tool.version],
      ['machine', tool.machine],
      ['processor time', shownSeconds(tool.cpuSeconds)],
      ['event loop delay', `p50 ${p50} ms, p99 ${p99} ms, max ${max} ms`],
      ['resident memory', `${shownBytes(tool.rssBytesMax)} at most`],
      ['was it the limit?', tool.wasBusy ? 'yes: the times above are upper bounds' : 'no'],
    ],
  };
}
