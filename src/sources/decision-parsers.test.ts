import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CsvParser } from './decision-csv.ts';
import { JsonLinesParser, JsonParser } from './decision-json.ts';
import { ListParser } from './decision-list.ts';
import { decisionOf, durationOf, FIELDS, type Field, type FileRow, type RowParser } from './decision-row.ts';

type Row = Partial<Record<Field, string>> & { at: string };
type Make = new (file: string, tell: (row: FileRow) => void) => RowParser;

/** What a parser tells of a text that comes in pieces of so many bytes. */
function read(make: Make, text: string | Buffer, pieceBytes = 7): Row[] {
  const rows: Row[] = [];
  const parser = new make('f', (row) => {
    const said = FIELDS.map((field) => [field, row.text(field)] as const).filter(([, value]) => value !== undefined);
    rows.push({ ...(Object.fromEntries(said) as Row), at: `${row.place.line}:${row.place.column}` });
  });
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += pieceBytes) parser.push(bytes.subarray(at, at + pieceBytes));
  parser.finish();
  return rows;
}

/** What a row says, without its place. */
const said = (row: Row): Partial<Record<Field, string>> =>
  Object.fromEntries(Object.entries(row).filter(([name]) => name !== 'at'));

/** A line that comes byte by byte is put together as often, which takes long for a long one. */
const piecesFor = (text: string | Buffer): number[] => (text.length > 10_000 ? [4096, 1_000_000] : [1, 7, 1_000_000]);

const messageOf = (run: () => unknown): string => {
  try {
    run();
    return 'no error';
  } catch (thrown) {
    return (thrown as Error).message;
  }
};

describe('a plain list', () => {
  it('has an address a line, comments with # and ;, and blank lines', () => {
    const text = [
      '\ufeff# Spamhaus DROP',
      '; comment',
      '',
      '1.10.16.0/20 ; SBL256894',
      '  192.0.2.1\t',
      '\t# indented',
      '2001:db8::/32#no space',
      '192.0.2.2;x\r',
      '192.0.2.3',
    ].join('\n');
    expect(read(ListParser, text)).toEqual([
      { value: '1.10.16.0/20', at: '4:1' },
      { value: '192.0.2.1', at: '5:3' },
      { value: '2001:db8::/32', at: '7:1' },
      { value: '192.0.2.2', at: '8:1' },
      { value: '192.0.2.3', at: '9:1' },
    ]);
    expect(read(ListParser, '')).toEqual([]);
  });

  it.each([
    ['1.2.3.4 5.6.7.8', 'Cannot read f:1:9: expected a comment or the end of the line, got "5.6.7.8"'],
    ['# é\n\n  1.2.3.4\tbad # x', 'Cannot read f:3:11: expected a comment or the end of the line, got "bad # x"'],
    [
      `1.2.3.4 ${'x'.repeat(100)}`,
      `Cannot read f:1:9: expected a comment or the end of the line, got "${'x'.repeat(60)}..."`,
    ],
    ['1.2.3.4\n\ufeff1.2.3.5', 'Cannot read f:2:1: expected a comment or the end of the line, got "\ufeff1.2.3.5"'],
    [Buffer.from([0x31, 0x0a, 0x20, 0xff, 0x0a]), 'Cannot read f:2:2: expected valid UTF-8, got something else'],
    [`1.2.3.4 #${'x'.repeat(70_000)}`, 'Cannot read f:1:1: expected a line of up to 65536 bytes, got more'],
    [`\n#${'x'.repeat(70_000)}\n`, 'Cannot read f:2:1: expected a line of up to 65536 bytes, got more'],
  ])('says where it is something else (%#)', (text, message) => {
    for (const pieceBytes of piecesFor(text)) expect(messageOf(() => read(ListParser, text, pieceBytes))).toBe(message);
  });

  // Fails when the bound is looked at only once a line has ended.
  it('does not gather a line that never ends', () => {
    const parser = new ListParser('f', () => {});
    parser.push(Buffer.alloc(60_000, '1'));
    expect(messageOf(() => parser.push(Buffer.alloc(60_000, '1')))).toContain('expected a line of up to 65536 bytes');
  });

  it('takes a replacement character for what it is', () => {
    expect(read(ListParser, '1.2.3.4 # \ufffd')).toEqual([{ value: '1.2.3.4', at: '1:1' }]);
  });
});

