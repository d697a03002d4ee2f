import type { LimitsConfig, LimitsSpec, Machine } from './types.ts';
import { formatBytes, formatDuration, formatLink } from './values.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** What one delivery to a slow reader holds in the kernel, with the low-water mark and without. */
const KERNEL_BYTES_LOW_WATER = 256 * KIB;
/** Without the low-water mark: what Linux lets a socket's send buffer grow to (`tcp_wmem`). */
export const KERNEL_BYTES_PLAIN: number = 4 * MIB;
/** What one caller in the queue holds: its connection, with TLS, and its request. */
export const WAITER_BYTES: number = 32 * KIB;

/** What the process takes without data; `bench/sizing` measures it. */
export const PROCESS_BYTES: number = 120 * MIB;

/** Fewer would leave a small container no better than one client after the other. */
const SLOTS_MIN = 32;
/** More in progress at once brings nobody home sooner. In fact the link's bound is mostly lower. */
const SLOTS_MAX = 4096;
/** Half the least number of slots: a few stalled readers must not stop parking in the smallest container. */
const PARKED_MIN = 16;
/** A herd of a thousand must be able to wait, however small the container. */
const QUEUE_MIN = 1024;
/** One address has this many ports; a longer queue could not be emptied within any wait. */
const QUEUE_MAX = 65_536;
/** A few old pages must be allowed, or nobody could be served while the data changes. */
const PINNED_BYTES_MIN = 16 * MIB;

/** Between what `auto` keeps its numbers. */
export const BOUNDS: Readonly<Record<keyof typeof SHARES, readonly [least: number, most: number]>> = {
  slots: [SLOTS_MIN, SLOTS_MAX],
  parked: [PARKED_MIN, SLOTS_MAX],
  queue: [QUEUE_MIN, QUEUE_MAX],
  pinned: [PINNED_BYTES_MIN, Number.POSITIVE_INFINITY],
};

/** Below the 14 s and more that SDKs were seen to wait for a stream's headers. */
const WAIT_STREAM_MS = 10_000;
/** Some SDKs give a whole poll 3 s: one is left for waiting. */
const WAIT_POLL_MS = 1000;
/** Some bouncers give up after 3 s without a byte, and a refusal ends others: wait, but less. */
const WAIT_DECISIONS_MS = 2000;

/** Where nobody says what the link carries: the least that servers have today. */
const LINK_BYTES_PER_SECOND = 125_000_000;
/** When the link is full each reader still gets this many times the floor: no link is shared evenly. */
export const LINK_HEADROOM = 2;

const FLOOR_BYTES_PER_SECOND = 64 * KIB;
/** Silence that a steady reader at the floor rate shows, with room to spare: 2 s with the mark, 21.9 s without. */
const SLACK_LOW_WATER_MS = 10_000;
const SLACK_PLAIN_MS = 30_000;
const VENDOR_SLACK_MS = 5000;
const VENDOR_SEND_TIMEOUT_MS = 120_000;
/** The relay's vendor has no word for decisions; this is what theirs lets them wait. */
const VENDOR_WAIT_DECISIONS_MS = 10_000;

/** What all deliveries may hand over in one turn of the event loop; always on, whatever the mode. */
const TURN_BYTES = MIB;
const LOW_WATER_MARK_BYTES = 64 * KIB;

/** The parts of the memory limit that deliveries may use, as divisors. Together five eighths; the rest is ours. */
export const SHARES = { slots: 4, parked: 8, pinned: 8, queue: 8 } as const;

/** In small containers the process comes first, then so much for data, then pinned pages and the queue; then deliveries. */
const DATA_SHARE = 8;

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}

function lowWaterMark(spec: LimitsSpec, machine: Machine): number | undefined {
  if (!machine.lowWater || spec.lowWaterMarkBytes === 'off') return undefined;
  return spec.lowWaterMarkBytes ?? LOW_WATER_MARK_BYTES;
}

