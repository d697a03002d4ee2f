import { gunzipSync } from 'node:zlib';
import { formatDuration, parseDuration } from '../../src/dataset/decisions/duration.ts';
import { Ledger } from '../../src/dataset/decisions/ledger.ts';
import type { Rows } from '../../src/dataset/decisions/rows.ts';
import type { Copy, CopyPayload, Decision, Filter } from '../../src/dataset/decisions/types.ts';

/** An item of an answer. */
export interface Shown {
  readonly duration: string;
  readonly id: number;
  readonly origin: string;
  readonly scenario: string;
  readonly scope: string;
  readonly type: string;
  readonly uuid?: string;
  readonly value: string;
}

/** Both arrays of an answer. */
export interface Document {
  readonly new: readonly Shown[];
  readonly deleted: readonly Shown[];
}

/** What an answer should hold: rows, in order. */
export interface Expected {
  readonly fresh: readonly number[];
  readonly gone: readonly number[];
}

export function decision(id: number, more: Partial<Decision> = {}): Decision {
  return {
    id,
    uuid: `00000000-0000-4000-8000-${String(id).padStart(12, '0')}`,
    origin: 'cscli',
    scenario: 'manual ban',
    scope: 'Ip',
    type: 'ban',
    value: `192.0.${id >>> 8}.${id & 255}`,
    untilMs: 4 * 3_600_000,
    simulated: false,
    ...more,
  };
}

/** A ledger with these decisions, and a wall clock that stands still until it is set. */
export async function ledgerWith(
  decisions: readonly Decision[],
  o: ConstructorParameters<typeof Ledger>[0] = {},
): Promise<{ ledger: Ledger; wall: Wall }> {
  const ledger = new Ledger(o);
  await ledger.patch(0, { added: decisions, removedIds: [] }, { nowMs: 0, toleranceMs: 0 });
  return { ledger, wall: new Wall() };
}

/** The wall clock, as a test sets it. */
export class Wall {
  ms = 0;
  readonly now = (): number => this.ms;
}

/** All groups of a payload, one after the other. */
export async function* groupsOf(payload: CopyPayload, bytesWanted?: number): AsyncGenerator<readonly Uint8Array[]> {
  for (;;) {
    const group = await payload.next(bytesWanted);
    if (group === undefined) return;
    yield group;
  }
}

/** What goes over the wire, copied as it comes: what was given must not be looked at later. */
export async function wireOf(
  copy: Copy,
  encoding: 'identity' | 'gzip' = 'identity',
  bytesWanted?: number,
): Promise<Buffer> {
  const payload = copy.payload(encoding);
  const pieces: Buffer[] = [];
  for await (const group of groupsOf(payload, bytesWanted)) pieces.push(Buffer.concat(group));
  payload.release();
  return Buffer.concat(pieces);
}

/** The text of an answer as it is sent. */
export async function bodyOf(copy: Copy, encoding: 'identity' | 'gzip' = 'identity'): Promise<string> {
  const wire = await wireOf(copy, encoding);
  return (encoding === 'gzip' ? gunzipSync(wire) : wire).toString();
}

/** Without the white space behind durations. */
export function unpadded(body: string): string {
  return body.replaceAll(/("duration":"[-\dhms]+") *,"id"/g, '$1,"id"');
}

export function documentOf(body: string): Document {
  return JSON.parse(body) as Document;
}

/** When an item ends for whoever reads it at this moment. */
export function endOf(item: Shown, atMs: number): number {
  const leftMs = parseDuration(item.duration);
  if (leftMs === undefined) throw new Error(`not a duration: ${item.duration}`);
  return atMs + leftMs;
}

/** Which group a row belongs to, in words. */
export function groupOf(rows: Rows, row: number): string {
  return [
    rows.scopes.textOf(rows.scope[row] as number),
    rows.types.textOf(rows.type[row] as number),
    rows.valueOf(row),
  ].join(' ');
}

/** What a filter without addresses lets through, said as plainly as possible. */
export function passes(filter: Filter, rows: Rows, row: number): boolean {
  const scenario = rows.scenarios.textOf(rows.scenario[row] as number).toLowerCase();
  return (
    (filter.simulated || rows.simulated[row] === 0) &&
    (filter.scopes?.includes(rows.scopes.textOf(rows.scope[row] as number)) ?? true) &&
    (filter.origins?.includes(rows.origins.textOf(rows.origin[row] as number)) ?? true) &&
    (filter.type ?? rows.types.textOf(rows.type[row] as number)) === rows.types.textOf(rows.type[row] as number) &&
    (filter.value ?? rows.valueOf(row)) === rows.valueOf(row) &&
    (filter.scenariosContaining.length === 0 || filter.scenariosContaining.some((part) => scenario.includes(part))) &&
    !filter.scenariosNotContaining.some((part) => scenario.includes(part))
  );
}

/** Rows of each group that a filter lets through. */
function groupsIn(rows: Rows, filter: Filter): Map<string, number[]> {
  const groups = new Map<string, number[]>();
  for (let row = 0; row < rows.size; row++) {
    if (rows.added[row] === 0 || !passes(filter, rows, row)) continue;
    const group = groupOf(rows, row);
    groups.set(group, [...(groups.get(group) ?? []), row]);
  }
  return groups;
}

function longestOf(rows: Rows, among: readonly number[]): number {
  const [longest] = among.toSorted(
    (a, b) =>
      (rows.untilMs[b] as number) - (rows.untilMs[a] as number) || (rows.id[a] as number) - (rows.id[b] as number),
  );
  return longest as number;
}

function byId(rows: Rows, found: readonly number[]): number[] {
  return found.toSorted((a, b) => (rows.id[a] as number) - (rows.id[b] as number) || a - b);
}

/** What a full answer holds, group by group, from the rows as they are. */
export function expectedFull(ledger: Ledger, filter: Filter, dedup: boolean): Expected {
  return expectedDelta(ledger, filter, { dedup, from: 0 });
}

/** The same of a delta. */
export function expectedDelta(ledger: Ledger, filter: Filter, o: { dedup: boolean; from: number }): Expected {
  const { rows, offset } = ledger;
  const fresh: number[] = [];
  const gone: number[] = [];
  for (const members of groupsIn(rows, filter).values()) {
    const live = members.filter((row) => rows.visible(row, offset));
    const over = members.filter((row) => (rows.removed[row] as number) > o.from && !live.includes(row));
    if (live.length > 0) {
      const survivor = longestOf(rows, live);
      const outlived = over.some((row) => (rows.untilMs[row] as number) > (rows.untilMs[survivor] as number));
      const touched = live.filter((row) => (rows.touched[row] as number) > o.from);
      fresh.push(...touched.filter((row) => row !== survivor && !o.dedup));
      if (touched.includes(survivor) || outlived) fresh.push(survivor);
    } else if (over.length > 0) {
      gone.push(...(o.dedup ? [longestOf(rows, over)] : over));
    }
  }
  return { fresh: byId(rows, fresh), gone: byId(rows, gone) };
}

/** The body for what is expected, at one moment, without padding. */
export function expectedBody(rows: Rows, { fresh, gone }: Expected, nowMs: number): string {
  const left = (row: number): number => (rows.untilMs[row] as number) - nowMs;
  const items = fresh.map((row) => `{"duration":"${formatDuration(Math.max(1000, left(row)))}"${rows.text(row)}`);
  const over = gone.map((row) => `{"duration":"${formatDuration(Math.min(0, left(row)))}"${rows.text(row)}`);
  return `{"new": [${items.join(',')}], "deleted": [${over.join(',')}]}`;
}