describe('CSV', () => {
  it('has a header line, in which the columns may stand in any order and others beside them', () => {
    const text =
      '\ufefforigin,Scope, value ,reason,TYPE,duration\r\ncscli,ip,1.6.11.16,manual import,ban,1h\r\n\r\n,,1.2.3.4,,,\n';
    expect(read(CsvParser, text)).toEqual([
      { scope: 'ip', value: '1.6.11.16', reason: 'manual import', type: 'ban', duration: '1h', at: '2:10' },
      { scope: '', value: '1.2.3.4', reason: '', type: '', duration: '', at: '4:3' },
    ]);
    expect(read(CsvParser, 'value')).toEqual([]);
    expect(read(CsvParser, 'value\n\n  \n1.2.3.4')).toEqual([{ value: '1.2.3.4', at: '4:1' }]);
  });

  it('may have quotes, which hold commas, quotes and lines', () => {
    const text = 'value,reason\n"1.2.3.4","a ""b"", c\n\nd"\n1.2.3.5,"é"\n"",""\n';
    expect(read(CsvParser, text)).toEqual([
      { value: '1.2.3.4', reason: 'a "b", c\n\nd', at: '2:1' },
      { value: '1.2.3.5', reason: 'é', at: '5:1' },
      { value: '', reason: '', at: '6:1' },
    ]);
  });

  it.each([
    ['', 'Cannot read f:1:1: expected a header line with a column "value", got the end of the file'],
    ['\n\n', 'Cannot read f:1:1: expected a header line with a column "value", got the end of the file'],
    ['ip,scope\n', 'Cannot read f:1:1: expected a header line with a column "value", got "ip,scope"'],
    ['1.2.3.4\n', 'Cannot read f:1:1: expected a header line with a column "value", got "1.2.3.4"'],
    ['value,x,value\n', 'Cannot read f:1:9: expected each column once, got "value" again'],
    ['value,x\n1.2.3.4\n', 'Cannot read f:2:1: expected 2 fields as in the header, got 1'],
    ['value\n1.2.3.4,5.6.7.8\n', 'Cannot read f:2:1: expected 1 fields as in the header, got 2'],
    ['value\né1.2"3\n', 'Cannot read f:2:5: expected a field without quotes, or one within them, got "\\"3"'],
    ['value\n"a"b\n', 'Cannot read f:2:4: expected a comma or the end of the line, got "b"'],
    ['value,x\n1,"a\n\n', 'Cannot read f:2:3: expected a quote that ends the field, got the end of the file'],
    [`value${',x'.repeat(256)}\n`, 'Cannot read f:1:517: expected up to 256 columns, got "x"'],
    [
      `value\n"${`${'x'.repeat(60_000)}\n`.repeat(5)}"`,
      'Cannot read f:2:1: expected a row of up to 262144 characters, got more',
    ],
  ])('says where it is something else (%#)', (text, message) => {
    for (const pieceBytes of piecesFor(text)) expect(messageOf(() => read(CsvParser, text, pieceBytes))).toBe(message);
  });

  it('gives back what was written, whatever it is and however it comes', () => {
    const unit = fc.oneof(
      fc.constantFrom('"', ',', '\n', ' ', 'a', 'é', '😀'),
      fc.string({ unit: 'grapheme', maxLength: 1 }),
    );
    const field = fc.string({ unit, maxLength: 8 }).map((text) => text.replaceAll('\r', ''));
    const quoted = fc.record({ text: field, quotes: fc.boolean() });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(quoted, quoted), { maxLength: 5 }),
        fc.integer({ min: 1, max: 30 }),
        (rows, pieceBytes) => {
          const write = ({ text, quotes }: { text: string; quotes: boolean }): string =>
            quotes || /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
          // a blank line is no row: one that would be blank is written in quotes
          const lines = rows.map(([a, b]) => `${write(a)},${write(b)}\n`);
          const found = read(CsvParser, `value,reason\n${lines.join('')}`, pieceBytes);
          expect(found.map(({ value, reason }) => [value, reason])).toEqual(rows.map(([a, b]) => [a.text, b.text]));
        },
      ),
    );
  });
});

