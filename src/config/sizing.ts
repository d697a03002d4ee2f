import { autoBeside, KERNEL_BYTES_PLAIN, kernelBytes, PROCESS_BYTES, WAITER_BYTES } from './limits.ts';
import type { LimitsConfig, Machine } from './types.ts';
import { formatBytes } from './values.ts';

const MIB = 1024 * 1024;

/** How many full copies the data take: texts, encodings, and what is garbage for a while. `bench/sizing`, from 10 MiB up. */
export const COPIES = 3;
/** What bouncers are sent for one decision, as measured on a community blocklist. */
export const DECISION_COPY_BYTES = 200;

/** How large the data are. */
export interface DataSize {
  readonly environments: number;
  readonly decisions: number;
  /** The full copies of all environments and of the decisions, each once, without compression. */
  readonly bytes: number;
  /** The largest of them. */
  readonly largestBytes: number;
}

/** Limits, data and the process, held against the memory limit. */
export interface Fit {
  /** The most that all of it takes; undefined: nothing bounds it. */
  readonly totalBytes: number | undefined;
  readonly memoryLimitBytes: number;
  /** True when the most is known and below the limit, and where nothing bounds it. */
  readonly fits: boolean;
  /** The sum, member by member, in one line. */
  readonly text: string;
  /** What would make it fit; empty when it does. */
  readonly advice: string;
}

/** Process and data alone. */
function ownBytes(data: DataSize): number {
  return PROCESS_BYTES + COPIES * data.bytes;
}

/** Memory limits are given in steps like this. */
const STEP_BYTES = 64 * MIB;

/** The least memory limit, in steps of 64 MiB, under which `auto` leaves enough for process and data. */
export function memoryNeeded(limits: LimitsConfig, data: DataSize): number {
  let memoryLimitBytes = Math.ceil(ownBytes(data) / STEP_BYTES) * STEP_BYTES;
  for (; ; memoryLimitBytes += STEP_BYTES) {
    const auto = autoBeside(limits, { memoryLimitBytes });
    const taken = members(auto).reduce((sum, [, bytes]) => sum + bytes, ownBytes(data));
    if (taken <= memoryLimitBytes) return memoryLimitBytes;
  }
}

function members(limits: LimitsConfig): readonly (readonly [text: string, bytes: number])[] {
  const each = kernelBytes(limits.lowWaterMarkBytes);
  const { slots, parked, queue, pinnedBytesMax } = limits;
  const isPinnedBounded = Number.isFinite(pinnedBytesMax);
  const list: [string, number][] = [[`${slots} slots × ${formatBytes(each)}`, slots * each]];
  if (parked > 0) list.push([`${parked} parked × ${formatBytes(each)}`, parked * each]);
  if (queue > 0) list.push([`${queue} waiting × ${formatBytes(WAITER_BYTES)}`, queue * WAITER_BYTES]);
  if (isPinnedBounded) list.push([`${formatBytes(pinnedBytesMax)} pinned`, pinnedBytesMax]);
  return list;
}

function unbounded(limits: LimitsConfig, machine: Machine, data: DataSize): Fit {
  const each = kernelBytes(limits.lowWaterMarkBytes);
  const { memoryLimitBytes } = machine;
  const readers = Math.max(0, Math.floor((memoryLimitBytes - ownBytes(data)) / each));
  return {
    totalBytes: undefined,
    memoryLimitBytes,
    fits: ownBytes(data) <= memoryLimitBytes,
    text: `nothing is limited: ${COPIES} × data + ${formatBytes(PROCESS_BYTES)} process = ${formatBytes(ownBytes(data))} of ${formatBytes(memoryLimitBytes)}, and up to ${formatBytes(each)} more for each client that reads slowly: ${readers} of them fill it`,
    advice:
      ownBytes(data) <= memoryLimitBytes ? '' : `give it at least ${formatBytes(memoryNeeded(limits, data))} of memory`,
  };
}

function adviceFor(limits: LimitsConfig, data: DataSize): string {
  const needed = formatBytes(memoryNeeded(limits, data));
  const mark =
    kernelBytes(limits.lowWaterMarkBytes) === KERNEL_BYTES_PLAIN
      ? ', or let it set the low-water mark, without which a delivery takes 16 times as much'
      : '';
  return `limits.slots, limits.parked, limits.queue and limits.pinnedBytes can be lower, and with ${needed} of memory limits: auto fits${mark}`;
}

/**
 * Whether the limits, the data and the process fit the memory limit at their most, and the sum. Pure.
 *
 * @example
 * const machine = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
 * const data = { environments: 1, decisions: 0, bytes: 11_000_000, largestBytes: 11_000_000 };
 * const fit = fitOf(resolveLimits('auto', machine), machine, data);
 * console.log(fit.fits, fit.totalBytes); // true 494373440
 */
export function fitOf(limits: LimitsConfig, machine: Machine, data: DataSize): Fit {
  if (!limits.enabled) return unbounded(limits, machine, data);
  const { memoryLimitBytes } = machine;
  const list = members(limits);
  const totalBytes = ownBytes(data) + list.reduce((sum, [, bytes]) => sum + bytes, 0);
  const fits = totalBytes <= memoryLimitBytes;
  const pinned = Number.isFinite(limits.pinnedBytesMax) ? '' : ', and pinned pages without a bound';
  const texts = [...list.map(([text]) => text), `${COPIES} × data`, `${formatBytes(PROCESS_BYTES)} process`];
  return {
    totalBytes,
    memoryLimitBytes,
    fits,
    text: `${texts.join(' + ')} = ${formatBytes(totalBytes)} of ${formatBytes(memoryLimitBytes)} at the most${pinned}`,
    advice: fits ? '' : adviceFor(limits, data),
  };
}

/**
 * How much data there are, in words.
 *
 * @example
 * console.log(describeData({ environments: 1, decisions: 0, bytes: 1_363_149, largestBytes: 1_363_149 }));
 * // 1.3MiB in 1 environment
 */
export function describeData({ environments, decisions, bytes, largestBytes }: DataSize): string {
  const places = [
    environments === 0 ? undefined : `${environments} environment${environments === 1 ? '' : 's'}`,
    decisions === 0 ? undefined : `${decisions} decision${decisions === 1 ? '' : 's'}`,
  ].filter((place) => place !== undefined);
  const where = places.length === 0 ? '' : ` in ${places.join(' and ')}`;
  const largest = largestBytes === bytes ? '' : `, the largest full copy ${formatBytes(largestBytes)}`;
  return `${formatBytes(bytes)}${where}${largest}`;
}

/**
 * Data and limits against the memory limit, in one line.
 *
 * @example
 * const machine = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
 * const data = { environments: 1, decisions: 0, bytes: 2 ** 20, largestBytes: 2 ** 20 };
 * console.log(explainFit(resolveLimits('auto', machine), machine, data));
 * // data: 1MiB in 1 environment; 512 slots × 256KiB + 256 parked × 256KiB + 2048 waiting × 32KiB + 64MiB pinned + 3 × data + 120MiB process = 443MiB of 512MiB at the most
 */
export function explainFit(limits: LimitsConfig, machine: Machine, data: DataSize): string {
  const { text, fits, advice } = fitOf(limits, machine, data);
  return `data: ${describeData(data)}; ${text}${fits ? '' : `, which does not fit: ${advice}`}`;
}
