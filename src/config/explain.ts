import { explainHerd, type Herd } from './explain-herd.ts';
import {
  autoBeside,
  BOUNDS,
  formulaOf,
  KERNEL_BYTES_PLAIN,
  kernelBytes,
  LINK_HEADROOM,
  memoryCounted,
  placesOnLink,
  SHARES,
  WAITER_BYTES,
} from './limits.ts';
import { COPIES, type DataSize, describeData, fitOf, memoryNeeded } from './sizing.ts';
import type { Config, LimitsConfig, Machine } from './types.ts';
import { formatBytes, formatDuration, formatLink } from './values.ts';

/** What is known besides the configuration. */
export interface Known {
  /** Absent: how large the data are is known once they are loaded. */
  readonly data?: DataSize & { /** Where that is from. */ readonly from: string };
  /** A fleet that comes at once; absent: nobody asked. */
  readonly herd?: Herd;
}

const SOURCES: Readonly<Record<NonNullable<Machine['source']>, string>> = {
  'cgroup v2': 'memory.max of its cgroup, version 2',
  'cgroup v1': 'memory.limit_in_bytes of its cgroup, version 1',
  machine: 'the memory of the machine: no cgroup limits it',
};

function line(name: string, text: string): string {
  return `  ${name.padEnd(14)}${text}`;
}

/** The shares of the memory limit, and the process's own. */
function memoryLines({ machine }: Config): string[] {
  const { memoryLimitBytes, source } = machine;
  const found = source === undefined ? '' : ` (${SOURCES[source]})`;
  const share = (name: keyof typeof SHARES): string => `1/${SHARES[name]} for ${name}`;
  const left = 1 - Object.values(SHARES).reduce((sum, part) => sum + 1 / part, 0);
  const counted = memoryCounted(memoryLimitBytes);
  const all = `${share('slots')}, ${share('parked')}, ${share('pinned')}, ${share('queue')}`;
  return [
    line('memory limit', `${formatBytes(memoryLimitBytes)}${found}`),
    line(
      'shares',
      counted === memoryLimitBytes
        ? `${all}; ${left * 8}/8 = ${formatBytes(memoryLimitBytes * left)} for process and data`
        : `${all}; in so little memory process and data come first: slots and parked get theirs of ${formatBytes(counted)}`,
    ),
  ];
}

function kernelLine({ limits }: Config): string {
  const { lowWaterMarkBytes } = limits;
  const each = formatBytes(kernelBytes(lowWaterMarkBytes));
  const plain = formatBytes(KERNEL_BYTES_PLAIN);
  return line(
    'per delivery',
    lowWaterMarkBytes === undefined
      ? `${each} in the kernel: no low-water mark, so it is what a socket's send buffer may grow to; 256KiB with the mark`
      : `${each} in the kernel: 4 × the low-water mark of ${formatBytes(lowWaterMarkBytes)}; ${plain} without the mark`,
  );
}

/** How one number came about: as `auto` computes it, or as configured. */
function numberLine(config: Config, name: keyof typeof SHARES): string {
  const { limits, machine } = config;
  const auto = autoBeside(limits, machine);
  const isBytes = name === 'pinned';
  const value = isBytes ? limits.pinnedBytesMax : limits[name];
  const computed = isBytes ? auto.pinnedBytesMax : auto[name];
  const say = (number: number): string => (isBytes ? formatBytes(number) : String(number));
  const formula = name === 'slots' || name === 'parked' ? formulaOf(name, limits, machine) : shareOf(name, machine);
  if (value === computed) return line(name, `${say(value)} = ${formula}`);
  return line(name, `${say(value)} as configured; auto: ${say(computed)} = ${formula}`);
}

function shareOf(name: 'pinned' | 'queue', { memoryLimitBytes }: Machine): string {
  const [least, most] = BOUNDS[name];
  const part = `${formatBytes(memoryLimitBytes)} / ${SHARES[name]}`;
  return name === 'pinned'
    ? `${part}, at least ${formatBytes(least)}`
    : `${part} / ${formatBytes(WAITER_BYTES)}, within ${least} to ${most}`;
}

/** What the link allows, beside what the memory does. */
function linkLine({ limits }: Config): string {
  const { linkBytesPerSecond, floorBytesPerSecond } = limits;
  const places = placesOnLink(linkBytesPerSecond, floorBytesPerSecond);
  if (!Number.isFinite(places)) return line('link', 'bounds nothing');
  return line(
    'link',
    `${formatLink(linkBytesPerSecond)} (limits.link) / ${LINK_HEADROOM} / floor ${formatBytes(floorBytesPerSecond)}/s = ${places} readers at once, parked ones among them: more would share a full link below the floor`,
  );
}

function waitsLine({ limits }: Config): string {
  const { waitStreamMsMax, waitPollMsMax, waitDecisionsMsMax } = limits;
  const each = [
    ['streams', waitStreamMsMax],
    ['polls', waitPollMsMax],
    ['decisions', waitDecisionsMsMax],
  ] as const;
  const early = limits.earlyShed ? '; who would wait longer is refused at once' : '';
  return line('waits', `${each.map(([who, ms]) => `${formatDuration(ms)} on ${who}`).join(', ')}${early}`);
}

