import { setFlagsFromString } from 'node:v8';

/**
 * Lets V8 collect garbage before it asks for more memory.
 *
 * A herd makes short-lived objects by the hundred thousand while what lives stays the same; V8's default is to let the
 * old generation grow to a multiple of that before it looks. With 1,000 clients on 10 MB the process peaked at 120 to
 * 135 MiB instead of 210 to 225, at the same CPU time. `HEADGATE_V8_HEAP=default` leaves V8 as it is.
 */
export function preferSmallHeap(env: NodeJS.ProcessEnv = process.env): void {
  if (env['HEADGATE_V8_HEAP'] !== 'default') setFlagsFromString('--optimize-for-size');
}