describe('JSON', () => {
  it('is a list of decisions, with members in any order and others beside them', () => {
    const text = `[
  {"origin": "cscli", "scope": "ip", "value": "1.6.11.16", "reason": "manual \\"import\\"", "type": "ban", "duration": "1h"},
  {"Value": "1.2.3.4", "scenario": "é😀", "duration": null, "extra": {"value": "not this", "list": [{"value": 1}]}},
  {}
]`;
    expect(read(JsonParser, text)).toEqual([
      { scope: 'ip', value: '1.6.11.16', reason: 'manual "import"', type: 'ban', duration: '1h', at: '2:3' },
      { value: '1.2.3.4', scenario: 'é😀', at: '3:3' },
      { at: '4:3' },
    ]);
    expect(read(JsonParser, ' [] ')).toEqual([]);
    expect(read(JsonParser, '[{"value":"a","value":"b"}]')).toEqual([{ value: 'b', at: '1:2' }]);
  });

  it.each([
    ['', 'Cannot read f:1:1: expected a value, got the end of the file'],
    ['{"blah":"blah"}', 'Cannot read f:1:1: expected a list of decisions'],
    ['[1]', 'Cannot read f:1:2: expected a decision, which is an object'],
    ['[{"value":\n 1}]', 'Cannot read f:2:2: expected a text as "value"'],
    ['[{"duration": {"value": "1h"}}]', 'Cannot read f:1:15: expected a text as "duration"'],
    ['[{"value":"1.2.3.4"},]', 'Cannot read f:1:22: expected a value, got "]"'],
    ['[{"value":"1.2.3.4"}', 'Cannot read f:1:21: expected "," or a closing bracket, got the end of the file'],
    ['[] []', 'Cannot read f:1:4: expected the end of the file, got "["'],
    [`[{"value":"${'x'.repeat(70_000)}"}]`, 'one item may have 65536 bytes, got more'],
  ])('says where it is something else (%#)', (text, message) => {
    for (const pieceBytes of piecesFor(text))
      expect(messageOf(() => read(JsonParser, text, pieceBytes))).toContain(message);
  });

  it('may be one decision a line', () => {
    const text = '{"value":"1.2.3.4"}\r\n\n  {"value": "1.2.3.5", "type": "captcha"}';
    expect(read(JsonLinesParser, text)).toEqual([
      { value: '1.2.3.4', at: '1:1' },
      { value: '1.2.3.5', type: 'captcha', at: '3:3' },
    ]);
    expect(messageOf(() => read(JsonLinesParser, '{"value":"a"}\n\n{"value":'))).toBe(
      'Cannot read f:3:10: expected a value, got the end of the file',
    );
    expect(messageOf(() => read(JsonLinesParser, '{"value":"a"}\n[]'))).toBe(
      'Cannot read f:2:1: expected a decision, which is an object',
    );
  });

  it('gives what JSON.parse gives, however it comes', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 8 });
    const member = fc.option(text, { nil: undefined });
    const row = fc.record({
      value: text,
      duration: member,
      reason: member,
      scope: member,
      type: member,
      other: fc.jsonValue(),
    });
    fc.assert(
      fc.property(
        fc.array(row, { maxLength: 4 }),
        fc.integer({ min: 1, max: 40 }),
        fc.constantFrom(undefined, 2),
        (rows, pieceBytes, space) => {
          const told = rows.map(({ value, duration, reason, scope, type }) => ({
            value,
            duration,
            reason,
            scope,
            type,
          }));
          const expected = told.map((one) =>
            Object.fromEntries(Object.entries(one).filter(([, part]) => part !== undefined)),
          );
          const found = read(JsonParser, JSON.stringify(rows, undefined, space), pieceBytes);
          expect(found.map(said)).toEqual(expected);
          const lines = rows.map((one) => JSON.stringify(one)).join('\n');
          expect(read(JsonLinesParser, lines, pieceBytes).map(said)).toEqual(expected);
        },
      ),
    );
  });
});

