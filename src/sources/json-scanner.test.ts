import fc from 'fast-check';
import { parseJson } from '../../test/support/json.ts';
import { describe, expect, it } from 'vitest';
import { HeadgateError } from '../kernel/index.ts';
import { ItemScanner, type ScannedItem } from './item-scanner.ts';
import { JSON_LIMITS } from './json-scanner.ts';

const SECTIONS = new Map([
  ['flags', { kind: 'flags' }],
  ['segments', { kind: 'segments' }],
]);
const ORIGIN = { file: 'x.json', code: 'HG_SOURCE' } as const;

function scan(bytes: Buffer, splits: readonly number[] = [], limits = JSON_LIMITS): ScannedItem[] {
  const scanner = new ItemScanner({ origin: ORIGIN, sections: SECTIONS, limits });
  const items: ScannedItem[] = [];
  let from = 0;
  for (const to of [...splits, bytes.length].map((at) => at % (bytes.length + 1)).sort((a, b) => a - b)) {
    // A copy that is overwritten afterwards: the scanner must not keep references into a piece.
    const piece = Buffer.from(bytes.subarray(from, to));
    scanner.push(piece);
    piece.fill(0x21);
    items.push(...scanner.take());
    from = to;
  }
  scanner.finish();
  return items;
}

function failureOf(text: string | Buffer, splits: readonly number[] = [], limits = JSON_LIMITS): string {
  try {
    scan(Buffer.from(text as string), splits, limits);
  } catch (thrown) {
    if (thrown instanceof HeadgateError) return thrown.message;
    throw thrown;
  }
  return 'accepted';
}

/** JSON text with odd whitespace, escapes that need not be, and numbers in every form. */
const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 3 });
const character = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }).map((text) => JSON.stringify(text).slice(1, -1)),
  fc.integer({ min: 0, max: 0xffff }).map((code) => `\\u${code.toString(16).padStart(4, '0')}`),
  fc.constantFrom(
    '\\/',
    '\\b',
    '\\f',
    '\\n',
    '\\r',
    '\\t',
    '\\"',
    '\\\\',
    '/',
    'é',
    '世',
    '😀',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
  ),
);
const stringText = fc.array(character, { maxLength: 6 }).map((parts) => `"${parts.join('')}"`);
const numberText = fc.constantFrom(
  '0',
  '-0',
  '1',
  '-12',
  '3.50',
  '1e5',
  '1E+5',
  '2.5e-3',
  '1e999',
  '12345678901234567890',
  '0.0',
);
const leaf = fc.oneof(stringText, numberText, fc.constantFrom('true', 'false', 'null'));
const { value: valueText } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    leaf,
    fc
      .tuple(space, fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 }))
      .map(([inner, parts]) =>
        parts.length === 0 ? `[${inner}]` : `[${parts.map((part) => part.join('')).join(',')}]`,
      ),
    fc
      .tuple(space, fc.array(fc.tuple(space, stringText, space, space, tie('value'), space), { maxLength: 4 }))
      .map(([inner, parts]) =>
        parts.length === 0
          ? `{${inner}}`
          : `{${parts.map(([a, key, b, c, value, d]) => `${a}${key}${b}:${c}${value}${d}`).join(',')}}`,
      ),
  ),
}));
const keyText = fc.oneof(stringText, fc.constantFrom('"__proto__"', '"constructor"', '"a"', '"\\u0061"', '""'));
const itemText = fc
  .tuple(space, fc.array(fc.tuple(keyText, space, valueText), { maxLength: 4 }), fc.nat(), fc.boolean())
  .map(([gap, members, version, hasKey]) => {
    const own = [...(hasKey ? [`${gap}"k\\u0065y":"own"`] : []), `"version"${gap}:${version}`];
    const plain = members.filter(([key]) => !['key', 'version', 'deleted'].includes(JSON.parse(key) as string));
    return `{${[...own, ...plain.map(([key, a, value]) => `${a}${key}${a}:${value}`)].join(`${gap},`)}${gap}}`;
  });
const fileText = fc
  .tuple(fc.array(fc.tuple(keyText, space, itemText), { maxLength: 4 }), space, valueText)
  .map(
    ([items, gap, other]) =>
      `${gap}{${gap}"other":${other},"flags"${gap}:{${items.map(([key, a, item]) => `${a}${key}:${item}`).join(',')}${gap}}}${gap}`,
  );
