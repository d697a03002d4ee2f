import { readFileSync } from 'node:fs';
import { HeadgateError } from '../kernel/index.ts';

/** Files that a process has open besides its clients: the program, the report, the admin listener's connection. */
const OTHER_FILES = 64;

/** How many files this process may have open at once; undefined where the system does not tell. */
function filesMax(limits: () => string = () => readFileSync('/proc/self/limits', 'latin1')): number | undefined {
  try {
    const digits = /^Max open files\s+(\d+)/m.exec(limits())?.[1];
    return digits === undefined ? undefined : Number(digits);
  } catch {
    return undefined;
  }
}

/**
 * Throws HG_OPTION when this process may not have a connection for every client: some would fail, and it would look as if the
 * server had refused them.
 *
 * @param limits - the contents of `/proc/self/limits`; read there when left out.
 */
export function checkFiles(clients: number, limits?: () => string): void {
  const max = filesMax(limits);
  if (max === undefined || clients + OTHER_FILES <= max) return;
  const fitting = Math.max(0, max - OTHER_FILES);
  throw new HeadgateError(
    'HG_OPTION',
    `Cannot run a herd: ${clients} clients need ${clients + OTHER_FILES} open files and this process may have fewer; ` +
      `raise the limit (ulimit -n ${clients + OTHER_FILES}) or take at most ${fitting} clients, got ${max}`,
  );
}
