import fc from 'fast-check';
import { parseJson } from '../../test/support/json.ts';
import { describe, expect, it } from 'vitest';
import { withVersion } from './index.ts';

describe('withVersion', () => {
  it.each([
    ['{"version":3}', '{"version":12}'],
    ['{"key":"a","version":3}', '{"key":"a","version":12}'],
    ['{"version":3,"key":"a"}', '{"version":12,"key":"a"}'],
    ['{"version":"3","b":1}', '{"version":12,"b":1}'],
    ['{"version":{"version":3},"b":[1]}', '{"version":12,"b":[1]}'],
    ['{"version":null}', '{"version":12}'],
    // not top-level: a rule's or a clause's own
    ['{"a":{"version":1},"version":2}', '{"a":{"version":1},"version":12}'],
    ['{"a":[{"version":1}],"b":"x"}', '{"version":12,"a":[{"version":1}],"b":"x"}'],
    // a string that speaks of it
    ['{"a":"version","version":2}', '{"a":"version","version":12}'],
    ['{"a":"\\"version\\":1,","version":2}', '{"a":"\\"version\\":1,","version":12}'],
    ['{"a":"}","version":2}', '{"a":"}","version":12}'],
    ['{"a":"\\\\","version":2}', '{"a":"\\\\","version":12}'],
    ['{"a":"\\\\\\"","version":2}', '{"a":"\\\\\\"","version":12}'],
    // the name with escapes, and names that only look like it
    ['{"vers\\u0069on":2}', '{"vers\\u0069on":12}'],
    ['{"\\u0076\\u0065rsion":2,"z":0}', '{"\\u0076\\u0065rsion":12,"z":0}'],
    ['{"versions":2}', '{"version":12,"versions":2}'],
    ['{"Version":2}', '{"version":12,"Version":2}'],
    ['{"vers\\\\ion":2}', '{"version":12,"vers\\\\ion":2}'],
    // twice: whichever a parser takes
    ['{"version":1,"version":2}', '{"version":12,"version":12}'],
    // absent
    ['{}', '{"version":12}'],
    ['{"a":1}', '{"version":12,"a":1}'],
    // number formats and unknown members are kept
    [
      '{"w":1.0,"big":12345678901234567890,"version":1e0,"e":1E5}',
      '{"w":1.0,"big":12345678901234567890,"version":12,"e":1E5}',
    ],
    // white space is not ours to judge
    [' { "version" : 3 , "b" : 1 } ', ' { "version" : 12 , "b" : 1 } '],
    ['{\t"b":1\r\n}', '{"version":12,\t"b":1\r\n}'],
    [' { } ', ' {"version":12 } '],
  ])('%s', (text, wanted) => {
    expect(withVersion(text, 12)).toBe(wanted);
  });

  it.each([
    '',
    ' ',
    '[]',
    '1',
    '"version"',
    'null',
    '{',
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '{"a":1,}',
    '{"a" 1}',
    '{a:1}',
    '{"a":}',
    '{"a":1}x',
    '{"a":"x}',
    '{"a":[1}',
    '{,}',
    '{"vers\\u00":1}',
    '{"a":1]',
  ])('refuses %s', (text) => {
    expect(() => withVersion(text, 1)).toThrow(expect.objectContaining({ code: 'HG_SOURCE' }));
  });

  it('says what it got, shortened', () => {
    expect(() => withVersion('x'.repeat(200), 1)).toThrow(`must be one JSON object, got ${'x'.repeat(80)}...`);
    expect(() => withVersion('x'.repeat(80), 1)).toThrow(new RegExp(`got ${'x'.repeat(80)}$`));
  });

  it('keeps all but the version, whatever the object', () => {
    const members = fc.dictionary(
      fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('version', 'a', 'Version', '\\', '"')),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(members, fc.nat(), (object, version) => {
        const text = JSON.stringify(object);
        const spliced = withVersion(text, version);
        expect(parseJson(spliced)).toEqual({ ...(parseJson(text) as object), version });
        // nothing but one number was touched, and once is enough
        expect(withVersion(spliced, version)).toBe(spliced);
        expect(withVersion(spliced, 0).length).toBe(spliced.length - String(version).length + 1);
      }),
    );
  });
});