const splits = fc.array(fc.nat(), { maxLength: 12 });

/** The last item under each key, with its own key put in where it has none. */
function expected(text: string): Map<string, unknown> {
  const flags = (parseJson(text) as { flags: Record<string, object> }).flags;
  return new Map(
    Object.entries(flags).map(([key, item]) => [key, Object.hasOwn(item, 'key') ? item : { ...item, key }]),
  );
}

describe('JSON scanner, properties', () => {
  it('finds every item, equal to what JSON.parse makes of it, wherever the pieces are cut', () => {
    fc.assert(
      fc.property(fileText, splits, (text, cuts) => {
        const found = new Map(scan(Buffer.from(text), cuts).map((item) => [item.key, parseJson(item.text)]));
        expect(found).toEqual(expected(text));
      }),
      { numRuns: 200 },
    );
  }, 30_000);

  it('gives the same texts for one piece as for many, without whitespace outside strings, and again for its own output', () => {
    fc.assert(
      fc.property(fileText, splits, (text, cuts) => {
        const whole = scan(Buffer.from(text));
        expect(scan(Buffer.from(text), cuts)).toEqual(whole);
        for (const { key, text: once } of whole) {
          expect(once.replaceAll(/"(?:[^"\\]|\\.)*"/g, '')).not.toMatch(/\s/);
          expect(once).not.toMatch(/[\r\n]/);
          expect(scan(Buffer.from(`{"flags":{${JSON.stringify(key)}:${once}}}`))[0]?.text).toBe(once);
        }
      }),
      { numRuns: 150 },
    );
  }, 30_000);

  it('keeps what lies between the whitespace byte for byte: numbers, escapes, order', () => {
    const item =
      '{ "version" : 1 , "key":"a", "n": [ 1.0, 1e2, -0, 12345678901234567890 ], "e": "\\u0041\\/ b", "z": 1, "b": 2 }';
    expect(scan(Buffer.from(`{"flags":{"a":${item}}}`))[0]?.text).toBe(
      '{"version":1,"key":"a","n":[1.0,1e2,-0,12345678901234567890],"e":"\\u0041\\/ b","z":1,"b":2}',
    );
  });

  it('rejects exactly what JSON.parse rejects, at a line of the file', () => {
    const edit = fc.record({
      at: fc.nat(),
      drop: fc.nat({ max: 3 }),
      put: fc.oneof(
        fc.constantFrom('', '"', '\\', ',', ':', '{', '}', '[', ']', '0', '-', '.', 'e', 'u', 't', '\n', '\0', '1'),
        fc.string({ maxLength: 2 }),
      ),
    });
    fc.assert(
      fc.property(valueText, fc.array(edit, { maxLength: 3 }), splits, (text, edits, cuts) => {
        let inner = text;
        for (const { at, drop, put } of edits) {
          const from = at % (inner.length + 1);
          inner = `${inner.slice(0, from)}${put}${inner.slice(from + drop)}`;
        }
        // the same bytes for both: lone surrogates become U+FFFD
        const bytes = Buffer.from(`{"x":${inner}\n}`);
        const failure = failureOf(bytes, cuts);
        const parses = canParse(bytes.toString('utf8'));
        expect({ failure, accepted: failure === 'accepted' }).toEqual({ failure, accepted: parses });
        expect({ failure, located: parses || isPlaceIn(failure, bytes.toString('utf8')) }).toEqual({
          failure,
          located: true,
        });
      }),
      { numRuns: 1500 },
    );
  }, 30_000);

  it('rejects exactly the bytes that are not UTF-8', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5 }), fc.boolean(), splits, (raw, high, cuts) => {
        const inner = raw
          .map((byte) => (high ? byte | 0x80 : byte))
          .filter((byte) => byte >= 0x20 && byte !== 0x22 && byte !== 0x5c);
        const bytes = Buffer.concat([Buffer.from('{"x":"'), inner, Buffer.from('"}')]);
        expect(failureOf(bytes, cuts) === 'accepted').toBe(isUtf8(bytes));
      }),
      { numRuns: 1500 },
    );
  }, 30_000);
});

