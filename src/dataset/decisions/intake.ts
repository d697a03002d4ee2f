import { HeadgateError } from '../../kernel/index.ts';
import { Arena } from './arena.ts';
import { enlarged } from './columns.ts';
import { jsonText, wellFormed, writeJson } from './json-text.ts';
import { IDS_PER_SOURCE, type RowText } from './rows.ts';
import type { Decision } from './types.ts';

/** An item must be far smaller than the pages it is put into. */
export const ITEM_BYTES_MAX: number = 32 * 1024;
/** What an item takes beside its texts: keys, quotes and an id of sixteen digits. */
const ITEM_FRAME_BYTES = 96;
const MS_MAX = 8.64e15;
const BLOCK_BITS = 18;
const ROWS_MIN = 64;
const SHORT_NAMES_MAX = 65_536;
const SHOWN_MAX = 80;

function refuse(cause: string, got: unknown): HeadgateError {
  const text = typeof got === 'string' ? JSON.stringify(got) : String(got);
  const shown = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
  return new HeadgateError('HG_SOURCE', `Cannot take a decision: ${cause}, got ${shown}`);
}

function isId(id: unknown): boolean {
  return Number.isInteger(id) && (id as number) >= 0 && (id as number) < IDS_PER_SOURCE;
}

function textProblem(name: string, text: unknown, needed: boolean): HeadgateError | undefined {
  if (typeof text !== 'string') return refuse(`its ${name} must be a text`, text);
  return needed && text === '' ? refuse(`its ${name} must not be empty`, text) : undefined;
}

/** Whether the item could be too large: six bytes are the most that one character takes. */
function mayBeLarge({ uuid, origin, scenario, scope, type, value }: Decision): boolean {
  const chars = (uuid?.length ?? 0) + origin.length + scenario.length + scope.length + type.length + value.length;
  return chars * 6 + ITEM_FRAME_BYTES > ITEM_BYTES_MAX;
}

function itemBytes({ uuid, origin, scenario, scope, type, value }: Decision): number {
  const texts = [uuid ?? '', origin, scenario, scope, type, value];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(jsonText(text)), ITEM_FRAME_BYTES);
}

/**
 * Why a decision cannot be held; undefined when it can.
 *
 * @example
 * const decision = { id: -1, uuid: undefined, origin: 'cscli', scenario: '', scope: 'Ip', type: 'ban',
 *   value: '192.0.2.1', untilMs: 0, simulated: false };
 * console.log(problemOf(decision)?.message);
 * // Cannot take a decision: its id must be a whole number from 0 to 2^40 - 1, got -1
 */
export function problemOf(decision: Decision): HeadgateError | undefined {
  if (!isId(decision.id)) return refuse('its id must be a whole number from 0 to 2^40 - 1', decision.id);
  const { uuid, origin, scenario, scope, type, value, untilMs } = decision;
  const wrong =
    textProblem('origin', origin, false) ??
    textProblem('scenario', scenario, false) ??
    textProblem('scope', scope, true) ??
    textProblem('type', type, true) ??
    textProblem('value', value, true) ??
    textProblem('uuid', uuid ?? '', false);
  if (wrong !== undefined) return wrong;
  if (!(Math.abs(untilMs) <= MS_MAX)) return refuse('its end must be a Unix time in milliseconds', untilMs);
  if (!mayBeLarge(decision)) return undefined;
  const bytes = itemBytes(decision);
  return bytes <= ITEM_BYTES_MAX ? undefined : refuse(`its item may have ${ITEM_BYTES_MAX} bytes`, bytes);
}

/** Texts by number, in order of coming. */
class Texts {
  readonly #numbers = new Map<string, number>();
  readonly texts: string[] = [];
  #last = '';
  #lastNumber = -1;

