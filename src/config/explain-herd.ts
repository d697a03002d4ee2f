import { autoBeside, kernelBytes, placesOnLink } from './limits.ts';
import type { DataSize } from './sizing.ts';
import type { LimitsConfig } from './types.ts';
import { formatBytes, formatDuration, formatLink } from './values.ts';

/** What an open stream takes in memory once it has its data, as `bench/herd` measures it. */
const STREAM_BYTES = 10_400;

/** A fleet that comes at once. */
export interface Herd {
  readonly clients: number;
  /** What the link carries; undefined: nobody said. */
  readonly linkBytesPerSecond: number | undefined;
}

function line(name: string, text: string): string {
  return `  ${name.padEnd(14)}${text}`;
}

function time(ms: number): string {
  return formatDuration(ms < 10_000 ? Math.round(ms) : Math.round(ms / 100) * 100);
}

interface Course {
  readonly clients: number;
  readonly bytes: number;
  readonly link: number;
}

/** Everybody at once: nothing holds them back. */
function withoutSlots({ clients }: Herd, limits: LimitsConfig): string[] {
  const each = kernelBytes(limits.lowWaterMarkBytes);
  return [
    line('at once', `all ${clients}: nobody waits, nobody is refused`),
    line('kernel', `${clients} × ${formatBytes(each)} = ${formatBytes(clients * each)}, if all of them read slowly`),
  ];
}

/** How the link is divided among the slots, and what the floor says to it. */
function shareLines(limits: LimitsConfig, { clients, bytes, link }: Course): string[] {
  const { slots, parked } = limits;
  const atOnce = Math.min(clients, slots + parked);
  const share = link / atOnce;
  const { floorBytesPerSecond: floor } = limits;
  const text = `${atOnce} at once${parked > 0 ? ', parked ones among them' : ''}, each with link / ${atOnce} = ${formatLink(share)}`;
  if (floor === 0) return [line('in progress', text)];
  if (share >= floor) return [line('in progress', `${text}, above the floor of ${formatLink(floor)}`)];
  const lateMs = (bytes / share - bytes / floor) * 1000;
  if (lateMs <= limits.slackMs) {
    return [
      line('in progress', `${text}, below the floor of ${formatLink(floor)}, but within the slack: nobody is cut`),
    ];
  }
  const auto = autoBeside({ ...limits, linkBytesPerSecond: link }, { memoryLimitBytes: Number.MAX_SAFE_INTEGER });
  const remedy =
    limits.mode === 'vendor'
      ? `maxConcurrent to ${Math.max(1, placesOnLink(link, floor))} or less`
      : `limits.link to ${formatLink(link)}; if limits.slots and limits.parked are set, to ${auto.slots} and ${auto.parked} or less`;
  return [
    line(
      'in progress',
      `${text}, BELOW THE FLOOR of ${formatLink(floor)}: healthy readers would be cut. Set ${remedy}`,
    ),
  ];
}

/** Who is served without being refused: slots come free in waves, each as long as all slots need for a copy. */
function waveLines(limits: LimitsConfig, { clients, bytes, link }: Course): string[] {
  const { slots, queue, waitStreamMsMax: waitMs } = limits;
  if (clients <= slots) return [line('refused', 'nobody: there is a slot for each')];
  const waveMs = ((slots * bytes) / link) * 1000;
  const waves = Number.isFinite(waitMs) ? Math.floor(waitMs / waveMs) : Number.POSITIVE_INFINITY;
  const places = Math.min(queue, clients - slots);
  const served = Math.min(places, waves * slots);
  const refused = clients - slots - served;
  const wait = Number.isFinite(waitMs) ? formatDuration(waitMs) : 'any time';
  const lines = [
    line('a wave', `slots × data / link = ${slots} × ${formatBytes(bytes)} / ${formatLink(link)} = ${time(waveMs)}`),
    line(
      'in the queue',
      `min(queue, slots × floor(wait / wave)) = min(${queue}, ${slots} × floor(${wait} / ${time(waveMs)})): ${served} get their turn`,
    ),
    line(
      'refused',
      refused === 0
        ? 'nobody'
        : `${refused} at first, with Retry-After; they come again, and the last one is still complete no sooner than said above`,
    ),
  ];
  if (waves >= 1) return lines;
  const fewer = Math.max(1, Math.floor((link * waitMs) / 1000 / bytes));
  return [
    ...lines,
    line(
      'slots',
      `none is free again within the wait: with limits.slots at ${fewer} (wait × link / data) or less it is`,
    ),
  ];
}

/** What a fleet that comes at once would see, with the formulas. */
export function explainHerd(limits: LimitsConfig, herd: Herd, data: DataSize | undefined): string[] {
  const { clients, linkBytesPerSecond: link } = herd;
  const title = `A herd of ${clients} that comes at once:`;
  if (data === undefined) return [title, line('bytes', 'clients × data: say how large these are with --data')];
  const { largestBytes: bytes } = data;
  const total = clients * bytes;
  const copies = line(
    'bytes',
    `clients × data = ${clients} × ${formatBytes(bytes)} = ${formatBytes(total)}; less by as much as gzip saves for those that take it`,
  );
  const stay = line(
    'streams',
    `clients × ${formatBytes(STREAM_BYTES)} = ${formatBytes(clients * STREAM_BYTES)} of memory beside the sum, while their streams stay open`,
  );
  if (link === undefined)
    return [title, copies, stay, line('time', 'clients × data / link: say its speed with --link')];
  return [
    title,
    copies,
    stay,
    line(
      'time',
      `clients × data / link = ${formatBytes(total)} / ${formatLink(link)} = ${time((total / link) * 1000)} until the last one is complete, at best`,
    ),
    ...(limits.enabled
      ? [...shareLines(limits, { clients, bytes, link }), ...waveLines(limits, { clients, bytes, link })]
      : withoutSlots(herd, limits)),
  ];
}