/** What one delivery costs in the kernel: four times the mark, or the kernel's own buffer. */
export function kernelBytes(markBytes: number | undefined): number {
  return markBytes === undefined
    ? KERNEL_BYTES_PLAIN
    : clamp(4 * markBytes, KERNEL_BYTES_LOW_WATER, KERNEL_BYTES_PLAIN);
}

function resolveOff(spec: LimitsSpec, machine: Machine): LimitsConfig {
  return {
    mode: spec.mode,
    enabled: false,
    slots: Number.POSITIVE_INFINITY,
    queue: 0,
    waitStreamMsMax: Number.POSITIVE_INFINITY,
    waitPollMsMax: Number.POSITIVE_INFINITY,
    waitDecisionsMsMax: Number.POSITIVE_INFINITY,
    parking: false,
    parked: 0,
    pinnedBytesMax: Number.POSITIVE_INFINITY,
    sendTimeoutMs: undefined,
    linkBytesPerSecond: Number.POSITIVE_INFINITY,
    floorBytesPerSecond: 0,
    slackMs: 0,
    fairness: 'off',
    earlyShed: false,
    turnBytesMax: spec.turnBytes ?? TURN_BYTES,
    lowWaterMarkBytes: lowWaterMark(spec, machine),
  };
}

function resolveVendor(spec: LimitsSpec, machine: Machine): LimitsConfig {
  const off = resolveOff(spec, machine);
  if (spec.slots === undefined || spec.slots <= 0) return off;
  const floor = spec.floorBytesPerSecond ?? FLOOR_BYTES_PER_SECOND;
  const unguarded = floor === 0; // the vendor of bouncers has no deadline
  return {
    ...off,
    enabled: true,
    slots: spec.slots,
    queue: spec.queue ?? 0,
    waitStreamMsMax: spec.waitStreamMs ?? Number.POSITIVE_INFINITY,
    waitPollMsMax: spec.waitPollMs ?? Number.POSITIVE_INFINITY,
    waitDecisionsMsMax: spec.waitDecisionsMs ?? VENDOR_WAIT_DECISIONS_MS,
    sendTimeoutMs: spec.sendTimeoutMs ?? (unguarded ? undefined : VENDOR_SEND_TIMEOUT_MS),
    floorBytesPerSecond: floor,
    // without the low-water mark the kernel hides more of a steady reader's progress than the vendor's slack allows for
    slackMs: off.lowWaterMarkBytes === undefined ? SLACK_PLAIN_MS : VENDOR_SLACK_MS,
  };
}

function pinnedOf(memory: number): number {
  return Math.max(PINNED_BYTES_MIN, Math.floor(memory / SHARES.pinned));
}

function queueOf(memory: number): number {
  return clamp(Math.floor(memory / SHARES.queue / WAITER_BYTES), QUEUE_MIN, QUEUE_MAX);
}

/** The memory of which slots and parked readers get their shares: the limit, or less where that would not fit. */
export function memoryCounted(memory: number): number {
  const before = PROCESS_BYTES + memory / DATA_SHARE + pinnedOf(memory) + queueOf(memory) * WAITER_BYTES;
  return clamp((memory - before) / (1 / SHARES.slots + 1 / SHARES.parked), 0, memory);
}

/** How many readers a full link gives {@link LINK_HEADROOM} times the floor: those with a slot, and those parked. */
export function placesOnLink(linkBytesPerSecond: number, floorBytesPerSecond: number): number {
  if (floorBytesPerSecond === 0) return Number.POSITIVE_INFINITY;
  return Math.floor(linkBytesPerSecond / (LINK_HEADROOM * floorBytesPerSecond));
}

/** As the memory is shared between the two, so is the link. A parked reader reads on: what the kernel holds, it takes. */
function ofPlaces(places: number, name: 'slots' | 'parked'): number {
  return Math.max(1, Math.floor(places / SHARES[name] / (1 / SHARES.slots + 1 / SHARES.parked)));
}

/** How many `auto` allows: as memory and link do. */
function allowed(name: 'slots' | 'parked', machine: Machine, per: { bytes: number; places: number }): number {
  const byMemory = Math.floor(memoryCounted(machine.memoryLimitBytes) / SHARES[name] / per.bytes);
  return Math.min(clamp(byMemory, ...BOUNDS[name]), ofPlaces(per.places, name));
}

