import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { elementsOf } from './array-scan.ts';

async function split(text: string, partsMax = 1000): Promise<string[] | undefined> {
  const bytes = Buffer.from(text);
  const found = await elementsOf(bytes, partsMax);
  if (found === undefined) return undefined;
  const parts: string[] = [];
  for (let at = 0; at < found.ends.length; at += 2) {
    parts.push(bytes.subarray(found.ends[at], found.ends[at + 1]).toString());
  }
  return parts;
}

function isArray(text: string): boolean {
  try {
    return Array.isArray(JSON.parse(text));
  } catch {
    return false;
  }
}

describe('the elements of a JSON array', () => {
  it('are found as they stand in the text', async () => {
    expect(await split(' [ {"a":[1,2]} , "x\\"],[" ,-1.5e+3,null , [] ] ')).toEqual([
      '{"a":[1,2]}',
      '"x\\"],["',
      '-1.5e+3',
      'null',
      '[]',
    ]);
    expect(await split('[]')).toEqual([]);
  });

  it('are counted beyond those whose place is kept', async () => {
    expect(await elementsOf(Buffer.from('[1,[2],3]'), 2)).toEqual({ count: 3, ends: [1, 2, 3, 6] });
  });

  it('join to an array that means the same', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), fc.nat(3), async (value, space) => {
        const parts = await split(JSON.stringify(value, undefined, space));
        expect(JSON.parse(`[${parts?.join(',')}]`)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('are those of what JSON.parse takes, and of nothing else', async () => {
    const pieces = [
      '[',
      ']',
      '{',
      '}',
      ',',
      ':',
      '"',
      '"a"',
      '\\',
      '\\u00e9',
      '1',
      '-',
      '0',
      '.',
      'e',
      'true',
      'nul',
      ' ',
      '\n',
      'é',
      '\u0001',
    ];
    const texts = fc.oneof(
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((parts) => `[${parts.join('')}]`),
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((parts) => parts.join('')),
    );
    await fc.assert(
      fc.asyncProperty(texts, async (text) => {
        expect((await split(text)) !== undefined).toBe(isArray(text));
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    '',
    '{}',
    '1',
    '[1',
    '[1]]',
    '[1] x',
    '[01]',
    '[1,]',
    '[{"a":1,}]',
    '["\\x"]',
    '["\\u12g4"]',
    '["a',
    '[{1:2}]',
  ])('are none of %s', async (text) => {
    expect(await split(text)).toBeUndefined();
  });

  it('are not looked for deeper than a parser could follow, nor in what is not UTF-8', async () => {
    expect(await split('['.repeat(512) + ']'.repeat(512))).toHaveLength(1);
    expect(await split('['.repeat(513) + ']'.repeat(513))).toBeUndefined();
    expect(await elementsOf(Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d]), 1)).toBeUndefined();
  });

  // Fails without the pause: the whole body would be looked at in one turn.
  it('leave the event loop free while they are looked for', async () => {
    const bytes = Buffer.from(`[${'{"key":"0123456789","value":[true,null,1]},'.repeat(200_000)}1]`);
    let turns = 0;
    let looking = true;
    const count = (): void => {
      turns++;
      if (looking) setImmediate(count);
    };
    setImmediate(count);
    expect((await elementsOf(bytes, 0))?.count).toBe(200_001);
    looking = false;
    expect(turns).toBeGreaterThan(2);
  });
});
