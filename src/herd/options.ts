import { HeadgateError } from '../kernel/index.ts';
import { HERD_KINDS, HERD_SDKS, type HerdKind } from './words.ts';

/** Some of the clients are of this kind. */
export interface HerdPart {
  readonly kind: HerdKind;
  /** As many as this, against the weights of the others. */
  readonly weight: number;
}

/** A share of the clients, from 0 to 1, and what they do. */
export interface HerdShares {
  /** They read their first bytes, then nothing, and keep their connection. */
  readonly stalled: number;
  readonly stalledAfterBytes: number;
  /** They read at a rate. */
  readonly slow: number;
  readonly slowBytesPerSecond: number;
  /** They read their first bytes and leave for good. */
  readonly leaving: number;
  readonly leavingAfterBytes: number;
}

/** What a herd is and does. */
export interface HerdOptions {
  /** Where it goes: an http or https URL; paths of the protocols are added to its own. */
  readonly url: string;
  readonly parts: readonly HerdPart[];
  /** The SDKs that it is made of, in turn; every one that was seen when empty. */
  readonly sdks: readonly string[];
  /** Keys of flags, used in turn. Never shown. */
  readonly keys: readonly string[];
  /** Keys of bouncers, used in turn. Never shown. */
  readonly bouncerKeys: readonly string[];
  readonly clients: number;
  /** The time over which they arrive, evenly; 0: all at once. */
  readonly arriveMs: number;
  readonly shares: HerdShares;
  /** How long after its arrival a client is to have its copy. */
  readonly deadlineMs: number;
  /** How long it goes on; undefined: until every steady client is served, or its deadline has passed. */
  readonly durationMs: number | undefined;
  /** It ends when so many bytes have come. */
  readonly bytesMax: number | undefined;
  /** Clients that failed come again, as their SDK does. */
  readonly reconnects: boolean;
  /** So long after the start every client loses its connection. */
  readonly dropAtMs: number | undefined;
  /** From one poll to the next; the SDK's own when undefined. */
  readonly everyMs: number | undefined;
  /** The one flag that PHP asks for; all when undefined. */
  readonly flag: string | undefined;
  /** Answers are asked for without compression, whatever the SDK does. */
  readonly isPlain: boolean;
  readonly isInsecure: boolean;
  readonly allowRemote: boolean;
  /** The admin listener of the server, which is asked before, while and after. */
  readonly admin: string | undefined;
  readonly adminToken: string | undefined;
  /** For the order of roles. */
  readonly seed: number;
}

/** More clients than this are no longer one machine's work: ports and processor time run out. */
export const HERD_CLIENTS_MAX = 20_000;
const HOUR_MS = 3_600_000;
const DURATION_MS_MAX = 24 * HOUR_MS;

function check(isGood: boolean, name: string, expected: string, got: unknown): void {
  if (!isGood)
    throw new HeadgateError('HG_OPTION', `Cannot run a herd: ${name} must be ${expected}, got ${String(got)}`);
}

function within(value: number, min: number, max: number): boolean {
  return Number.isFinite(value) && value >= min && value <= max;
}

/** Throws HG_OPTION at the first option that cannot be worked with. Keys are in no message. */
export function checkOptions(options: HerdOptions): void {
  const { clients, arriveMs, deadlineMs, durationMs, dropAtMs, everyMs, bytesMax, seed } = options;
  const isCount = Number.isInteger(clients) && within(clients, 1, HERD_CLIENTS_MAX);
  check(isCount, 'clients', `a whole number from 1 to ${HERD_CLIENTS_MAX}`, clients);
  check(within(arriveMs, 0, HOUR_MS), 'arrive', 'from 0 to 1 hour', arriveMs);
  check(within(deadlineMs, 1, HOUR_MS), 'deadline', 'from 1 ms to 1 hour', deadlineMs);
  check(
    durationMs === undefined || within(durationMs, 1, DURATION_MS_MAX),
    'duration',
    'from 1 ms to 24 hours',
    durationMs,
  );
  check(everyMs === undefined || within(everyMs, 100, HOUR_MS), 'every', 'from 100 ms to 1 hour', everyMs);
  check(bytesMax === undefined || within(bytesMax, 1, Number.MAX_SAFE_INTEGER), 'max-bytes', '1 or more', bytesMax);
  check(Number.isSafeInteger(seed), 'seed', 'a whole number', seed);
  if (dropAtMs !== undefined) {
    check(durationMs !== undefined, 'duration', 'given when there is a drop', durationMs);
    check(within(dropAtMs, 1, durationMs ?? 0), 'drop', 'within the duration', dropAtMs);
  }
  checkShares(options.shares);
  checkParts(options);
}

function checkShares(shares: HerdShares): void {
  const { stalled, slow, leaving, slowBytesPerSecond, stalledAfterBytes, leavingAfterBytes } = shares;
  for (const [name, share] of Object.entries({ stalled, slow, leaving })) {
    check(within(share, 0, 1), name, 'a share from 0 % to 100 %', share);
  }
  check(stalled + slow + leaving <= 1, 'stalled, slow and leaving', 'at most 100 % together', stalled + slow + leaving);
  check(within(slowBytesPerSecond, 100, 1e9), 'slow', 'a rate from 100 B/s to 1 GB/s', slowBytesPerSecond);
  check(within(stalledAfterBytes, 0, 1e9), 'stalled', 'from 0 bytes to 1 GB', stalledAfterBytes);
  check(within(leavingAfterBytes, 0, 1e9), 'leaving', 'from 0 bytes to 1 GB', leavingAfterBytes);
}

function checkParts({ parts, sdks, keys, bouncerKeys }: HerdOptions): void {
  check(parts.length > 0, 'kind', 'given', 'none');
  for (const { kind, weight } of parts) {
    check(HERD_KINDS.includes(kind), 'kind', `one of ${HERD_KINDS.join(', ')} or mix`, kind);
    check(within(weight, 0.001, 1000), `the weight of ${kind}`, 'from 0.001 to 1000', weight);
    const known = HERD_SDKS[kind];
    if (sdks.length > 0) {
      check(
        sdks.some((sdk) => known.includes(sdk)),
        `sdk for ${kind}`,
        `one of ${known.join(', ')}`,
        sdks.join(', '),
      );
    }
    const [own, name] = kind === 'bouncer' ? [bouncerKeys, 'key of a bouncer'] : [keys, 'key of an SDK'];
    check(own.length > 0, `a ${name}`, 'given', 'none');
  }
  for (const sdk of sdks) {
    const known = Object.values(HERD_SDKS).flat();
    check(known.includes(sdk), 'sdk', `one of ${[...new Set(known)].join(', ')}`, sdk);
  }
  for (const key of [...keys, ...bouncerKeys]) {
    // a line feed in a header would begin another; the key itself is not shown
    check(/^[\x21-\x7e]{1,1024}$/.test(key), 'a key', '1 to 1024 visible ASCII characters', `${key.length} characters`);
  }
}
