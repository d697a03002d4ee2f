import type { State } from './contract.ts';
import { bytes, count, counted, duration, NONE, percent, rate, share } from './format.ts';
import type { Recent } from './history.ts';
import type { Tone } from './verdict.ts';

/** A number of the gauge. */
export interface Figure {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  /** What the number is to be compared with. */
  readonly note: string;
  /** How full; undefined where there is no bound. */
  readonly share: number | undefined;
  readonly tone: Tone;
}

/** From here on a bound is near enough to be looked at. */
const NEAR = 0.8;

/** The gauge: what is taken, of how much. */
export function figuresOf(
  { budget, deliveries }: State,
  recent: Recent | undefined,
  refusedInMinute: number,
): readonly Figure[] {
  const slots = budget.slotsMax === null ? undefined : share(budget.held, budget.slotsMax);
  const queue = budget.queueMax === null ? undefined : share(budget.waiting, budget.queueMax);
  const pinned = budget.pinnedBytesMax === null ? undefined : share(budget.pinnedBytes, budget.pinnedBytesMax);
  const parked = budget.parkedMax === null ? undefined : share(budget.parked, budget.parkedMax);
  const open = budget.waitingOpen === 0 ? '' : ` + ${counted(budget.waitingOpen, 'stream')}`;
  return [
    {
      id: 'held',
      label: 'Slots held',
      value: count(budget.held),
      note: budget.slotsMax === null ? 'no limit' : `of ${count(budget.slotsMax)}`,
      share: slots,
      tone: slots === 1 ? 'warn' : 'calm',
    },
    {
      id: 'waiting',
      label: 'Waiting',
      value: count(budget.waiting),
      note: `${budget.queueMax === null ? 'no bound' : `of ${count(budget.queueMax)}`}${open}`,
      share: queue,
      tone: toneOf(queue, budget.waiting > 0),
    },
    {
      id: 'refused-minute',
      label: 'Refused last minute',
      value: count(refusedInMinute),
      note: `${count(refusedOf(budget.refused))} since the start`,
      share: undefined,
      tone: refusedInMinute > 0 ? 'bad' : 'calm',
    },
    {
      id: 'parked',
      label: 'Parked',
      value: count(budget.parked),
      note: `${budget.parkedMax === null ? '' : `of ${count(budget.parkedMax)}, `}${count(deliveries.parks)} since the start`,
      share: parked,
      tone: toneOf(parked, false),
    },
    {
      id: 'pinned',
      label: 'Pinned by deliveries',
      value: bytes(budget.pinnedBytes),
      note: budget.pinnedBytesMax === null ? 'no bound' : `of ${bytes(budget.pinnedBytesMax)}`,
      share: pinned,
      tone: toneOf(pinned, false),
    },
    {
      id: 'admitted-rate',
      label: 'Admitted',
      value: `${rate(recent?.admittedPerSecond ?? 0)}/s`,
      note: `${count(budget.admitted)} since the start`,
      share: undefined,
      tone: 'calm',
    },
  ];
}

const MINUTE_MS = 60_000;

/**
 * How many were refused in the last minute. A page that is younger knows it from the timeline alone, whose last step may be
 * 2 s old: what it has seen itself since then counts as well.
 */
export function refusedLately(recent: Recent | undefined, inTimeline: number): number {
  if (recent === undefined) return inTimeline;
  const seen = refusedOf(recent.refused);
  return recent.overMs >= MINUTE_MS ? seen : Math.max(seen, inTimeline);
}

/** Those who were told no: who left by himself while he waited was not refused. */
function refusedOf(refused: State['budget']['refused']): number {
  return refused.full + refused.timeout + refused.early + refused.closed;
}

/** What the gauge says beside its numbers. */
export function budgetNote({ budget }: State): string {
  if (!budget.enabled) return 'No limit is set: nobody waits, and nobody is refused.';
  const longest =
    budget.longestWaitMs === 0 ? '' : ` The longest wait for one so far: ${duration(budget.longestWaitMs)}.`;
  if (budget.held === 0 && budget.waiting === 0) return `Every slot is free.${longest}`;
  return `${budget.slotsMax === budget.held ? 'No slot is free.' : 'Some slots are free.'}${longest}`;
}

/** What a meter says to those who do not see it. */
export function meterText({ value, note, share: part }: Figure): string {
  return part === undefined ? `${value} ${note}` : `${value} ${note}, ${percent(part)}`;
}

function toneOf(part: number | undefined, isTaken: boolean): Tone {
  if (part !== undefined && part >= NEAR) return 'bad';
  return isTaken ? 'warn' : 'calm';
}

/** One cause of a refusal or a cut. */
export interface Cause {
  readonly id: string;
  readonly group: string;
  /** Whether the one before it is of another group. */
  readonly isFirst: boolean;
  readonly name: string;
  readonly meaning: string;
  readonly recent: string;
  readonly total: string;
  readonly tone: Tone;
}

/** Group, name of the cause in the metrics, meaning, and how a rise is to be looked at. */
const REFUSALS = [
  ['Refused', 'full', 'queue full', 'bad'],
  ['Refused', 'timeout', 'waited in vain', 'bad'],
  ['Refused', 'early', 'would wait in vain', 'bad'],
  ['Refused', 'closed', 'stop under way', 'warn'],
  ['Left', 'aborted', 'while waiting', 'warn'],
] as const;
const ENDS = [
  ['Left', 'client_gone', 'during the delivery', 'warn'],
  ['Cut', 'stalled', 'below the floor', 'bad'],
  ['Cut', 'capped', 'took too long', 'bad'],
  ['Cut', 'error', 'error of ours', 'bad'],
  ['Cut', 'shutdown', 'stop under way', 'warn'],
  ['Sent', 'completed', 'to the last byte', 'good'],
] as const;

/** Refusals and ends by cause, in the last minute and since the start. */
export function causesOf({ budget, deliveries }: State, recent: Recent | undefined): readonly Cause[] {
  const row = (words: readonly [string, string, string, Tone], total: number, rise: number | undefined): Cause => ({
    id: words[1],
    group: words[0],
    isFirst: false,
    name: words[1],
    meaning: words[2],
    recent: rise === undefined ? NONE : count(rise),
    total: count(total),
    tone: rise !== undefined && rise > 0 ? words[3] : 'calm',
  });
  const rows = [
    ...REFUSALS.map((words) => row(words, budget.refused[words[1]], recent?.refused[words[1]])),
    ...ENDS.map((words) => row(words, deliveries.ended[words[1]], recent?.ended[words[1]])),
  ];
  return rows.map((each, at) => ({ ...each, isFirst: rows[at - 1]?.group !== each.group }));
}

/** What the column of recent numbers covers: a minute, or less while the page is young. */
export function recentTitle(recent: Recent | undefined): string {
  const seconds = Math.round((recent?.overMs ?? 0) / 1000);
  return seconds >= 60 ? 'last minute' : `last ${seconds} s`;
}
