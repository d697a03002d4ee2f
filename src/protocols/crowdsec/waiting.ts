import { Departure, type Exchange } from '../../delivery/index.ts';
import type { DecisionLedger, FrontOptions } from './deps.ts';
import type { Need } from './params.ts';

/** What came of a wait. */
export type Had = 'had' | 'no data' | 'not held';

/**
 * Whether a request may be answered now: there is data, and its scopes are held. Anything else takes a wait, which may be
 * without end for what an upstream cannot be asked for.
 */
export function have({ ledger, upstreams }: FrontOptions, need: Need): true | ((signal: AbortSignal) => Promise<Had>) {
  if (ledger.ready && !need.wide && need.scopes.length === 0) return true;
  return async (signal) => {
    if (!(await readyWithin(ledger, signal))) return 'no data';
    for (const upstream of upstreams) {
      const held = need.wide ? upstream.holdWide() : need.scopes.length === 0 || upstream.hold(need.scopes, signal);
      if (!(await withinSignal(held, signal))) return 'not held';
    }
    return 'had';
  };
}

/** Waits for what a request needs, for `startWaitMs` at most, and for as long as its client does. Holds no slot. */
export async function waitFor(
  front: FrontOptions,
  exchange: Exchange,
  wait: (signal: AbortSignal) => Promise<Had>,
): Promise<Had> {
  using departure = new Departure(exchange);
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  departure.signal.addEventListener('abort', abort);
  if (departure.signal.aborted) abort();
  const timer = front.clock.after(front.startWaitMs, abort);
  try {
    return await wait(controller.signal);
  } finally {
    timer.cancel();
  }
}

/** A store that takes longer than this is not waited for: bouncers that get nothing are worse off than those told too much. */
const STORED_MS_MAX = 2000;

/** Waits until what is about to be told is stored; undefined: it is. */
export function whenStored({ stored, clock }: FrontOptions, offset: number): Promise<void> | undefined {
  const answer = stored?.(offset) ?? true;
  if (answer === true) return undefined;
  return new Promise((resolve) => {
    const timer = clock.after(STORED_MS_MAX, resolve);
    const settle = (): void => {
      timer.cancel();
      resolve();
    };
    answer.then(settle, settle);
  });
}

function readyWithin(ledger: DecisionLedger, signal: AbortSignal): Promise<boolean> {
  if (ledger.ready) return Promise.resolve(true);
  if (signal.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const settle = (): void => {
      unsubscribe();
      signal.removeEventListener('abort', settle);
      resolve(ledger.ready);
    };
    const unsubscribe = ledger.subscribe(() => {
      if (ledger.ready) settle();
    });
    signal.addEventListener('abort', settle);
  });
}

async function withinSignal(held: boolean | Promise<boolean>, signal: AbortSignal): Promise<boolean> {
  if (typeof held === 'boolean') return held;
  if (signal.aborted) return false;
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<boolean>((resolve) => {
    onAbort = () => resolve(false);
    signal.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([held, aborted]);
  } finally {
    if (onAbort !== undefined) signal.removeEventListener('abort', onAbort);
  }
}
