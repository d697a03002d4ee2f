/** How it is with a source, in the vendor's words. */
export interface ConnectionState {
  readonly state: 'INITIALIZING' | 'VALID' | 'INTERRUPTED' | 'OFF';
  /** Unix time in milliseconds. */
  readonly sinceMs: number;
  readonly lastError?: { readonly kind: string; readonly timeMs: number; readonly statusCode?: number };
}

/** How it is with the database that keeps an environment's data. Without a password in its address. */
export interface DataStoreState {
  readonly state: 'VALID' | 'INITIALIZING' | 'INTERRUPTED';
  /** Unix time in milliseconds. */
  readonly sinceMs: number;
  readonly database?: string;
  readonly dbServer?: string;
  readonly dbPrefix?: string;
  readonly dbTable?: string;
}

/** How fresh big segments are, in the vendor's words. */
export interface BigSegmentsState {
  readonly available: boolean;
  readonly potentiallyStale: boolean;
  /** Unix time in milliseconds. */
  readonly lastSynchronizedOn: number;
}
