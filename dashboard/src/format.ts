/** Shown in place of a number that nobody knows. */
export const NONE = '–';

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const TENTH = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const UNITS = ['KiB', 'MiB', 'GiB', 'TiB'] as const;
const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** `1,234`. */
export function count(value: number): string {
  return COUNT.format(value);
}

/** `1,234 clients`, `1 client`. */
export function counted(value: number, one: string, many: string = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `12.3 MiB`; whole bytes below 1 KiB. */
export function bytes(value: number | null): string {
  if (value === null) return NONE;
  let scaled = Math.abs(value);
  if (scaled < 1024) return `${count(value)} B`;
  let unit = -1;
  // 1023.95 would be written 1,024.0
  while (unit < UNITS.length - 1 && (unit < 0 || scaled >= 1023.95)) {
    scaled /= 1024;
    unit++;
  }
  return `${value < 0 ? '-' : ''}${TENTH.format(scaled)} ${UNITS[unit] ?? ''}`;
}

/** `12.3 MiB/s`. */
export function bytesPerSecond(value: number): string {
  return `${bytes(Math.round(value))}/s`;
}

/** `0`, `0.5`, `12`, `1,234`: per second, the unit stands elsewhere. */
export function rate(value: number): string {
  return value === 0 || value >= 100 ? count(value) : TENTH.format(value);
}

/** How long something took or is ago: `0.4 s`, `12 s`, `3 min 20 s`, `5 h 12 min`, `3 d 4 h`. */
export function duration(ms: number | null): string {
  if (ms === null) return NONE;
  const known = Math.max(0, ms);
  if (known < 9950) return `${TENTH.format(known / SECOND_MS)} s`;
  if (known < MINUTE_MS - 500) return `${Math.round(known / SECOND_MS)} s`;
  if (known < HOUR_MS) return pair(known, [MINUTE_MS, 'min'], [SECOND_MS, 's']);
  if (known < DAY_MS) return pair(known, [HOUR_MS, 'h'], [MINUTE_MS, 'min']);
  return pair(known, [DAY_MS, 'd'], [HOUR_MS, 'h']);
}

/** The same in whole seconds, for what rises each second. */
export function wholeSeconds(ms: number): string {
  return ms < MINUTE_MS - 500 ? `${Math.max(0, Math.round(ms / SECOND_MS))} s` : duration(ms);
}

/** `1.2 ms`, `340 ms`, `2.4 s`. */
export function milliseconds(ms: number): string {
  if (ms < 10) return `${TENTH.format(ms)} ms`;
  return ms < SECOND_MS ? `${count(ms)} ms` : duration(ms);
}

function pair(ms: number, [large, largeName]: [number, string], [small, smallName]: [number, string]): string {
  const smalls = Math.floor(Math.max(ms, large) / small);
  const perLarge = large / small;
  return `${Math.floor(smalls / perLarge)} ${largeName} ${smalls % perLarge} ${smallName}`;
}

/** The time of day where the page is looked at: `09:57:04`. */
export function clockTime(atMs: number): string {
  const date = new Date(atMs);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

/** `30 Nov 09:57`: day and time of day where the page is looked at. */
export function dayTime(atMs: number): string {
  const date = new Date(atMs);
  const month = date.toLocaleString('en-GB', { month: 'short' });
  return `${date.getDate()} ${month} ${clockTime(atMs).slice(0, 5)}`;
}

/** `37 %`; below one and above zero `< 1 %`. */
export function percent(share: number): string {
  const whole = Math.round(share * 100);
  return whole === 0 && share > 0 ? '< 1 %' : `${whole} %`;
}

const POSITION_CHARACTERS = 12;

/** The beginning of a position: enough to tell two apart. */
export function shortPosition(position: string): string {
  return position.length <= POSITION_CHARACTERS + 1 ? position : `${position.slice(0, POSITION_CHARACTERS)}…`;
}

/** A part of a whole within 0 and 1; 0 where there is no whole. */
export function share(part: number, whole: number | null): number {
  if (whole === null || whole <= 0) return 0;
  return Math.min(1, Math.max(0, part / whole));
}
