import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Decision } from '../dataset/decisions/index.ts';
import { type BodyForm, DecisionScanner } from './lapi-body.ts';
import { LapiError } from './lapi-error.ts';

const RECEIVED_MS = 1_800_000_000_000;

interface Read {
  readonly added: Decision[];
  readonly removedIds: number[];
}

function read(pieces: readonly Buffer[], form: BodyForm = 'stream'): Read {
  const scanner = new DecisionScanner('one', form);
  const all: Read = { added: [], removedIds: [] };
  for (const piece of pieces) {
    const { added, removedIds } = scanner.feed(piece, RECEIVED_MS);
    all.added.push(...added);
    all.removedIds.push(...removedIds);
  }
  scanner.finish();
  return all;
}

const readText = (text: string, form?: BodyForm): Read => read([Buffer.from(text)], form);

function failureOf(run: () => unknown): LapiError {
  try {
    run();
  } catch (thrown) {
    if (thrown instanceof LapiError) return thrown;
    throw thrown;
  }
  throw new Error('it did not fail');
}

const ITEM =
  '{"duration":"3h59m58s","id":7,"origin":"cscli","scenario":"manual \'ban\' from \'lp1\'","scope":"Ip","type":"ban","uuid":"u-7","value":"192.0.2.1"}';
const DECISION: Decision = {
  id: 7,
  uuid: 'u-7',
  origin: 'cscli',
  scenario: "manual 'ban' from 'lp1'",
  scope: 'Ip',
  type: 'ban',
  value: '192.0.2.1',
  untilMs: RECEIVED_MS + 4 * 3_600_000 - 2000 + 500,
  simulated: false,
};

describe('the body of an answer', () => {
  it.each([
    ['the shape of now', `{"new": [${ITEM}], "deleted": [{"id":3,"duration":"-3s"}]}`, [DECISION], [3]],
    ['the shape of before', `{"deleted":[{"id":3}],"new":[${ITEM}]}`, [DECISION], [3]],
    ['nothing new', '{"new": [], "deleted": []}', [], []],
    ['nulls', '{"deleted":null,"new":null}', [], []],
    ['white space', `\n{ "new" : [ ${ITEM} ]\r\n,\t"deleted" : null } \n`, [DECISION], []],
    [
      'members that nobody knows',
      `{"links":{"new":[1,{"id":1}]},"new":[${ITEM}],"n":-1.5e3,"deleted":[]}`,
      [DECISION],
      [],
    ],
    ['names with escapes', `{"n\\u0065w":[${ITEM}],"deleted":[]}`, [DECISION], []],
  ])('may have %s', (_, text, added, removedIds) => {
    expect(readText(text)).toEqual({ added, removedIds });
  });

  it.each([
    ['decisions', `[${ITEM}]`, [DECISION]],
    ['none', 'null', []],
    ['an empty array', '[]', []],
  ])('may be the live form with %s', (_, text, added) => {
    expect(readText(text, 'list')).toEqual({ added, removedIds: [] });
  });

  it('may have members of a decision that nobody knows, and lack its uuid', () => {
    const item = ITEM.replace('"uuid":"u-7",', '"simulated":false,"until":null,"more":{"id":[8]},');
    expect(readText(`[${item}]`, 'list').added).toEqual([{ ...DECISION, uuid: undefined }]);
  });

  it('gives names of scopes as they are known, and texts as they were meant', () => {
    const item = ITEM.replace('"Ip"', '"country"').replace(
      "manual 'ban' from 'lp1'",
      'a \\u003cb\\u003e \\"c\\" \\ud83d\\ude00 é',
    );
    expect(readText(`[${item}]`, 'list').added).toMatchObject([{ scope: 'Country', scenario: 'a <b> "c" 😀 é' }]);
  });

  // fails when ROUNDING_MS is 0, or added to every duration
  it.each([
    ['4h0m0s', 14_400_000 + 500],
    ['30s', 30_000 + 500],
    ['0s', 500],
    ['-17h44m25s', -63_865_000 + 500],
    ['3h59m49.481837158s', 14_389_481.837158],
    ['1.5s', 1500],
    ['250ms', 250],
  ])('ends a decision of %s no sooner than it does', (duration, ms) => {
    const [decision] = readText(`[${ITEM.replace('3h59m58s', duration)}]`, 'list').added;
    expect((decision?.untilMs ?? 0) - RECEIVED_MS).toBeCloseTo(ms, 3);
  });
});

