import { HeadgateError } from '../kernel/index.ts';
import { INTERVAL_MS_MIN } from './watch.ts';

const INTERVAL_MS_DEFAULT = 1000;

/** The interval to use, in milliseconds. Throws HG_OPTION. */
export function checkIntervalMs(intervalMs: number | undefined): number {
  const ms = intervalMs ?? INTERVAL_MS_DEFAULT;
  if (!(ms >= INTERVAL_MS_MIN && ms < Number.POSITIVE_INFINITY)) {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot open a source: intervalMs must be at least ${INTERVAL_MS_MIN}, got ${intervalMs}`,
    );
  }
  return ms;
}

/** The path to use. Throws HG_OPTION. */
export function checkPath(path: string): string {
  if (typeof path !== 'string' || path === '') {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot open a source: the path of a file must be a text, got ${JSON.stringify(path)}`,
    );
  }
  return path;
}
