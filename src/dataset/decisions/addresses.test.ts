import { BlockList } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { containsRange, parseAddress } from './addresses.ts';
import type { AddressRange } from './types.ts';

const v4 = (word: number, prefix: number): AddressRange => ({ family: 4, words: [word], prefix });
const v6 = (words: number[], prefix: number): AddressRange => ({ family: 6, words, prefix });

const READ: readonly (readonly [string, AddressRange])[] = [
  ['0.0.0.0', v4(0, 32)],
  ['192.0.2.1', v4(0xc000_0201, 32)],
  ['255.255.255.255', v4(0xffff_ffff, 32)],
  ['10.1.2.3/8', v4(0x0a00_0000, 8)],
  ['10.1.2.3/0', v4(0, 0)],
  ['10.1.2.3/31', v4(0x0a01_0202, 31)],
  ['::', v6([0, 0, 0, 0], 128)],
  ['::1', v6([0, 0, 0, 1], 128)],
  ['1::', v6([0x1_0000, 0, 0, 0], 128)],
  ['2001:db8::1', v6([0x2001_0db8, 0, 0, 1], 128)],
  ['2001:DB8::/32', v6([0x2001_0db8, 0, 0, 0], 32)],
  ['2001:db8:ffff:ffff::/49', v6([0x2001_0db8, 0xffff_8000, 0, 0], 49)],
  ['1:2:3:4:5:6:7:8', v6([0x1_0002, 0x3_0004, 0x5_0006, 0x7_0008], 128)],
  ['1:2:3:4:5:6:7::', v6([0x1_0002, 0x3_0004, 0x5_0006, 0x7_0000], 128)],
  ['::2:3:4:5:6:7:8', v6([0x0_0002, 0x3_0004, 0x5_0006, 0x7_0008], 128)],
  ['1:2:3:4:5:6:192.0.2.1', v6([0x1_0002, 0x3_0004, 0x5_0006, 0xc000_0201], 128)],
  ['64:ff9b::192.0.2.1', v6([0x64_ff9b, 0, 0, 0xc000_0201], 128)],
  ['::192.0.2.1', v6([0, 0, 0, 0xc000_0201], 128)],
  // IPv4 inside IPv6 is IPv4
  ['::ffff:192.0.2.1', v4(0xc000_0201, 32)],
  ['::FFFF:c000:201', v4(0xc000_0201, 32)],
  ['0:0:0:0:0:ffff:192.0.2.1', v4(0xc000_0201, 32)],
  ['::ffff:192.0.2.1/120', v4(0xc000_0200, 24)],
  ['::ffff:192.0.2.1/95', v6([0, 0, 0xfffe, 0], 95)],
];

const NOT_READ: readonly string[] = [
  '',
  '1',
  '1.2.3',
  '1.2.3.4.5',
  '1.2.3.256',
  '1.2.3.04',
  '1.2.3.1000',
  '1..2.3',
  '.1.2.3',
  '1.2.3.',
  ' 1.2.3.4',
  '1.2.3.4 ',
  '1.2.3.4/',
  '1.2.3.4/33',
  '1.2.3.4/08',
  '1.2.3.4/-1',
  '1.2.3.4/8/8',
  '1.2.3.a',
  '+1.2.3.4',
  '0x1.2.3.4',
  ':',
  ':::',
  '1:',
  ':1',
  '1:2:3:4:5:6:7',
  '1:2:3:4:5:6:7:8:9',
  '1:2:3:4:5:6:7:8::',
  '::1:2:3:4:5:6:7:8',
  '1::2::3',
  '12345::',
  'g::',
  '::1/129',
  '::1/0128',
  'fe80::1%eth0',
  '192.0.2.1::',
  '::192.0.2.1:1',
  '1:2:3:4:5:6:7:192.0.2.1',
  '1:2:3:4:5:192.0.2.1',
  '::ffff:192.0.2.256',
  '[::1]',
  'example.org',
  '１.2.3.4',
  `1.2.3.4${' '.repeat(60)}`,
  `${'0000:'.repeat(9)}1.2.3.4`,
];

describe('parseAddress', () => {
  it.each(READ)('reads %s', (text, range) => {
    expect(parseAddress(text)).toEqual(range);
  });

  it.each(NOT_READ)('does not take %j', (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  it('reads any address in any of its spellings', () => {
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        const word = text.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
        expect(parseAddress(text)).toEqual(v4(word, 32));
        expect(parseAddress(`::ffff:${text}`)).toEqual(v4(word, 32));
      }),
    );
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        // the URL parser has a reader of its own, and writes one spelling
        const canonical = new URL(`http://[${text}]`).hostname.slice(1, -1);
        expect(parseAddress(text)).toBeDefined();
        expect(parseAddress(text)).toEqual(parseAddress(canonical));
      }),
    );
  });
});

/** Few bits, so that networks meet. */
const network = fc
  .record({ v6: fc.boolean(), bits: fc.nat(15), prefix: fc.nat(128) })
  .map(({ v6: long, bits, prefix }) =>
    long
      ? { text: `2001:db8:${bits.toString(16)}::${bits.toString(16)}`, prefix }
      : { text: `10.${bits}.0.${bits}`, prefix: prefix % 33 },
  );

describe('containsRange', () => {
  it('says what node:net says of an address in a network', () => {
    fc.assert(
      fc.property(network, network, (outer, inner) => {
        const range = parseAddress(`${outer.text}/${outer.prefix}`) as AddressRange;
        const address = parseAddress(inner.text) as AddressRange;
        const list = new BlockList();
        list.addSubnet(outer.text, outer.prefix, range.family === 4 ? 'ipv4' : 'ipv6');
        const within = list.check(inner.text, address.family === 4 ? 'ipv4' : 'ipv6');
        expect(containsRange(range, address)).toBe(range.family === address.family && within);
      }),
    );
  });

  it('takes a network for a part of another when its first address is and it is no wider', () => {
    const range = (text: string): AddressRange => parseAddress(text) as AddressRange;
    expect(containsRange(range('10.0.0.0/8'), range('10.1.0.0/16'))).toBe(true);
    expect(containsRange(range('10.0.0.0/8'), range('10.0.0.0/8'))).toBe(true);
    expect(containsRange(range('10.1.0.0/16'), range('10.0.0.0/8'))).toBe(false);
    expect(containsRange(range('10.0.0.0/16'), range('10.0.0.0/8'))).toBe(false);
    expect(containsRange(range('::/0'), range('10.0.0.0/8'))).toBe(false);
  });
});
