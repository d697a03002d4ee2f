/**
 * One decision as a source read it.
 *
 * @example
 * const decision: Decision = {
 *   id: 7, uuid: undefined, origin: 'cscli', scenario: 'manual ban', scope: 'Ip', type: 'ban',
 *   value: '192.0.2.1', untilMs: Date.now() + 4 * 3_600_000, simulated: false,
 * };
 * console.log(decision.scope); // Ip
 */
export interface Decision {
  /** The source's own, a whole number from 0 to 2^40 - 1. */
  readonly id: number;
  readonly uuid: string | undefined;
  readonly origin: string;
  readonly scenario: string;
  /** As {@link canonicalScope} writes it. */
  readonly scope: string;
  readonly type: string;
  readonly value: string;
  /** When it ends, Unix time in milliseconds: an upper bound, since a ban may end late and never early. */
  readonly untilMs: number;
  /** Only recorded, not enforced: shown to those who ask for it. */
  readonly simulated: boolean;
}

/** An IPv4 or IPv6 network; an address is a network with the longest prefix. */
export interface AddressRange {
  readonly family: 4 | 6;
  /** The first address, in 32-bit words, most significant first: one for IPv4, four for IPv6. Host bits are zero. */
  readonly words: readonly number[];
  readonly prefix: number;
}

/** Which decisions a request may see. */
export interface Filter {
  /** As {@link canonicalScope} writes them; undefined: every scope. */
  readonly scopes: readonly string[] | undefined;
  readonly origins: readonly string[] | undefined;
  /** In lower case; any of them must be in the scenario. None: no condition. */
  readonly scenariosContaining: readonly string[];
  /** In lower case; none of them may be in the scenario. */
  readonly scenariosNotContaining: readonly string[];
  readonly type: string | undefined;
  readonly value: string | undefined;
  readonly addresses: AddressRange | undefined;
  /** True: decisions whose range contains `addresses`; false: those contained in it. */
  readonly contains: boolean;
  /** Whether simulated decisions are seen as well. */
  readonly simulated: boolean;
}

/** An answer: its decisions at one offset, encoded in pages that are shared with every other answer of the same kind. */
export interface Copy {
  /** The offset up to which it tells everything. */
  readonly offset: number;
  /** How many decisions are in `new`. */
  readonly added: number;
  /** How many are in `deleted`. */
  readonly deleted: number;
  /** Its length without compression, in bytes. Durations are padded, so it does not depend on when it is sent. */
  readonly bytes: number;
  /** A fresh walk through its pages. Durations are relative to the moment at which each page is given out. */
  payload(encoding: 'identity' | 'gzip'): CopyPayload;
  /** Lets its pages go. Idempotent. */
  release(): void;
}

/** What a delivery takes piece by piece. What it gave before must not be looked at after the next call. */
export interface CopyPayload {
  /** Bytes on the wire when known without work. */
  readonly bytes: number | undefined;
  next(bytesWanted?: number): readonly Uint8Array[] | Promise<readonly Uint8Array[] | undefined> | undefined;
  /** Lets go of what it gave last: the delivery is over, sent or not. Idempotent. */
  release(): void;
}