describe('a row', () => {
  const DEFAULTS = { scenario: 'list', type: 'ban' };
  const rowOf = (said: Partial<Record<Field, string>>): FileRow => ({
    place: { line: 3, column: 1 },
    text: (field) => said[field],
    placeOf: (field) => ({ line: 3, column: 10 + FIELDS.indexOf(field) }),
  });

  it('has what it does not say from the defaults, and its scope from its value', () => {
    const of = (said: Partial<Record<Field, string>>) => decisionOf('f', rowOf(said), DEFAULTS);
    const rest = { type: 'ban', scenario: 'list', durationMs: undefined };
    expect(of({ value: '192.0.2.1' })).toEqual({ ...rest, scope: 'Ip', value: '192.0.2.1' });
    expect(of({ value: ' 192.0.2.0/24 ' })).toEqual({ ...rest, scope: 'Range', value: '192.0.2.0/24' });
    expect(of({ value: '192.0.2.1/32' })).toEqual({ ...rest, scope: 'Ip', value: '192.0.2.1' });
    expect(of({ value: '2001:db8::1/128' })).toEqual({ ...rest, scope: 'Ip', value: '2001:db8::1' });
    expect(of({ value: '2001:db8::/32' })).toEqual({ ...rest, scope: 'Range', value: '2001:db8::/32' });
    expect(of({ value: '192.0.2.1/32', scope: 'range' })).toEqual({ ...rest, scope: 'Range', value: '192.0.2.1/32' });
    expect(of({ value: '192.0.2.1', scope: '' })).toEqual({ ...rest, scope: 'Ip', value: '192.0.2.1' });
    expect(of({ value: 'CN', scope: 'COUNTRY' })).toEqual({ ...rest, scope: 'Country', value: 'CN' });
    expect(of({ value: 'alice', scope: 'username' })).toEqual({ ...rest, scope: 'username', value: 'alice' });
    const all = { value: 'x', scope: 's', type: 'captcha', reason: 'r', scenario: 'c', duration: '1d12h' };
    expect(of(all)).toEqual({ scope: 's', value: 'x', type: 'captcha', scenario: 'r', durationMs: 36 * 3_600_000 });
    expect(of({ ...all, reason: ' ' }).scenario).toBe('c');
  });

  it.each([
    [{}, 'Cannot read f:3:1: expected a decision with a value, got none'],
    [{ value: ' ' }, 'Cannot read f:3:1: expected a decision with a value, got none'],
    [
      { value: 'whatever' },
      'Cannot read f:3:15: expected an IPv4 or IPv6 address or network such as 192.0.2.1 or 2001:db8::/32, since no scope is given, got "whatever"',
    ],
    [
      { value: '1.2.3', scope: 'ip' },
      'Cannot read f:3:15: expected an IPv4 or IPv6 address or network such as 192.0.2.1 or 2001:db8::/32, got "1.2.3"',
    ],
    [
      { value: '1.2.3.4/33', scope: 'Range' },
      'Cannot read f:3:15: expected an IPv4 or IPv6 address or network such as 192.0.2.1 or 2001:db8::/32, got "1.2.3.4/33"',
    ],
    [{ value: '1.2.3.4', duration: '4' }, 'Cannot read f:3:10: expected a duration such as 4h, 90m or 7d, got "4"'],
  ])('is refused with its place: %j', (said, message) => {
    expect(messageOf(() => decisionOf('f', rowOf(said), DEFAULTS))).toBe(message);
  });
});

describe('a duration', () => {
  const H = 3_600_000;
  it.each([
    ['4h', 4 * H],
    ['1h30m', 1.5 * H],
    ['1d', 24 * H],
    ['2d3h', 51 * H],
    ['-1d2h', -26 * H],
    ['0', 0],
    ['', undefined],
    ['d', undefined],
    ['1.5d', undefined],
    ['1h1d', undefined],
    ['1d1d', undefined],
    ['1d-2h', undefined],
    ['--1h', undefined],
    ['+1h', undefined],
    ['1w', undefined],
    ['10', undefined],
    ['9999999999d', undefined],
  ])('%j is read as the local API reads it', (text, ms) => {
    expect(durationOf(text)).toBe(ms);
  });
});
