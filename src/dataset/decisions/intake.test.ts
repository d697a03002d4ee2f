import { describe, expect, it } from 'vitest';
import { ban } from '../../../test/support/ledger-kit.ts';
import { Intake, ITEM_BYTES_MAX, problemOf } from './intake.ts';
import { Ledger } from './ledger.ts';
import type { Decision } from './types.ts';

const large = 'x'.repeat(ITEM_BYTES_MAX);
const BAD: readonly (readonly [string, unknown, string])[] = [
  ['id', -1, 'its id must be a whole number from 0 to 2^40 - 1, got -1'],
  ['id', 1.5, 'its id must be a whole number from 0 to 2^40 - 1, got 1.5'],
  ['id', 2 ** 40, 'its id must be a whole number from 0 to 2^40 - 1, got 1099511627776'],
  ['id', Number.NaN, 'its id must be a whole number from 0 to 2^40 - 1, got NaN'],
  ['id', '7', 'its id must be a whole number from 0 to 2^40 - 1, got "7"'],
  ['scope', '', 'its scope must not be empty, got ""'],
  ['type', '', 'its type must not be empty, got ""'],
  ['value', '', 'its value must not be empty, got ""'],
  ['value', undefined, 'its value must be a text, got undefined'],
  ['origin', null, 'its origin must be a text, got null'],
  ['scenario', 7, 'its scenario must be a text, got 7'],
  ['uuid', 7, 'its uuid must be a text, got 7'],
  ['untilMs', Number.POSITIVE_INFINITY, 'its end must be a Unix time in milliseconds, got Infinity'],
  ['untilMs', Number.NaN, 'its end must be a Unix time in milliseconds, got NaN'],
  ['untilMs', undefined, 'its end must be a Unix time in milliseconds, got undefined'],
  ['scenario', large, `its item may have ${ITEM_BYTES_MAX} bytes, got ${ITEM_BYTES_MAX + 96 + 19}`],
];

const withMember = (name: string, value: unknown): Decision => ({ ...ban(1, '192.0.2.1'), [name]: value });

describe('a decision that cannot be held', () => {
  it.each(BAD)('is refused for its %s %.10s', (name, value, cause) => {
    const refused = problemOf(withMember(name, value));
    expect(refused?.code).toBe('HG_SOURCE');
    expect(refused?.message).toBe(`Cannot take a decision: ${cause}`);
    expect(() => new Intake().take(withMember(name, value))).toThrow(refused?.message ?? '');
  });

  it('is what it says in no more than a line', () => {
    expect(problemOf(withMember('id', 'y'.repeat(1000)))?.message.length).toBeLessThan(200);
  });

  it('is as large as the item that it would be, escapes and all', async () => {
    const room = ITEM_BYTES_MAX - 96 - 19;
    const fits = [withMember('scenario', 'x'.repeat(room)), withMember('scenario', '<'.repeat(Math.floor(room / 6)))];
    expect(fits.map(problemOf)).toEqual([undefined, undefined]);
    expect(problemOf(withMember('scenario', 'x'.repeat(room + 1)))).toBeDefined();
    expect(problemOf(withMember('scenario', '<'.repeat(Math.floor(room / 6) + 1)))).toBeDefined();
    // what is measured is no less than what is written
    const ledger = new Ledger();
    const longest = { ...ban(2 ** 40 - 1, 'v'.repeat(1000)), uuid: 'u'.repeat(1000), scenario: 'x'.repeat(30_000) };
    const full = ledger.begin(255, { toleranceMs: 0 });
    full.add(longest);
    await full.commit(0);
    expect(ledger.rows.textBytes(0)).toBeLessThan(ITEM_BYTES_MAX);
  });
});

describe('what can be held', () => {
  it('has the largest id, no uuid, no origin and an end in the past', () => {
    const bounds = { ...ban(2 ** 40 - 1, 'v'), uuid: '', origin: '', scenario: '', untilMs: -8.64e15 };
    expect(problemOf(bounds)).toBeUndefined();
  });
});

describe('an id that comes twice', () => {
  it.each([
    [1, 2, 3],
    [3, 2, 1],
  ])('counts as it came last, in whatever order ids come (%d, %d, %d)', (...ids) => {
    const intake = new Intake();
    const taken = ids.map((id) => intake.take(ban(id, `first ${id}`)));
    // fails when ids are only compared with the one before
    taken.push(intake.take(ban(2, 'second', { untilMs: 5, origin: 'CAPI' })));
    expect(taken).toEqual([true, true, true, false]);
    expect(intake.size).toBe(3);
    const row = intake.id.indexOf(2);
    const { bytes, at, uuidBytes, valueBytes } = intake.textOf(row);
    expect(Buffer.from(bytes).toString('utf8', at + uuidBytes, at + uuidBytes + valueBytes)).toBe('second');
    expect([intake.untilMs[row], intake.names.origins[intake.origin[row] as number]]).toEqual([5, 'CAPI']);
  });
});
