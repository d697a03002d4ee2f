import { Fact } from '../../kernel/index.ts';
import type { ClientInfo } from './client.ts';
import type { DeliveryAbout, Report, StageTimes, Taken } from '../../delivery/index.ts';

/** Which client, for logs and traces. */
export interface ClientFact {
  readonly environment: string;
  readonly route: string;
  readonly sdk: string;
  readonly remoteAddress: string;
}

/** The facts about a client that logs and traces show: a new object, to be added to. Spread into another it costs 2 µs. */
export function factOf(
  environment: { readonly info: { readonly name: string } },
  route: string,
  client: ClientInfo,
): ClientFact {
  return {
    environment: environment.info.name,
    route,
    sdk: client.quirks.sdk,
    remoteAddress: client.remoteAddress,
  };
}

/** Whom a delivery is for, to whoever looks at those in progress. */
export function aboutOf({ environment, route, remoteAddress }: ClientFact): DeliveryAbout {
  return { front: 'flags', name: environment, route, address: remoteAddress };
}

/** A full copy or a large catch-up was refused. */
export const refused: Fact<
  ClientFact & { reason: string; early: boolean; waitedMs: number; retryAfterSeconds: number }
> = new Fact('headgate:flags.refused');

/** A full copy or a large catch-up ended, one way or another. */
export const delivered: Fact<
  ClientFact & {
    what: 'full' | 'catch-up';
    waitedMs: number;
    encoding: string;
    stages?: StageTimes;
    /** Of a compressed body that was sent to its end, how long it is without. */
    plainBytes?: number;
  } & Report
> = new Fact('headgate:flags.delivered');

/** A client that named its position was brought up to date without a full copy. */
export const caughtUp: Fact<ClientFact & { changes: number; bytes: number }> = new Fact('headgate:flags.caught-up');

/** Changes were taken by open streams. Those that go out under a slot are deliveries, and not told here. */
export const taken: Fact<Taken> = new Fact('headgate:flags.taken');

/** The same of compressed streams. */
export const takenCompressed: Fact<Taken> = new Fact('headgate:flags.taken-compressed');

/** A stream was closed by us because it fell off the log, or was lost in the middle of its changes. */
export const lost: Fact<ClientFact> = new Fact('headgate:flags.lost');

/** A stream was reset because of a fault of ours. */
export const failed: Fact<ClientFact & { error: unknown }> = new Fact('headgate:flags.failed');

/** A client with a good key asked for something: a frequent fact. `method` is of HTTP. */
export const requested: Fact<ClientFact & { method: string }> = new Fact('headgate:flags.requested');

/** A client that seemed to hold newer data was sent ours: the clock says so, and no order of replicas. */
export const steppedBack: Fact<ClientFact> = new Fact('headgate:flags.stepped-back');
