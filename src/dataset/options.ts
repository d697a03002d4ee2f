import { HeadgateError } from '../kernel/index.ts';
import type { PendingWrite } from './kept.ts';
import type { Tombstone } from './tombstones.ts';

/** Deep enough for a day of a change every ten seconds; each costs a few hundred bytes besides its items. */
const LOG_BATCHES_MAX = 10_000;
/** Beyond it a full copy, whose pages are shared, serves a returning client better than a catch-up of its own. */
const LOG_BYTES_MAX = 32 * 1024 * 1024;
/** One deletion takes about 150 bytes with its key, so all of them 15 MB; a day of 4,000 deletions an hour. */
const TOMBSTONES_MAX = 100_000;

/** What a data set is made of. */
export interface DataSetOptions {
  /** For errors and logs. */
  readonly name: string;
  /** The kinds of items it can hold. */
  readonly kinds: readonly string[];
  /** How many batches the log keeps; default 10,000. */
  readonly logMaxBatches?: number;
  /** How many bytes of changes the log keeps; default 32 MiB. */
  readonly logMaxBytes?: number;
  /** How many deletions are remembered; default 100,000. */
  readonly tombstonesMax?: number;
  /** The offset that the first data get, so that cursors which outlive the process keep their meaning; default 1. */
  readonly firstOffset?: number;
  /** The least that the clock is once the first data are there: what it was in an earlier life; default 0. */
  readonly firstClock?: number;
  /** Deletions of an earlier life, oldest first. */
  readonly tombstones?: Iterable<Tombstone>;
  /**
   * Awaited by each write when all of it is ready and none of it can be seen yet, so that whoever is told of it can be
   * told after a restart too. Readers go on with what was before, and later writes wait. When it throws, the write
   * rejects with that and has changed nothing. Not called for what changes nothing, nor by `restore`.
   */
  readonly beforeCommit?: (write: PendingWrite) => Promise<void>;
}

async function atOnce(): Promise<void> {}

/** Names that go into keys of maps, beside a NUL. */
const KIND = /^[A-Za-z0-9_-]{1,64}$/;

/** @throws HeadgateError HG_OPTION for an option that cannot be used. */
export function checkedOptions(options: DataSetOptions): Required<DataSetOptions> {
  const { name, kinds } = options;
  if (typeof name !== 'string' || name === '') throw refusal('its name must be a string that is not empty', name);
  if (!Array.isArray(kinds) || kinds.length === 0) throw refusal('kinds must be a list that is not empty', kinds);
  for (const kind of kinds) {
    if (typeof kind !== 'string' || !KIND.test(kind)) throw refusal('a kind must be 1 to 64 of [A-Za-z0-9_-]', kind);
  }
  if (new Set(kinds).size !== kinds.length) throw refusal('each kind must be named once', kinds);
  return {
    name,
    kinds: [...kinds],
    logMaxBatches: atLeast(1, 'logMaxBatches', options.logMaxBatches ?? LOG_BATCHES_MAX),
    logMaxBytes: atLeast(1, 'logMaxBytes', options.logMaxBytes ?? LOG_BYTES_MAX),
    tombstonesMax: atLeast(1, 'tombstonesMax', options.tombstonesMax ?? TOMBSTONES_MAX),
    firstOffset: atLeast(1, 'firstOffset', options.firstOffset ?? 1),
    firstClock: atLeast(0, 'firstClock', options.firstClock ?? 0),
    tombstones: options.tombstones ?? [],
    beforeCommit: options.beforeCommit ?? atOnce,
  };
}

function atLeast(min: number, name: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < min)
    throw refusal(`${name} must be an integer of at least ${min}`, value);
  return value;
}

function refusal(cause: string, got: unknown): HeadgateError {
  return new HeadgateError('HG_OPTION', `Cannot make a data set: ${cause}, got ${String(got)}`);
}
