import { isIP } from 'node:net';
import { type AddressRange, parseAddress } from '../../dataset/decisions/index.ts';
import type { Exchange } from '../../delivery/index.ts';
import { HeadgateError } from '../../kernel/index.ts';

/** Where a request comes from. */
export interface Origin {
  /** The client's own address, as far as the proxies in between are believed. */
  readonly address: string;
  /** Whether a proxy said so: then the connection is the proxy's, and says nothing about the client. */
  readonly forwarded: boolean;
}

/**
 * Finds the address of a client: that of the connection, or behind trusted proxies the rightmost address in
 * X-Forwarded-For that is not one of theirs; X-Real-IP when there is none.
 */
export class Origins {
  readonly #trusted: readonly AddressRange[];

  /** @param trusted - addresses and networks; HG_OPTION for anything else. */
  constructor(trusted: readonly string[]) {
    this.#trusted = trusted.map((text) => {
      const range = parseAddress(text);
      if (range === undefined) {
        throw new HeadgateError('HG_OPTION', `Cannot trust a proxy: expected an address or a network, got ${text}`);
      }
      return range;
    });
  }

  of(exchange: Pick<Exchange, 'remoteAddress' | 'header'>): Origin {
    const address = plainAddress(exchange.remoteAddress);
    if (this.#trusted.length === 0 || !this.#isTrusted(address)) return { address, forwarded: false };
    const forwarded = this.#read(exchange.header('x-forwarded-for')) ?? this.#read(exchange.header('x-real-ip'));
    return { address: forwarded ?? address, forwarded: true };
  }

  /** Undefined as well when something between here and there is no address. */
  #read(header: string | undefined): string | undefined {
    if (header === undefined) return undefined;
    const hops = header.split(',');
    for (let at = hops.length - 1; at >= 0; at--) {
      const hop = (hops[at] ?? '').trim();
      if (isIP(hop) === 0) return undefined;
      const address = plainAddress(hop);
      if (at === 0 || !this.#isTrusted(address)) return address;
    }
    return undefined;
  }

  #isTrusted(address: string): boolean {
    const range = parseAddress(address);
    return range !== undefined && this.#trusted.some((network) => contains(network, range));
  }
}

/** IPv4 as IPv4, also on a socket that listens for both; a Unix socket is this machine. */
function plainAddress(address: string): string {
  if (address === '') return '127.0.0.1';
  const lower = address.toLowerCase();
  return lower.startsWith('::ffff:') && lower.includes('.') ? lower.slice('::ffff:'.length) : lower;
}

function contains(network: AddressRange, range: AddressRange): boolean {
  if (network.family !== range.family || network.prefix > range.prefix) return false;
  return network.words.every((word, at) => {
    const bits = Math.min(32, Math.max(0, network.prefix - 32 * at));
    // a shift by 32 is one by 0
    const mask = bits === 0 ? 0 : (-1 << (32 - bits)) >>> 0;
    return ((range.words[at] ?? 0) & mask) >>> 0 === (word & mask) >>> 0;
  });
}

/** A bouncer's kind and version by its User-Agent, `type/version`. */
export function agentOf(userAgent: string | undefined): string {
  return userAgent === undefined || userAgent === '' ? 'N/A' : userAgent.slice(0, AGENT_LENGTH_MAX);
}

/** It stands in log lines. */
const AGENT_LENGTH_MAX = 100;

/** The query of a request as it was sent, without the question mark. */
export function searchOf(target: string): string {
  const mark = target.indexOf('?');
  return mark < 0 ? '' : target.slice(mark + 1);
}