function floorLine({ limits }: Config): string {
  const { floorBytesPerSecond, slackMs, sendTimeoutMs } = limits;
  const cap =
    sendTimeoutMs === undefined
      ? 'the longest delivery is what a reader at the floor needs'
      : `no delivery longer than ${formatDuration(sendTimeoutMs)}`;
  if (floorBytesPerSecond === 0) return line('floor', `none: a slow reader keeps its slot; ${cap}`);
  return line(
    'floor',
    `${formatBytes(floorBytesPerSecond)}/s with ${formatDuration(slackMs)} of slack: who takes less is cut; ${cap}`,
  );
}

/** Under the vendor's names, or with `limits: off`. */
function unlimited({ limits }: Config): string {
  const why =
    limits.mode === 'vendor'
      ? "the vendor's names mean what the vendor means, and maxConcurrent is not set"
      : 'limits are off';
  return line('limits', `none: ${why}. No slots, no queue, no refusal, no floor, no deadline`);
}

function limitLines(config: Config): string[] {
  const { limits } = config;
  if (!limits.enabled) return [unlimited(config)];
  const floor = floorLine(config);
  if (limits.mode === 'vendor') {
    return [
      line('limits', 'as the vendor means them: nothing is computed from the memory, and nobody is parked'),
      line('slots', `${limits.slots} as configured`),
      line('queue', `${limits.queue}${limits.queue === 0 ? ': who finds no slot is refused' : ' as configured'}`),
      waitsLine(config),
      floor,
    ];
  }
  const names = ['slots', ...(limits.parking ? (['parked'] as const) : []), 'pinned', 'queue'] as const;
  return [linkLine(config), ...names.map((name) => numberLine(config, name)), waitsLine(config), floor];
}

function dataLines({ limits, machine, flags }: Config, data: Known['data']): string[] {
  if (data === undefined) {
    return [line('data', 'not known before they are loaded: a line at start tells; --data says it here')];
  }
  const fit = fitOf(limits, machine, data);
  const log = `${formatBytes(flags.logBytesMax)} more for each environment at the most, as its change log fills (flags.log.bytes)`;
  return [
    line('data', `${describeData(data)}, ${data.from}; in memory ${COPIES} × that, and ${log}`),
    line('sum', `${fit.text}${fit.fits ? '' : ', WHICH DOES NOT FIT'}`),
  ];
}

/** What would make slots and queue longer, as long as that is to be had. */
function roomFor(limits: LimitsConfig, machine: Machine): string[] {
  const lines: string[] = [];
  const each = kernelBytes(limits.lowWaterMarkBytes) * SHARES.slots;
  const [slotsMax, queueMax] = [BOUNDS.slots[1], BOUNDS.queue[1]];
  const onLink = autoBeside(limits, { ...machine, memoryLimitBytes: Number.MAX_SAFE_INTEGER }).slots;
  if (limits.slots < Math.min(slotsMax, onLink)) {
    lines.push(
      `more slots: ${formatBytes(each)} of memory for each, up to ${Math.min(slotsMax, onLink)}, or limits.slots`,
    );
  } else if (limits.slots < slotsMax) {
    lines.push('more slots: a larger link (limits.link); on the same one they bring nobody home sooner');
  }
  if (limits.queue < queueMax) {
    lines.push(`a longer queue: ${formatBytes(WAITER_BYTES * SHARES.queue)} of memory for each place, or limits.queue`);
  }
  return lines;
}

function advice({ limits, machine, server }: Config, { data, herd }: Known): string[] {
  const lines: string[] = [];
  if (!limits.enabled || limits.mode === 'vendor') {
    lines.push('protection: HEADGATE_LIMITS=auto, with what is set kept; `limits: auto` in our own file');
  }
  if (limits.lowWaterMarkBytes === undefined) {
    lines.push(
      machine.lowWater
        ? 'the low-water mark (limits.lowWaterMark): with it a delivery takes 256KiB in the kernel, not 4MiB'
        : 'the low-water mark, which needs Linux and the optional package koffi: with it a delivery takes 256KiB in the kernel, not 4MiB',
    );
  }
  if (limits.mode === 'auto') lines.push(...roomFor(limits, machine));
  if (limits.enabled && herd !== undefined && herd.clients > server.backlog) {
    lines.push(
      `server.backlog: ${herd.clients} come in one moment, and the kernel holds ${server.backlog} connections`,
    );
  }
  const fit = data === undefined ? undefined : fitOf(limits, machine, data);
  if (fit?.advice) lines.push(fit.advice);
  else if (data !== undefined)
    lines.push(`auto fits these data from ${formatBytes(memoryNeeded(limits, data))} of memory up`);
  return lines;
}

/**
 * The arithmetic of the limits, line by line: what they come from, whether they fit with the data, what a herd would see.
 *
 * @example
 * const lines = explainSizing(defaultConfig(), {});
 * console.log(lines[0]); // Sizing:
 */
export function explainSizing(config: Config, known: Known): string[] {
  return [
    'Sizing:',
    ...memoryLines(config),
    kernelLine(config),
    ...limitLines(config),
    ...dataLines(config, known.data),
    ...(known.herd === undefined ? [] : explainHerd(config.limits, known.herd, known.data)),
    'For more:',
    ...advice(config, known).map((text) => `  ${text}`),
  ];
}
