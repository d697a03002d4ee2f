import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashOfKey, parseKeyFile } from './keys.ts';

// echo -n s3cret | sha512sum
const HASH =
  '6d201beeefb589b08ef0672dac82353d0cbd9ad99e1642c83a1601f3d647bcca003257b5e8f31bdc1d73fbec84fb085c79d6e2677b7ff927e823a54e789140d9';

describe('a key', () => {
  it('is kept as SHA-512 in lower-case hex, without salt', () => {
    expect(hashOfKey('abc')).toBe(
      'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
    );
  });
});

describe('a file of keys', () => {
  it('has plain keys and hashes, comments and empty lines', () => {
    const text = `\uFEFF# web servers\nnginx: abc\n\n  caddy 2 :${HASH.toUpperCase()}\t\r\n# : not a key\nhaproxy@10.0.0.1: a:b=\n`;
    expect(parseKeyFile(text, 'keys.txt')).toEqual({
      keys: [
        { name: 'nginx', sha512: hashOfKey('abc') },
        { name: 'caddy 2', sha512: HASH },
        { name: 'haproxy@10.0.0.1', sha512: hashOfKey('a:b=') },
      ],
      problems: [],
    });
  });

  it.each([
    ['nginx abc', 1],
    [': abc', 1],
    ['nginx:', 1],
    ['a: b\nnginx: two words', 2],
    ['a: b\n\nb: c\na: d', 4],
  ])('%j is wrong in line %d', (text, line) => {
    const { problems } = parseKeyFile(text, 'keys.txt');
    expect(problems.map(({ severity, where }) => `${severity} ${where}`)).toEqual([`error keys.txt:${line}`]);
  });

  it('has at most 100,000 keys', () => {
    const lines = Array.from({ length: 100_001 }, (_, index) => `k${index}: ${HASH}`);
    expect(parseKeyFile(lines.slice(1).join('\n'), 'k').problems).toEqual([]);
    const { keys, problems } = parseKeyFile(`${lines.join('\n')}\nill\n`, 'k');
    expect(keys).toHaveLength(100_000);
    expect(problems).toEqual([
      { severity: 'error', where: 'k:100001', message: 'expected at most 100000 keys, got more' },
    ]);
  });

  it('never repeats what may be a key', () => {
    const { problems } = parseKeyFile('hunter2hunter2\nnginx: hunter2 hunter2\na: hunter2\na: hunter2\n', 'keys.txt');
    expect(problems).toHaveLength(3);
    expect(JSON.stringify(problems)).not.toContain('hunter2');
  });

  it('never throws, and knows every line of any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', ':', ' ', '\n', '#', '\r', 'é') }), (text) => {
        const { keys, problems } = parseKeyFile(text, 'k');
        const told = text.split('\n').filter((line) => line.trim() !== '' && !line.trim().startsWith('#'));
        const duplicates = problems.filter(({ message }) => message.includes('again')).length;
        expect(keys.length + problems.length - duplicates).toBe(told.length);
        expect(keys.every(({ sha512 }) => /^[0-9a-f]{128}$/.test(sha512))).toBe(true);
      }),
    );
  });
});
