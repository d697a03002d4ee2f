/** The work that every server of the comparison does for a full copy: ask a database, make JSON of its rows. */
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** What the database takes. */
const DATABASE_MS = 100;

/** What all servers have in common: each library is given the same, as far as it has a setting for it. */
export const LIMITS = {
  /** Copies at a time. */
  slots: 16,
  /** Clients that wait. */
  queue: 1000,
  /** How long one waits. */
  waitMs: 6000,
  /** How long sending may take; in Headgate, how far a reader may fall behind. */
  sendMs: 4000,
} as const;

/** What a server says of itself. */
export interface Counts {
  /** Requests that the limiter still counts, running or waiting; undefined where it counts none. */
  readonly counted: number | undefined;
  /** Copies made. */
  readonly made: number;
  /** Copies made for clients that had gone before. */
  readonly madeForNobody: number;
  readonly cpuSeconds: number;
}

let made = 0;
let madeForNobody = 0;
let rows: readonly object[] = [];

/** Makes the data that copies are made of, so that one copy has about `bytes`. */
export function fill(bytes: number): void {
  const row = (id: number): object => ({
    id,
    name: `item ${id}`,
    price: id * 7,
    tags: ['a', 'b'],
    text: 'x'.repeat(120),
  });
  const bytesEach = Buffer.byteLength(JSON.stringify(row(10_000))) + 1;
  rows = Array.from({ length: Math.ceil(bytes / bytesEach) }, (_, id) => row(id));
}

/**
 * A full copy, made anew: a service that filters by who asks cannot keep it.
 *
 * @param socket - of the client. Only to count: the work does not look at it.
 * @param signal - given up when it aborts, in the database as well, for libraries that hand one on.
 */
export async function makeCopy(socket: Socket, signal?: AbortSignal): Promise<Buffer> {
  await delay(DATABASE_MS, undefined, signal === undefined ? {} : { signal });
  made++;
  if (socket.destroyed) madeForNobody++;
  return Buffer.from(JSON.stringify(rows));
}

/** What this process did so far. */
export function countsOf(counted: number | undefined): Counts {
  const { user, system } = process.cpuUsage();
  return { counted, made, madeForNobody, cpuSeconds: (user + system) / 1e6 };
}