function canParse(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function isPlaceIn(failure: string, text: string): boolean {
  const [, line, column] = /^Cannot read x\.json:(\d+):(\d+): /.exec(failure) ?? [];
  const codePoints = Array.from(text.split('\n')[Number(line) - 1] ?? '').length;
  return Number(line) >= 1 && Number(column) >= 1 && Number(column) <= codePoints + 1;
}

describe('JSON scanner, errors', () => {
  it.each([
    ['', '1:1: expected a value, got the end of the file'],
    ['{"flags": {', '1:12: expected a key in quotes or "}", got the end of the file'],
    ['{"flags": {}} x', '1:15: expected the end of the file, got "x"'],
    ['{"flags": {"a": {"version": 1,}}}', '1:31: expected a key in quotes, got "}"'],
    ['{"flags":\n {"a": {"on" true}}}', '2:14: expected ":", got "t"'],
    ['{"é😀é": tru }', '1:12: expected true, false or null, got byte 0x20'],
    ['{"a": "x\ny"}', '1:9: expected no raw control character in a string, got byte 0x0a'],
    ['{"a": "\\x"}', '1:9: expected one of "\\/bfnrtu after a backslash, got "x"'],
    ['{"a": "\\u12g4"}', '1:12: expected four hexadecimal digits after \\u, got "g"'],
    ['{"a": 01}', '1:8: expected "," or a closing bracket, got "1"'],
    ['{"a": -}', '1:8: expected a digit, got "}"'],
    ['{"a": 1.}', '1:9: expected a digit, got "}"'],
    ['{"a": [1}', '1:9: expected "," or a closing bracket, got "}"'],
    ['{"a": ]}', '1:7: expected a value, got "]"'],
    ['\ufeff{}', '1:1: expected a value, got a byte order mark: save the file without one'],
    ['[]', '1:1: the file must hold an object'],
    ['{"flags": []}', '1:11: "flags" must be an object'],
    ['{"flags": {"a": 1}}', '1:17: flags["a"] must be an object'],
    ['{"flags": {"a": {},\n"b": null}}', '2:6: flags["b"] must be an object'],
    [
      '{"flags": {"a": {"version": -1}}}',
      '1:29: "version" of flags["a"] must be a whole number from 0 to 2^53-1, got -1',
    ],
    [
      '{"flags": {"a": {"version": 1.5}}}',
      '1:29: "version" of flags["a"] must be a whole number from 0 to 2^53-1, got 1.5',
    ],
    [
      '{"flags": {"a": {"version": 9007199254740992}}}',
      '1:29: "version" of flags["a"] must be a whole number from 0 to 2^53-1, got 9007199254740992',
    ],
    [
      '{"flags": {"a": {"version": "1"}}}',
      '1:29: "version" of flags["a"] must be a whole number from 0 to 2^53-1, got "1"',
    ],
    [
      '{"flags": {"a": {"version": null}}}',
      '1:29: "version" of flags["a"] must be a whole number from 0 to 2^53-1, got null',
    ],
    ['{"flags": {"a": {"key": 5}}}', '1:25: "key" of flags["a"] must be a string'],
    ['{"flags": {"a": {"deleted": 1}}}', '1:29: "deleted" of flags["a"] must be true or false, got 1'],
    ['{"flags": {}, "flags": {}}', '1:22: "flags" must stand once, got it again'],
  ])('%j: %s', (text, message) => {
    expect(failureOf(text)).toBe(`Cannot read x.json:${message}`);
    const everywhere = Array.from({ length: Buffer.byteLength(text) }, (_, at) => at);
    expect(failureOf(text, everywhere), 'cut at every byte').toBe(`Cannot read x.json:${message}`);
  });

  // fails when the check in #open is removed
  it('refuses containers that nest too deep', () => {
    const nested = (depth: number): string => `{"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
    expect(failureOf(nested(JSON_LIMITS.depthMax))).toBe('accepted');
    expect(failureOf(nested(JSON_LIMITS.depthMax + 1))).toBe(
      'Cannot read x.json:1:517: containers may nest 512 deep, got one more',
    );
  });

  // fails when a check of recordBytesMax is removed: an item in one run is never copied, one in several runs is
  it('refuses an item that is too large, in one run or in many', () => {
    const limits = { ...JSON_LIMITS, recordBytesMax: 64 };
    const file = (letters: number, gap: string): string =>
      `{"flags":{"a":{"v":"${'x'.repeat(letters)}"${gap},"version":1}}}`;
    const fits = 64 - '{"v":"","version":1}'.length;
    for (const gap of ['', ' ']) {
      for (const cuts of [[], [20, 40, 60, 80]]) {
        expect(failureOf(file(fits, gap), cuts, limits)).toBe('accepted');
        expect(failureOf(file(fits + 1, gap), cuts, limits)).toMatch(
          /^Cannot read x\.json:1:\d+: one item may have 64 bytes, got more$/,
        );
      }
    }
  });

  // fails when the check in #flush is removed: the item would be kept until its end came
  it('refuses an item that is too large before it has ended', () => {
    const scanner = new ItemScanner({
      origin: ORIGIN,
      sections: SECTIONS,
      limits: { ...JSON_LIMITS, recordBytesMax: 64 },
    });
    scanner.push(Buffer.from('{"flags":{"a":{"x":"'));
    scanner.push(Buffer.alloc(50, 'y'));
    expect(() => scanner.push(Buffer.alloc(50, 'y'))).toThrow('one item may have 64 bytes, got more');
  });

  it('refuses a key that is too long', () => {
    expect(failureOf(`{"flags":{"${'k'.repeat(65_535)}":{}}}`)).toBe(
      'Cannot read x.json:1:65548: a key may have 65536 bytes, got 65537',
    );
  });
});

describe('items', () => {
  const itemsOf = (text: string): ScannedItem[] => scan(Buffer.from(text));

  it('come as soon as their last byte has', () => {
    const scanner = new ItemScanner({ origin: ORIGIN, sections: SECTIONS });
    scanner.push(Buffer.from('{"flags":{"a":{"version":1'));
    expect(scanner.take()).toEqual([]);
    scanner.push(Buffer.from('}'));
    expect(scanner.take().map(({ key }) => key)).toEqual(['a']);
    expect(scanner.take()).toEqual([]);
  });

  it('get the key and the version they lack, at their front', () => {
    expect(
      itemsOf('{"flags":{"a":{}, "b":{"on":true}, "c":{"key":"c"}, "d":{"version":0}}}').map(({ text, version }) => [
        text,
        version,
      ]),
    ).toEqual([
      ['{"key":"a","version":1}', 1],
      ['{"key":"b","version":1,"on":true}', 1],
      ['{"version":1,"key":"c"}', 1],
      ['{"key":"d","version":0}', 0],
    ]);
  });

  it('are known by the key of the map, also when they name another', () => {
    expect(itemsOf('{"flags":{"a":{"key":"b","version":1}}}')).toMatchObject([
      { key: 'a', text: '{"key":"b","version":1}' },
    ]);
  });

  it('take the last of members that stand twice, and only their own members', () => {
    expect(
      itemsOf(
        '{"flags":{"a":{"version":1,"x":{"version":9,"deleted":true},"version":2,"deleted":true,"deleted":false}}}',
      ),
    ).toMatchObject([{ version: 2, deleted: false }]);
  });

  it('may be deleted, and have no text then', () => {
    expect(itemsOf('{"segments":{"s":{"version":7,"deleted":true}}}')).toMatchObject([
      { kind: 'segments', key: 's', version: 7, deleted: true, text: '' },
    ]);
  });

  it('have decoded keys, and __proto__ is one like any other', () => {
    expect(itemsOf('{"flags":{"__proto__":{},"\\u0061\\n":{},"é":{}}}').map(({ key, text }) => [key, text])).toEqual([
      ['__proto__', '{"key":"__proto__","version":1}'],
      ['a\n', '{"key":"a\\n","version":1}'],
      ['é', '{"key":"é","version":1}'],
    ]);
  });

  it('are not looked for in other sections, at other depths or in null', () => {
    expect(
      itemsOf('{"flags":null,"x":{"a":{"version":"bad"}},"y":[{"flags":{"b":1}}],"z":{"flags":{"c":{}}}}'),
    ).toEqual([]);
  });

  it('accept -0 and 1e3 as versions, as JSON.parse would', () => {
    expect(itemsOf('{"flags":{"a":{"version":-0},"b":{"version":1e3}}}').map(({ version }) => version)).toEqual([
      0, 1000,
    ]);
  });
});