function resolveAuto(spec: LimitsSpec, machine: Machine): LimitsConfig {
  const markBytes = lowWaterMark(spec, machine);
  const memory = machine.memoryLimitBytes;
  const linkBytesPerSecond = spec.linkBytesPerSecond ?? LINK_BYTES_PER_SECOND;
  const floorBytesPerSecond = spec.floorBytesPerSecond ?? FLOOR_BYTES_PER_SECOND;
  const per = { bytes: kernelBytes(markBytes), places: placesOnLink(linkBytesPerSecond, floorBytesPerSecond) };
  const parked = spec.parking === false ? 0 : (spec.parked ?? allowed('parked', machine, per));
  return {
    mode: 'auto',
    enabled: true,
    slots: spec.slots ?? allowed('slots', machine, per),
    queue: spec.queue ?? queueOf(memory),
    waitStreamMsMax: spec.waitStreamMs ?? WAIT_STREAM_MS,
    waitPollMsMax: spec.waitPollMs ?? WAIT_POLL_MS,
    waitDecisionsMsMax: spec.waitDecisionsMs ?? WAIT_DECISIONS_MS,
    parking: parked > 0,
    parked,
    pinnedBytesMax: spec.pinnedBytes ?? pinnedOf(memory),
    sendTimeoutMs: spec.sendTimeoutMs,
    linkBytesPerSecond,
    floorBytesPerSecond,
    slackMs: spec.slackMs ?? (markBytes === undefined ? SLACK_PLAIN_MS : SLACK_LOW_WATER_MS),
    fairness: spec.fairness ?? 'tenant',
    earlyShed: spec.earlyShed ?? true,
    turnBytesMax: spec.turnBytes ?? TURN_BYTES,
    lowWaterMarkBytes: markBytes,
  };
}

/**
 * The limits in force, from what was asked for and the machine. Pure.
 *
 * - `auto`: a quarter of the memory limit is for deliveries in progress, an eighth each for parked ones, for pages that
 *   only deliveries keep alive, and for callers in the queue. Less for the first two where the process would not fit
 *   beside that, and where a full link would give each less than twice the floor.
 * - `vendor`: unset or 0 slots limits nothing; else the vendor's queue and cap, no parking, one first-come queue.
 * - `off`: no limit, no refusal, no delivery deadline. The turn's ration and the low-water mark stay.
 *
 * @example
 * const limits = resolveLimits({ mode: 'auto', queue: 9 }, { memoryLimitBytes: 512 * 2 ** 20, lowWater: true });
 * console.log(limits.slots, limits.queue); // 512 9
 */
export function resolveLimits(mode: LimitsSpec | LimitsSpec['mode'], machine: Machine): LimitsConfig {
  const spec = typeof mode === 'string' ? { mode } : mode;
  if (spec.mode === 'auto') return resolveAuto(spec, machine);
  return spec.mode === 'vendor' ? resolveVendor(spec, machine) : resolveOff(spec, machine);
}

function capText(limits: LimitsConfig): string {
  const floor =
    limits.floorBytesPerSecond === 0 ? 'no floor rate' : `floor ${formatBytes(limits.floorBytesPerSecond)}/s`;
  const slack = limits.floorBytesPerSecond === 0 ? '' : ` with ${formatDuration(limits.slackMs)} slack`;
  const cap =
    limits.sendTimeoutMs === undefined ? 'cap scales with the payload' : `cap ${formatDuration(limits.sendTimeoutMs)}`;
  return `${floor}${slack}, ${cap}`;
}

