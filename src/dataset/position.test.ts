import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatPosition, type Position, parsePosition } from './index.ts';

const digest = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('base64url'));
const view = fc.stringMatching(/^[a-z0-9-]{1,128}$/);
const position: fc.Arbitrary<Position> = fc.record({ digest, clock: fc.maxSafeNat(), view });
const D = 'A'.repeat(43);

describe('positions', () => {
  it('come back as they were given out, in URL-safe characters', () => {
    fc.assert(
      fc.property(position, (given) => {
        const text = formatPosition(given);
        expect(text).toMatch(/^[A-Za-z0-9_.-]+$/);
        expect(encodeURIComponent(text)).toBe(text);
        expect(parsePosition(text)).toEqual(given);
      }),
    );
  });

  it('have one spelling: what parses is what would be given out', () => {
    const damage = fc.record({
      at: fc.nat({ max: 200 }),
      cut: fc.nat({ max: 2 }),
      add: fc.constantFrom('', '0', 'A', 'B', '.', 'v', '00', ' '),
    });
    const respelled = (text: string): string => {
      const parsed = parsePosition(text);
      return parsed === undefined ? text : formatPosition(parsed);
    };
    fc.assert(
      fc.property(position, damage, (given, { at, cut, add }) => {
        const text = formatPosition(given);
        const near = text.slice(0, at) + add + text.slice(at + cut);
        expect(respelled(near)).toBe(near);
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    ['an empty text', ''],
    ["another service's", '(p:5A46PZ79FQ9D08YYKT79DECDNV:461)'],
    ['a digest too short', `${'A'.repeat(42)}.1.v`],
    ['a digest too long', `${'A'.repeat(44)}.1.v`],
    ['a digest whose last bits say nothing', `${'A'.repeat(42)}B.1.v`],
    ['a digest of other characters', `${'A'.repeat(42)}+.1.v`],
    ['no clock', `${D}..v`],
    ['a clock with zeros in front', `${D}.01.v`],
    ['a negative clock', `${D}.-1.v`],
    ['a clock with a fraction or exponent', `${D}.1e3.v`],
    ['a clock that is no safe integer', `${D}.9007199254740992.v`],
    ['no view', `${D}.1.`],
    ['a missing part', `${D}.1`],
    ['a part too many', `${D}.1.v.w`],
    ['a view of other characters', `${D}.1.V`],
    ['a view too long', `${D}.1.${'v'.repeat(129)}`],
    ['a line break at the end', `${D}.1.v\n`],
    ['a space in front', ` ${D}.1.v`],
  ])('%s is none', (_, text) => {
    expect(parsePosition(text)).toBeUndefined();
  });

  it('takes the longest there is', () => {
    const longest = `${D}.${Number.MAX_SAFE_INTEGER}.${'v'.repeat(128)}`;
    expect(longest).toHaveLength(189);
    expect(parsePosition(longest)).toBeDefined();
  });

  it('looks at nothing of a text that is too long', () => {
    const text = new String(`${D}.1.v`.padEnd(190, '-')) as unknown as string;
    // fails when the length check is removed: the text would be split
    Object.defineProperty(text, 'split', { value: () => expect.unreachable('the text was looked at') });
    expect(parsePosition(text)).toBeUndefined();
  });

  it('refuses to give out what would not come back', () => {
    const refusal = expect.objectContaining({ code: 'HG_POSITION' });
    expect(() => formatPosition({ digest: D, clock: 1, view: 'Not a view' })).toThrow(refusal);
    expect(() => formatPosition({ digest: 'short', clock: 1, view: 'v' })).toThrow(refusal);
    expect(() => formatPosition({ digest: D, clock: 0.5, view: 'v' })).toThrow(refusal);
    expect(() => formatPosition({ digest: D, clock: 1, view: '' })).toThrow(`got ${D}.1.`);
    expect(() => formatPosition({ digest: 'x'.repeat(1000), clock: 1, view: 'v' })).toThrow(/got x{189}$/);
  });
});
