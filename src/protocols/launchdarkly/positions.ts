import { type Change, type DataSet, parsePosition, type Position, type Snapshot } from '../../dataset/index.ts';
import type { Exchange } from '../../delivery/index.ts';
import type { Clock } from '../../kernel/index.ts';
import type { View } from './views.ts';

/** Where a client says that it is. */
export interface Claim {
  /** Absent: it is new here, or what it named is no position of this view. */
  readonly position: Position | undefined;
  /** Whether it may hold something newer than what it named. */
  readonly frozen: boolean;
  /** Whether it named anything, known or not: then it has been here, or at another replica, before. */
  readonly returning: boolean;
}

/**
 * Where a client says that it is: `Last-Event-ID` outranks `basis`, since SDKs send it at every reconnect and it is
 * always the latest.
 */
export function claimOf(exchange: Exchange, view: View, frozenBasis: boolean): Claim {
  const lastEventId = exchange.header('last-event-id');
  const basis = exchange.query.get('basis') ?? undefined;
  const named = lastEventId ?? basis;
  const parsed = named === undefined ? undefined : parsePosition(named);
  return {
    position: parsed?.view === view.name ? parsed : undefined,
    frozen: lastEventId === undefined && frozenBasis,
    returning: named !== undefined,
  };
}

/** The position that stands for what a snapshot holds. */
export function positionOf(snapshot: Pick<Snapshot, 'digest' | 'clock'>, view: string): Position {
  return { digest: snapshot.digest, clock: snapshot.clock, view };
}

/** The order in which data sets were first seen, over all replicas that share it. */
export interface DigestOrder {
  /** Whether a position is of data newer than these; undefined where it is not known. A clock tells states of one digest apart. */
  isNewer(position: OrderedState, than: OrderedState): boolean | undefined;
  /** Resolves when everything is known that other replicas had written before this call, or that cannot be had. */
  look(): Promise<void>;
  /** Whether a look is under way: what is not known may be known in a moment. */
  readonly isLooking: boolean;
  /** Whether other replicas have been where this one is not yet. */
  readonly isLagging: boolean;
}

interface OrderedState {
  readonly digest: string;
  readonly clock?: number;
}

/** A data set, and where it stands among those of other replicas. */
export interface Held {
  readonly data: DataSet;
  /** Absent where replicas share no order. */
  readonly order?: DigestOrder | undefined;
}

/**
 * How a client at some position is brought up to date. `behind`: it has seen newer data than ours, so nothing of ours may
 * be sent to it: it would go back in time.
 */
export type Start = Exclude<ReturnType<DataSet['since']>, { kind: 'ahead' }> | { readonly kind: 'behind' };

/** A client that seems ahead of us waits for our source, at most `waitMsMax`; every other one goes on at once. */
export async function whileAhead(held: Held, claim: Claim, clock: Clock, waitMsMax: number): Promise<void> {
  const untilMs = clock.now() + waitMsMax;
  // another replica may have given it out a moment ago
  if (waitMsMax > 0 && isUnknown(held, claim)) await lookAround(held, clock, waitMsMax);
  for (;;) {
    const leftMs = untilMs - clock.now();
    if (leftMs <= 0) return;
    const { kind } = standing(held, claim);
    if (kind !== 'ahead' && kind !== 'behind') return;
    await nextChange(held.data, clock, leftMs);
  }
}

/**
 * How to bring a client up to date, as of now: to be acted upon before anything else can happen, since a change that
 * comes between the answer and the act would be missed.
 */
export function startOf(held: Held, claim: Claim, onStepBack?: () => void): Start {
  // it may have been given out by a replica that is ahead: in doubt it comes back
  if (held.order?.isLooking === true && isUnknown(held, claim)) return { kind: 'behind' };
  const start = standing(held, claim);
  if (start.kind !== 'ahead') return start;
  onStepBack?.();
  return { kind: 'full' };
}

/**
 * Where the order of replicas says who is ahead it is right, also of a digest that comes back; the clock alone errs both ways.
 */
function standing(held: Held, claim: Claim): ReturnType<DataSet['since']> | { readonly kind: 'behind' } {
  const since = held.data.since(claim.position, claim);
  const isNewer = isNewerThan(held, claim);
  if (isNewer === true || (isNewer === undefined && mayBeNewer(held, claim, since))) return { kind: 'behind' };
  return isNewer === false && since.kind === 'ahead' ? { kind: 'full' } : since;
}

/**
 * Another replica may have given out a state that the order does not have: it passed through it on its way to one that has a
 * place. Whoever lags cannot tell, and sends nothing that may be older; whoever is at the newest place sends what he has.
 */
function mayBeNewer({ order }: Held, { position }: Claim, since: ReturnType<DataSet['since']>): boolean {
  if (position === undefined || order?.isLagging !== true) return false;
  return since.kind === 'ahead' || (since.kind === 'full' && position.clock === NO_CLOCK);
}

/** The tag of a poll has no clock. */
const NO_CLOCK = 0;

function isNewerThan({ data, order }: Held, { position }: Claim): boolean | undefined {
  if (position === undefined) return undefined;
  const { digest, clock } = position;
  // the tag of a poll has no clock
  return order?.isNewer(clock === NO_CLOCK ? { digest } : { digest, clock }, data.snapshot());
}

/** Whether nothing says where a client is: neither what we hold nor the order. */
function isUnknown(held: Held, claim: Claim): boolean {
  if (claim.position === undefined || held.order === undefined) return false;
  const { kind } = held.data.since(claim.position, claim);
  return (kind === 'full' || kind === 'ahead') && isNewerThan(held, claim) === undefined;
}

function lookAround({ order }: Held, clock: Clock, waitMsMax: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(waitMsMax, resolve);
    const over = (): void => {
      timer.cancel();
      resolve();
    };
    order?.look().then(over, over);
  });
}

/** Resolves with the next change of any kind, at the latest after `waitMsMax`. */
export function nextChange(data: DataSet, clock: Clock, waitMsMax: number): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      unsubscribe();
      timer.cancel();
      resolve();
    };
    const timer = clock.after(waitMsMax, over);
    const unsubscribe = data.subscribe(over);
  });
}

/** A change that changes nothing: the first item as it is. It tells an FDv1 client that its stream is well again. */
export function unchanged(snapshot: Snapshot, kinds: readonly string[]): readonly Change[] {
  for (const kind of kinds) {
    for (const item of snapshot.items(kind)) return [{ kind, key: item.key, version: item.version, item }];
  }
  return [];
}
