import type { ImportedDecision } from './lapi.ts';

const SCENARIOS = [
  'crowdsecurity/ssh-bf',
  'crowdsecurity/ssh-slow-bf',
  'crowdsecurity/http-probing',
  'crowdsecurity/http-crawl-non_statics',
  'crowdsecurity/http-bad-user-agent',
  'crowdsecurity/http-path-traversal-probing',
  'crowdsecurity/http-backdoors-attempts',
  'crowdsecurity/apache_log4j2_cve-2021-44228',
  'crowdsecurity/http-wordpress-scan',
  'crowdsecurity/thinkphp-cve-2018-20062',
  'crowdsecurity/CVE-2022-26134',
  'crowdsecurity/postfix-spam',
  'http:exploit',
  'http:bruteforce',
  'firehol_cruzit_web_attacks',
  'tor-exit-nodes',
];
const HOURS = { from: 30, to: 168 };
/** Addresses from 12.0.0.0 on are random, those of 11.0.0.0/8 follow one another: `hitsOf` knows them. */
const SEQUENTIAL = 11 << 24;
const RANDOM = { from: 12 * 2 ** 24, to: 224 * 2 ** 24 };

/** Random numbers that are the same for the same seed, on every machine (mulberry32). */
class Numbers {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** One of `from` … `to - 1`. */
  between(from: number, to: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    const share = ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    return from + Math.floor(share * (to - from));
  }
}

/** An IPv4 address from its number. */
function ipv4Of(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.');
}

/** Three in a hundred are captchas. A value has one type whatever the seed: a bouncer that holds one type for each is content. */
function typeOf(value: string): string {
  let sum = 0;
  for (let at = 0; at < value.length; at++) sum = (Math.imul(sum, 31) + value.charCodeAt(at)) >>> 0;
  return sum % 100 < 3 ? 'captcha' : 'ban';
}

/**
 * As many different decisions as asked for, of the kinds that a community blocklist has: nine in ten single IPv4 addresses,
 * some IPv6 addresses, some networks, a few captchas. The same seed gives the same decisions. Every value is written in the
 * one form that all programs write it in.
 */
export function decisionsOf({ count, seed = 42 }: { count: number; seed?: number }): ImportedDecision[] {
  const numbers = new Numbers(seed);
  const found = new Map<string, ImportedDecision>();
  const add = (scope: string, value: string): void => {
    if (found.has(value)) return;
    const duration = `${numbers.between(HOURS.from, HOURS.to + 1)}h`;
    const reason = SCENARIOS[numbers.between(0, SCENARIOS.length)] ?? '';
    found.set(value, { duration, reason, scope, type: typeOf(value), value });
  };
  for (let at = 0; at < Math.floor(count / 10); at++) add('ip', ipv4Of(SEQUENTIAL + 2 * at));
  const group = (): string => numbers.between(1, 65_536).toString(16);
  while (found.size < count) {
    const share = numbers.between(0, 100);
    const address = numbers.between(RANDOM.from, RANDOM.to);
    if (share < 95) add('ip', ipv4Of(address));
    else if (share < 98) add('ip', `2001:${group()}:${group()}:${group()}:${group()}::${group()}`);
    else add('range', `${ipv4Of(address - (address % 256))}/24`);
  }
  return [...found.values()];
}

/** Addresses of which every second is in `decisionsOf({ count })`, in a mixed order, none twice; at most a fifth of `count`. */
export function halfHits({ count, of }: { count: number; of: number }): string[] {
  const numbers = new Numbers(7);
  const size = Math.min(of, 2 * Math.floor(count / 10));
  const addresses = Array.from({ length: size }, (_, at) => ipv4Of(SEQUENTIAL + at));
  for (let at = addresses.length - 1; at > 0; at--) {
    const other = numbers.between(0, at + 1);
    [addresses[at], addresses[other]] = [addresses[other] ?? '', addresses[at] ?? ''];
  }
  return addresses;
}
