import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readIni } from './ini.ts';
import { Problems } from './problems.ts';

function read(text: string): { values: Record<string, string | undefined>; problems: string[] } {
  const problems = new Problems();
  const values: Record<string, string | undefined> = {};
  for (const entry of readIni(text, 'f', problems)) {
    if (entry.key !== undefined)
      values[`${entry.section}${entry.name === undefined ? '' : `/${entry.name}`}.${entry.key}`] = entry.value;
  }
  return { values, problems: problems.list().map(({ where, message }) => `${where} ${message}`) };
}

describe('the dialect of the file', () => {
  it.each([
    ['[S]\nk=v', 'v'],
    ['[S]\n  k  =  v  ', 'v'],
    ['[S]\nk = a b  c', 'a b  c'],
    ['[S]\nk = v ; comment', 'v'],
    ['[S]\nk = v # comment', 'v'],
    ['[S]\nk = v;comment', 'v'],
    ['[S]\nk = "v ; no comment"', 'v ; no comment'],
    ['[S]\nk = "  v  "', '  v  '],
    ['[S]\nk = a" b "c', 'a b c'],
    ['[S]\nk = "a\\"b\\\\c\\td\\ne"', 'a"b\\c\td\ne'],
    ['[S]\nk = \\"v\\"', '"v"'],
    ['[S]\nk = one \\\ntwo', 'one two'],
    ['[S]\nk =', ''],
    ['[S]\nk = ""', ''],
    ['[S]\nk', undefined],
    ['[S]\nk ; comment', undefined],
    ['[S] ; comment\nk=v', 'v'],
    ['[ S ]\nk=v', 'v'],
    ['\uFEFF[S]\nk=v', 'v'],
    ['[S]\r\nk = v\r\n', 'v'],
    ['# comment\n; comment\n\n[S]\n\n# comment\nk = v', 'v'],
    ['[S]\nk=a\nk=b', 'b'],
    ['[S]\nk = sdk-1#2', 'sdk-1'],
  ])('reads %j', (text, value) => {
    expect(read(text)).toEqual({ values: { 'S.k': value }, problems: [] });
  });

  it('keeps names in quotes as they are, with their escapes', () => {
    expect(read('[Environment "My \\"own\\" env \\\\ Ä"]\nsdkKey=x').values).toEqual({
      'Environment/My "own" env \\ Ä.sdkKey': 'x',
    });
  });
});

describe('what cannot be read', () => {
  it.each([
    ['[S]\nk = "v', 2, 'expected a closing quote on the same line'],
    ['[S]\nk = "v\nj = 1', 2, 'expected a closing quote on the same line'],
    ['[S "x]\nk = 1', 1, 'expected a closing quote on the same line'],
    ['[S ""]', 1, 'expected a name between the quotes, got nothing'],
    ['[S', 1, 'expected "]" after [S, got the end of the file'],
    ['[S x]', 1, 'expected "]" after [S, got "x"'],
    ['[]', 1, 'expected the name of a section, got "]"'],
    ['[S] k = v', 1, 'expected the end of the line after [S], got "k"'],
    ['[S]\nk : v', 2, 'expected "=" after k, got ":"'],
    ['[S]\nmy_key = v', 2, 'expected "=" after my, got "_"'],
    ['[S]\n= v', 2, 'expected a [Section] or a setting, got "="'],
    ['[S]\n1k = v', 2, 'expected a [Section] or a setting, got "1"'],
    ['k = v', 1, 'expected a [Section] above k'],
    ['[S]\nk = C:\\certs', 2, 'expected a backslash to stand in quotes and to be doubled ("C:\\\\certs"), got \\"c"'],
    ['[S]\nk = "C:\\certs"', 2, 'expected a backslash to stand in quotes and to be doubled ("C:\\\\certs"), got \\"c"'],
    ['[S "a\\n"]', 1, 'expected \\\\ or \\" in a name, got \\"n"'],
  ])('reports %j at line %d', (text, line, message) => {
    expect(read(text).problems).toContain(`f:${line} ${message}`);
  });

  it('goes on with the next line and reports every one', () => {
    const { values, problems } = read('[S]\na = "x\nb = 2\nc : 3\nd = 4');
    expect(values).toEqual({ 'S.b': '2', 'S.d': '4' });
    expect(problems.map((problem) => problem.split(' ')[0])).toEqual(['f:2', 'f:4']);
  });

  // Fails when `this.#section = undefined` is taken out of #header.
  it('puts no setting into the section above a header that cannot be read', () => {
    const { values } = read('[S]\na = 1\n[T\nb = 2');
    expect(values).toEqual({ 'S.a': '1' });
  });

  // Fails when #take does not count lines, or when the joined line of a continuation is not counted.
  it('numbers lines after a continuation', () => {
    expect(read('[S]\na = 1 \\\n 2\n?').problems).toEqual(['f:4 expected a [Section] or a setting, got "?"']);
  });
});

describe('any text', () => {
  const piece = fc.constantFrom(
    '[S]',
    '[',
    ']',
    '"',
    '\\',
    '\n',
    '\r\n',
    '=',
    ';',
    '#',
    ' ',
    'k',
    'Ä',
    '[E "n"]',
    '\u0000',
    '😀',
    '\uD800',
  );
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join('')),
  );

  it('never throws, and every line it names is in the file', () => {
    fc.assert(
      fc.property(text, (input) => {
        const lines = input.split('\n').length;
        const problems = new Problems();
        const entries = readIni(input, 'f', problems);
        for (const entry of entries) {
          expect(entry.line).toBeGreaterThanOrEqual(1);
          expect(entry.line).toBeLessThanOrEqual(lines);
        }
        for (const problem of problems.list()) {
          const line = Number(problem.where.slice('f:'.length));
          expect(line).toBeGreaterThanOrEqual(1);
          expect(line).toBeLessThanOrEqual(lines);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('gives back any value that was written in quotes', () => {
    const quote = (value: string): string =>
      `"${value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}"`;
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }).filter((value) => !value.includes('\r')),
        (value) => {
          expect(read(`[S]\nk = ${quote(value)} ; comment`)).toEqual({ values: { 'S.k': value }, problems: [] });
        },
      ),
    );
  });
});
