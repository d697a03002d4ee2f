import type { DeliveryAbout, Exchange, Report, StageTimes } from '../../delivery/index.ts';
import { Fact } from '../../kernel/index.ts';
import { agentOf } from './client.ts';
import type { Bouncer } from './credentials.ts';

/** Which bouncer, for logs and traces. */
export interface BouncerFact {
  readonly bouncer: string;
  /** Its kind and version, as it says. */
  readonly agent: string;
  readonly route: string;
  readonly remoteAddress: string;
}

/** Who asks what from where: what every answer hangs on. */
export interface Who {
  readonly bouncer: Bouncer;
  readonly address: string;
}

/** The facts about a bouncer that logs and traces show: a new object, to be added to. Spread into another it costs 2 µs. */
export function factOf(exchange: Exchange, { bouncer, address }: Who): BouncerFact {
  return {
    bouncer: bouncer.name,
    agent: agentOf(exchange.header('user-agent')),
    route: exchange.path,
    remoteAddress: address,
  };
}

/** Whom a delivery is for, to whoever looks at those in progress. */
export function aboutOf({ bouncer, route, remoteAddress }: BouncerFact): DeliveryAbout {
  return { front: 'decisions', name: bouncer, route, address: remoteAddress };
}

/** A full copy or a large delta was refused, for want of a slot. */
export const refused: Fact<
  BouncerFact & { reason: string; early: boolean; waitedMs: number; retryAfterSeconds: number }
> = new Fact('headgate:decisions.refused');

/** A request could not be answered yet: no data, a scope that is not held, a key that nobody could check. */
export const unavailable: Fact<
  Omit<BouncerFact, 'bouncer'> & { bouncer: string | undefined; reason: 'no data' | 'not held' | 'key not checked' }
> = new Fact('headgate:decisions.unavailable');

/** A bouncer went away while it waited for a slot. */
export const left: Fact<BouncerFact & { waitedMs: number }> = new Fact('headgate:decisions.left');

/** A full copy, a large delta or a list ended, one way or another. */
export const delivered: Fact<
  BouncerFact & {
    what: 'full' | 'delta' | 'list';
    waitedMs: number;
    encoding: string;
    added: number;
    deleted: number;
    stages?: StageTimes;
    /** Of a compressed body, how long all of it is without. */
    plainBytes?: number;
  } & Report
> = new Fact('headgate:decisions.delivered');

/** A small answer was given: the most frequent fact by far. Without `encoding` it is not compressed. */
export const answered: Fact<
  BouncerFact & { what: 'current' | 'delta' | 'look-up'; bytes: number; hit: boolean; encoding?: string }
> = new Fact('headgate:decisions.answered');

/** A second bouncer was seen on one cursor. */
export const cursorShared: Fact<{ bouncer: string; remoteAddress: string }> = new Fact(
  'headgate:decisions.cursor-shared',
);

/** A cursor had to go because its bouncer has too many. */
export const cursorEvicted: Fact<{ bouncer: string; remoteAddress: string }> = new Fact(
  'headgate:decisions.cursor-evicted',
);

/** An upstream took a key for good that was not known here. */
export const keyLearned: Fact<{ bouncer: string }> = new Fact('headgate:decisions.key-learned');

/** An upstream has refused a key that was good, twice. */
export const keyDropped: Fact<{ bouncer: string }> = new Fact('headgate:decisions.key-dropped');

/** Something could not be passed on to the upstream. */
export const notForwarded: Fact<
  Omit<BouncerFact, 'bouncer'> & { bouncer: string | undefined; status: number | undefined; error: unknown }
> = new Fact('headgate:decisions.not-forwarded');

/** A bouncer has received a delta that tells it something. `ms`: how long ago the oldest change since its last answer was. */
export const pickedUp: Fact<{ ms: number }> = new Fact('headgate:decisions.picked-up');
