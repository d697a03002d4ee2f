import { describe, expect, it } from 'vitest';
import { bytesSource, catchUpSource } from './catch-up.ts';

async function take(source: ReturnType<typeof bytesSource>): Promise<string[]> {
  const groups: string[] = [];
  for (let group = await source.next(); group !== undefined; group = await source.next()) {
    groups.push(Buffer.concat(group).toString());
  }
  return groups;
}

describe('a large catch-up', () => {
  it('is encoded while it is sent, 64 KiB at a time, and no part before it is asked for', async () => {
    let made = 0;
    function* parts(): Iterable<string> {
      for (; made < 10; made++) yield String(made).repeat(30_000);
    }
    const source = catchUpSource(parts());
    expect(made).toBe(0);
    await source.next();
    expect(made).toBe(2);
    const rest = await take(source);
    expect(rest.map((text) => text.length)).toEqual([90_000, 90_000, 30_000]);
    expect(rest.join('')).toBe(Array.from({ length: 7 }, (_, at) => String(at + 3).repeat(30_000)).join(''));
  });

  it('may be of nothing', async () => {
    expect(await take(catchUpSource([]))).toEqual([]);
  });

  it('keeps characters of several bytes whole', async () => {
    const text = '€'.repeat(50_000);
    expect((await take(catchUpSource([text, text]))).join('')).toBe(text + text);
  });
});

describe('bytes that exist already', () => {
  it('are given once, as they are', async () => {
    const bytes = Buffer.from('x');
    const source = bytesSource(bytes);
    expect(source.bytes).toBe(1);
    expect(await source.next()).toEqual([bytes]);
    expect(await source.next()).toBeUndefined();
  });
});
