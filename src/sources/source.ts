import type { Item } from '../dataset/index.ts';
import type { HeadgateError } from '../kernel/index.ts';

/** An environment as a source knows it, without its data. */
export interface SourceEnvironment {
  readonly envId: string;
  readonly sdkKey: string;
  /** An SDK key that was replaced and is accepted until `timestampMs` (milliseconds since 1970). */
  readonly expiringSdkKey?: { readonly value: string; readonly timestampMs: number };
  readonly mobileKey?: string;
  readonly envKey?: string;
  readonly envName?: string;
  readonly projKey?: string;
  readonly projName?: string;
  /** How long clients may cache, in milliseconds; 0 is not at all. */
  readonly ttlMs: number;
  readonly secureMode: boolean;
  /** The version of this description, not of the data. */
  readonly version: number;
}

/** What a source tells. Calls never overlap: the next begins when the promise of the last has settled. */
export interface SourceListener {
  /**
   * An environment is new, or its description or data changed.
   *
   * `data` is everything the environment holds now, of the kinds `flags` and `segments`, each (kind, key) once; undefined means that the data is as before.
   * It must be read before the returned promise settles. It throws when the file turns out to have changed meanwhile,
   * so take it over as a whole or not at all. When the promise rejects, the source tries again later.
   */
  upsert(environment: SourceEnvironment, data: AsyncIterable<Item> | undefined): Promise<void>;
  /** An environment is no longer in the source. */
  remove(envId: string): Promise<void>;
  /** The source cannot be read; what it told before stays valid. Told once for as long as the cause stays the same. */
  failed(error: HeadgateError): void;
  /** All that the source holds has been told: from here on, an environment that it did not tell is not in it. */
  loaded?(): void;
  /** The file changed, but says of itself that nothing did, so nothing was told. */
  unchanged?(path: string): void;
}

/** A file that is read, watched and read again. */
export interface Source {
  /** Reads for the first time, then watches. Resolves after the first attempt, whatever came of it; never rejects. */
  start(): Promise<void>;
  /** Stops watching. The listener is not called any more once the promise has resolved. */
  stop(): Promise<void>;
  /** Reads again now, whether or not the file seems changed, and tells the data even when it is as before. */
  reload(): Promise<void>;
}