describe('a body that is not what was asked for', () => {
  it.each([
    ['nothing', '', 'expected a value, got the end of the answer at byte 0'],
    ['white space', '  ', 'expected a value, got the end of the answer at byte 2'],
    ['a page', '<html>', 'expected a value, got "<" at byte 0'],
    ['an array', '[]', 'expected {"new": [..], "deleted": [..]}, got "[" at byte 0'],
    ['null', 'null', 'expected {"new": [..], "deleted": [..]}, got "n" at byte 0'],
    ['an error', '{"message":"access forbidden"}', 'expected a member "new", got the end of the answer at byte 30'],
    ['one array alone', '{"new": []}', 'expected a member "deleted", got the end of the answer at byte 11'],
    ['an object for an array', '{"new": {}, "deleted": []}', 'expected an array or null as "new", got "{" at byte 8'],
    [
      'a word for an array',
      '{"new": [], "deleted": false}',
      'expected an array or null as "deleted", got "f" at byte 23',
    ],
    ['an array twice', '{"new": [], "new": []}', 'expected the member "new" once, got it again at byte 17'],
    ['a number for a decision', '{"new": [1]}', 'expected a decision, got "1" at byte 9'],
    ['null for a decision', '{"new": [null]}', 'expected a decision, got "n" at byte 9'],
    ['more than one value', '{"new": [], "deleted": []}{', 'expected the end of the answer, got "{" at byte 26'],
    ['a half', '{"new": [], "deleted": [', 'expected a value or "]", got the end of the answer at byte 24'],
    [
      'a text cut short',
      '{"new": [{"duration":"3h',
      'expected the rest of a string, got the end of the answer at byte 24',
    ],
  ])('says where: %s', (_, text, cause) => {
    const error = failureOf(() => readText(text));
    expect(error.message).toBe(`Cannot read the decisions of one: ${cause}`);
    expect(error).toMatchObject({ code: 'HG_SOURCE', failure: 'answer' });
  });

  it.each([
    ['an object', '{"message":"x"}', 'expected an array or null, got "{" at byte 0'],
    ['nothing', '', 'expected a value, got the end of the answer at byte 0'],
    ['a half', '[', 'expected a value or "]", got the end of the answer at byte 1'],
  ])('says where in the live form: %s', (_, text, cause) => {
    expect(failureOf(() => readText(text, 'list')).message).toContain(cause);
  });

  it.each([
    ['no id', '"id":7,', '', '"id" of a decision must be a whole number from 0 to 2^40 - 1, got none'],
    ['a text as id', '"id":7', '"id":"7"', '"id" of a decision must be a whole number from 0 to 2^40 - 1, got "7"'],
    ['half an id', '"id":7', '"id":7.5', '"id" of a decision must be a whole number from 0 to 2^40 - 1, got 7.5'],
    ['an id that is too large', '"id":7', '"id":1099511627776', 'from 0 to 2^40 - 1, got 1099511627776'],
    ['no value', ',"value":"192.0.2.1"', '', '"value" of a decision must be a text, got none'],
    ['a number as origin', '"cscli"', '3', '"origin" of a decision must be a text, got 3'],
    [
      'an odd duration',
      '3h59m58s',
      'tomorrow',
      '"duration" of a decision must be a duration such as 3h59m58s, got "tomorrow"',
    ],
    ['a long duration', '3h59m58s', 'x'.repeat(99), `got "${'x'.repeat(39)}... at byte 9`],
  ])('says which decision has %s', (_, part, by, cause) => {
    const text = `{"new": [${ITEM.replace(part, by)}], "deleted": []}`;
    expect(failureOf(() => readText(text)).message).toContain(cause);
    expect(failureOf(() => readText(text)).message).toMatch(/ at byte 9$/);
  });

  it('may not hold a decision of more than a mebibyte, in one piece or in many', () => {
    const item = ITEM.replace('manual', 'm'.repeat(1_048_576));
    const bytes = Buffer.from(`[${item}]`);
    expect(failureOf(() => read([bytes], 'list')).message).toContain('one item may have 1048576 bytes, got more');
    const pieces = Array.from({ length: 20 }, (_, piece) => bytes.subarray(piece * 60_000, (piece + 1) * 60_000));
    expect(failureOf(() => read(pieces, 'list')).message).toContain('one item may have 1048576 bytes, got more');
  });
});