  numberOf(text: string): number {
    if (text === this.#last && this.#lastNumber >= 0) return this.#lastNumber;
    let number = this.#numbers.get(text);
    if (number === undefined) {
      number = this.texts.length;
      // as they come back from bytes: otherwise a restored row would not be the same any more
      this.texts.push(wellFormed(text));
      this.#numbers.set(text, number);
    }
    this.#last = text;
    this.#lastNumber = number;
    return number;
  }
}

/**
 * Decisions on their way into the ledger, in columns: some 45 bytes each and their texts, no object is kept. Of an id
 * that comes twice the last one counts: it was read later.
 */
export class Intake {
  id: Float64Array = new Float64Array(ROWS_MIN);
  untilMs: Float64Array = new Float64Array(ROWS_MIN);
  origin: Uint16Array = new Uint16Array(ROWS_MIN);
  scenario: Uint32Array = new Uint32Array(ROWS_MIN);
  scope: Uint16Array = new Uint16Array(ROWS_MIN);
  type: Uint16Array = new Uint16Array(ROWS_MIN);
  simulated: Uint8Array = new Uint8Array(ROWS_MIN);
  readonly #origins = new Texts();
  readonly #scenarios = new Texts();
  readonly #scopes = new Texts();
  readonly #types = new Texts();
  #place = new Uint32Array(ROWS_MIN);
  #uuidBytes = new Uint16Array(ROWS_MIN);
  #valueBytes = new Uint16Array(ROWS_MIN);
  readonly #arena = new Arena(BLOCK_BITS);
  readonly #scratch = Buffer.alloc(ITEM_BYTES_MAX);
  /** Ids that came so far, where they did not simply rise. */
  #byId: Map<number, number> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /**
   * Takes a decision.
   *
   * @returns whether its id came for the first time
   * @throws HeadgateError HG_SOURCE when it cannot be held; what was taken before stays
   */
  take(decision: Decision): boolean {
    const problem = problemOf(decision);
    if (problem !== undefined) throw problem;
    const earlier = this.#earlier(decision.id);
    const row = earlier ?? this.#size;
    if (row === this.id.length) this.#grow();
    this.#write(row, decision);
    if (earlier !== undefined) return false;
    this.#byId?.set(decision.id, row);
    this.#size++;
    return true;
  }

  textOf(row: number): RowText {
    const place = this.#place[row] as number;
    const uuidBytes = this.#uuidBytes[row] as number;
    const valueBytes = this.#valueBytes[row] as number;
    return { bytes: this.#arena.block(place), at: this.#arena.offset(place), uuidBytes, valueBytes };
  }

  get names(): Readonly<Record<'origins' | 'scenarios' | 'scopes' | 'types', readonly string[]>> {
    return {
      origins: this.#origins.texts,
      scenarios: this.#scenarios.texts,
      scopes: this.#scopes.texts,
      types: this.#types.texts,
    };
  }

  /** Which row has this id already. As long as ids rise, as they do in a full copy, none has. */
  #earlier(id: number): number | undefined {
    if (this.#byId !== undefined) return this.#byId.get(id);
    if (this.#size === 0 || id > (this.id[this.#size - 1] as number)) return undefined;
    this.#byId = new Map();
    for (let row = 0; row < this.#size; row++) this.#byId.set(this.id[row] as number, row);
    return this.#byId.get(id);
  }

  #write(row: number, decision: Decision): void {
    this.id[row] = decision.id;
    this.untilMs[row] = decision.untilMs;
    this.origin[row] = this.#short(this.#origins, decision.origin, 'origins');
    this.scenario[row] = this.#scenarios.numberOf(decision.scenario);
    this.scope[row] = this.#short(this.#scopes, decision.scope, 'scopes');
    this.type[row] = this.#short(this.#types, decision.type, 'types');
    this.simulated[row] = decision.simulated ? 1 : 0;
    const uuidBytes = writeJson(decision.uuid ?? '', this.#scratch, 0);
    const valueBytes = writeJson(decision.value, this.#scratch, uuidBytes) - uuidBytes;
    this.#uuidBytes[row] = uuidBytes;
    this.#valueBytes[row] = valueBytes;
    this.#place[row] = this.#arena.put(this.#scratch, 0, uuidBytes + valueBytes);
  }

  #short(texts: Texts, text: string, what: string): number {
    const number = texts.numberOf(text);
    if (number < SHORT_NAMES_MAX) return number;
    throw refuse(`there may be ${SHORT_NAMES_MAX} different ${what}`, text);
  }

  #grow(): void {
    const length = this.id.length * 2;
    this.id = enlarged(this.id, length);
    this.untilMs = enlarged(this.untilMs, length);
    this.origin = enlarged(this.origin, length);
    this.scenario = enlarged(this.scenario, length);
    this.scope = enlarged(this.scope, length);
    this.type = enlarged(this.type, length);
    this.simulated = enlarged(this.simulated, length);
    this.#place = enlarged(this.#place, length);
    this.#uuidBytes = enlarged(this.#uuidBytes, length);
    this.#valueBytes = enlarged(this.#valueBytes, length);
  }
}
