import { HeadgateError } from '../../kernel/index.ts';

/** Three polls of ten seconds. */
const REFRESH_MARGIN_MS = 30_000;
const KEEP_EXPIRED_MS = 3_600_000;
/** Some 200 bytes each. */
const TOMBSTONES_MAX = 1_000_000;
/** A row has a byte for it. */
const SOURCES_MAX = 255;

/** How a ledger is kept. */
export interface LedgerOptions {
  /** A later end is told at least this long before the one that bouncers know, in milliseconds. Default 30,000: three polls. */
  readonly refreshMarginMs?: number;
  /** How long a removed row is remembered beyond the end that bouncers were told, in milliseconds. Default 3,600,000. */
  readonly keepExpiredMs?: number;
  /** How many removed rows are remembered at most. Default 1,000,000. */
  readonly tombstonesMax?: number;
  /** How many sources must have told everything before it is ready: those numbered 0 to this minus one. Default 1. */
  readonly sources?: number;
  /** From 0 to 1, without 1. Default Math.random. */
  readonly random?: () => number;
}

function atLeast(min: number, name: string, value: number): number {
  if (Number.isFinite(value) && value >= min) return value;
  throw new HeadgateError('HG_OPTION', `Cannot make a ledger: ${name} must be a number from ${min} on, got ${value}`);
}

/** @throws HeadgateError HG_OPTION for an option that cannot be used. */
export function checkedOptions(options: LedgerOptions): Required<LedgerOptions> {
  const sources = options.sources ?? 1;
  if (!Number.isInteger(sources) || sources < 0 || sources > SOURCES_MAX) {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot make a ledger: sources must be a whole number up to ${SOURCES_MAX}, got ${sources}`,
    );
  }
  return {
    sources,
    refreshMarginMs: atLeast(0, 'refreshMarginMs', options.refreshMarginMs ?? REFRESH_MARGIN_MS),
    keepExpiredMs: atLeast(0, 'keepExpiredMs', options.keepExpiredMs ?? KEEP_EXPIRED_MS),
    tombstonesMax: atLeast(0, 'tombstonesMax', options.tombstonesMax ?? TOMBSTONES_MAX),
    random: options.random ?? Math.random,
  };
}