describe('bodies of every kind', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 });
  const decision = fc.record({
    duration: fc.constantFrom('3h59m58s', '59m0s', '0s', '3h59m49.481837158s', '-3s'),
    id: fc.nat(),
    origin: text,
    scenario: text,
    scope: text,
    type: text,
    uuid: text,
    value: text,
  });
  const shape = fc.constantFrom('new', 'old');
  const written = fc.record({ form: shape, escapes: fc.boolean() });
  const change = fc.record({ place: fc.nat(), byte: fc.integer({ min: 0, max: 255 }) });
  const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 });

  /** Some characters as escapes, as encoders differ in what they escape. */
  const encode = (value: unknown, escapes: boolean): string => {
    const json = JSON.stringify(value);
    const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    return escapes ? json.replace(/[<>&\u0080-\uffff]/g, escaped) : json;
  };

  const bodyOf = (items: readonly object[], over: readonly object[], form: string, escapes: boolean): Buffer => {
    const list = (of: readonly object[]): string => `[${of.map((item) => encode(item, escapes)).join(',')}]`;
    if (form === 'new') return Buffer.from(`{"new": ${list(items)}, "deleted": ${list(over)}}`);
    const orNull = (of: readonly object[]): string => (of.length === 0 ? 'null' : list(of));
    return Buffer.from(`{"deleted":${orNull(over)},"new":${orNull(items)}}`);
  };

  const split = (bytes: Buffer, at: readonly number[]): Buffer[] => {
    const borders = at.map((share) => Math.floor(share * bytes.length)).toSorted((one, other) => one - other);
    return [0, ...borders].map((from, piece) => bytes.subarray(from, borders[piece] ?? bytes.length));
  };

  it('are read alike, wherever the pieces begin and end', () => {
    const items = fc.array(decision, { maxLength: 6 });
    fc.assert(
      fc.property(items, items, written, cuts, (added, over, { form, escapes }, at) => {
        const bytes = bodyOf(added, over, form, escapes);
        const got = read(split(bytes, at));
        expect(got.removedIds).toEqual(over.map(({ id }) => id));
        const texts = ({ id, origin, scenario, type, value, uuid }: Partial<Decision>): unknown => ({
          id,
          origin,
          scenario,
          type,
          value,
          uuid,
        });
        expect(got.added.map(texts)).toEqual(added.map((item) => texts({ ...item, uuid: item.uuid || undefined })));
        expect(got).toEqual(read([bytes]));
      }),
    );
  });

  // fails when finish() does not ask whether the value has ended
  it('are errors when they end anywhere before their end, and what was whole until then is told at most', () => {
    const items = fc.array(decision, { maxLength: 4 });
    fc.assert(
      fc.property(
        items,
        items,
        shape,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (added, over, form, share) => {
          const bytes = bodyOf(added, over, form, false);
          const error = failureOf(() => read([bytes.subarray(0, Math.floor(share * bytes.length))]));
          expect(error.message).toMatch(/got the end of the answer at byte \d+$/);
        },
      ),
    );
  });

  it('are errors or are read, and nothing else, whatever a byte is changed to', () => {
    const items = fc.array(decision, { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(items, shape, change, cuts, (added, form, { place, byte }, at) => {
        const bytes = bodyOf(added, [], form, false);
        bytes[place % bytes.length] = byte;
        try {
          expect(read(split(bytes, at)).added.length).toBeLessThanOrEqual(added.length);
        } catch (thrown) {
          if (!(thrown instanceof LapiError)) throw thrown;
        }
      }),
    );
  });
});