function vendorText(limits: LimitsConfig): string {
  const { slots, queue, waitStreamMsMax, waitDecisionsMsMax, floorBytesPerSecond, sendTimeoutMs } = limits;
  const decisionsWait = formatDuration(waitDecisionsMsMax);
  const waits =
    waitStreamMsMax === Number.POSITIVE_INFINITY
      ? `${queue} may wait as long as they like, ${decisionsWait} for decisions`
      : `everybody may wait for ${decisionsWait}`;
  const guard = floorBytesPerSecond === 0 && sendTimeoutMs === undefined ? 'no delivery deadline' : capText(limits);
  return `vendor: ${slots} slots, ${waits}, ${guard}, no parking, first come first served`;
}

/** What `auto` would compute with the mark, link and floor of some limits. */
export function autoBeside(limits: LimitsConfig, machine: Pick<Machine, 'memoryLimitBytes'>): LimitsConfig {
  const { lowWaterMarkBytes = 'off', linkBytesPerSecond, floorBytesPerSecond } = limits;
  const spec = { mode: 'auto', lowWaterMarkBytes, linkBytesPerSecond, floorBytesPerSecond } as const;
  return resolveLimits(spec, { ...machine, lowWater: true });
}

/** How `auto` comes to its slots or parked readers: from the memory, or from the link where that allows fewer. */
export function formulaOf(name: 'slots' | 'parked', limits: LimitsConfig, machine: Machine): string {
  const { linkBytesPerSecond, floorBytesPerSecond, lowWaterMarkBytes } = limits;
  const counted = memoryCounted(machine.memoryLimitBytes);
  const byMemory = clamp(Math.floor(counted / SHARES[name] / kernelBytes(lowWaterMarkBytes)), ...BOUNDS[name]);
  if (ofPlaces(placesOnLink(linkBytesPerSecond, floorBytesPerSecond), name) < byMemory) {
    const part = name === 'slots' ? '2/3' : '1/3';
    return `${part} of link ${formatLink(linkBytesPerSecond)} / ${LINK_HEADROOM} / floor ${formatBytes(floorBytesPerSecond)}/s`;
  }
  const [least, most] = BOUNDS[name];
  const per = formatBytes(kernelBytes(lowWaterMarkBytes));
  return `${formatBytes(counted)} / ${SHARES[name]} / ${per} per delivery, within ${least} to ${most}`;
}

/**
 * The limits and the arithmetic behind them, in one line.
 *
 * @example
 * const machine = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
 * const [slots] = explainLimits(resolveLimits('auto', machine), machine).split('), ');
 * console.log(slots); // auto: 512 slots (512MiB / 4 / 256KiB per delivery, within 32 to 4096
 */
export function explainLimits(limits: LimitsConfig, machine: Machine): string {
  if (!limits.enabled)
    return `${limits.mode === 'vendor' ? 'none set' : 'off'}: no limit, no refusal, no delivery deadline`;
  if (limits.mode === 'vendor') return vendorText(limits);
  const memory = formatBytes(machine.memoryLimitBytes);
  const computed = autoBeside(limits, machine);
  const said = (value: number, auto: number, arithmetic: string): string =>
    value === auto ? arithmetic : 'as configured';
  return [
    `auto: ${limits.slots} slots (${said(limits.slots, computed.slots, formulaOf('slots', limits, machine))})`,
    `${limits.queue} waiting (${said(limits.queue, computed.queue, `${memory} / ${SHARES.queue} / ${formatBytes(WAITER_BYTES)} per waiting connection, within ${QUEUE_MIN} to ${QUEUE_MAX}`)}) for ${formatDuration(limits.waitStreamMsMax)} on streams, ${formatDuration(limits.waitPollMsMax)} on polls and ${formatDuration(limits.waitDecisionsMsMax)} on decisions`,
    limits.parking
      ? `${limits.parked} parked (${said(limits.parked, computed.parked, formulaOf('parked', limits, machine))})`
      : 'no parking',
    `${formatBytes(limits.pinnedBytesMax)} pinned (${said(limits.pinnedBytesMax, computed.pinnedBytesMax, `${memory} / ${SHARES.pinned}, at least ${formatBytes(PINNED_BYTES_MIN)}`)})`,
    capText(limits),
    limits.fairness === 'tenant' ? 'fair between environments' : 'first come first served',
  ].join(', ');
}
