import { lookup } from 'node:dns/promises';
import { BlockList, connect, isIP } from 'node:net';
import { HeadgateError, messageOf } from '../kernel/index.ts';

/** Where a herd goes: an address that was checked, and the name that stands in requests. */
export interface Target {
  /** The address that is connected to, whatever the name means by then. */
  readonly address: string;
  readonly port: number;
  readonly isTls: boolean;
  /** For the Host header, as the URL has it. */
  readonly host: string;
  /** For the certificate. Empty for an address, which has no name. */
  readonly serverName: string;
  /** The path that all paths stand under, without a slash at the end. */
  readonly base: string;
  /** As it may be shown: without user and query. */
  readonly shown: string;
}

/** What finding a target needs. */
export interface TargetOptions {
  /** What is asked for, for the message: `--admin` or the URL. */
  readonly name: string;
  readonly allowRemote: boolean;
  /** The addresses of a name; the system's own when left out. */
  readonly resolve?: (name: string) => Promise<readonly string[]>;
  /** Whether somebody answers there; a connection is tried when left out. */
  readonly answers?: (address: string, port: number) => Promise<boolean>;
}

const ANSWER_MS_MAX = 3000;

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Whether an address is of this machine alone, IPv4 in IPv6 included.
 *
 * @example
 * console.log(['127.8.8.8', '::ffff:127.0.0.1', '10.0.0.1', '::'].map(isLoopback)); // [ true, true, false, false ]
 */
export function isLoopback(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && loopback.check(address, family === 6 ? 'ipv6' : 'ipv4');
}

/**
 * Finds the address of a URL. A name may stand for several: every one must be of this machine unless others are allowed, and
 * the one that is answered is the one that was checked.
 *
 * @throws HeadgateError HG_OPTION when the URL is none, its name is unknown, or an address is not allowed.
 */
export async function findTarget(text: string, options: TargetOptions): Promise<Target> {
  const { name, allowRemote, resolve = addressesOf, answers = isAnswered } = options;
  const url = parse(text, name);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(host) === 0 ? await resolved(host, name, resolve) : [host];
  const remote = addresses.find((address) => !isLoopback(address));
  if (remote !== undefined && !allowRemote) {
    throw refused(
      name,
      `every address of ${host} must be of this machine (loopback) unless --allow-remote is given`,
      remote,
    );
  }
  const isTls = url.protocol === 'https:';
  const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port);
  return {
    address: await firstAnswered(addresses, port, answers),
    port,
    isTls,
    host: url.host,
    serverName: isIP(host) === 0 ? host : '',
    base: url.pathname.replace(/\/+$/, ''),
    shown: url.origin + url.pathname,
  };
}

function parse(text: string, name: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw refused(name, 'expected an http or https URL such as http://127.0.0.1:8030', withoutUser(text));
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw refused(
      name,
      'expected a URL without a user, a query and a fragment',
      withoutUser(url.origin + url.pathname),
    );
  }
  return url;
}

/** Whatever stands before an @ may be a password, in what is no URL as well. */
function withoutUser(text: string): string {
  return text.replace(/^(\w+:\/\/)?.*@/s, '$1...@').slice(0, 200);
}

async function resolved(
  host: string,
  name: string,
  resolve: (host: string) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  let addresses: readonly string[];
  try {
    addresses = await resolve(host);
  } catch (error) {
    throw refused(name, `the name cannot be resolved (${messageOf(error)})`, host);
  }
  if (addresses.length === 0) throw refused(name, 'the name has no address', host);
  return addresses;
}

async function addressesOf(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** The first at which somebody answers; the first of all when nobody does, so that the report says so. */
async function firstAnswered(
  addresses: readonly string[],
  port: number,
  answers: (address: string, port: number) => Promise<boolean>,
): Promise<string> {
  if (addresses.length > 1) {
    for (const address of addresses) if (await answers(address, port)) return address;
  }
  return addresses[0] ?? '';
}

async function isAnswered(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    const end = (answered: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answered);
    };
    const timer = setTimeout(end, ANSWER_MS_MAX, false);
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

function refused(name: string, cause: string, got: string): HeadgateError {
  return new HeadgateError('HG_OPTION', `Cannot use ${name}: ${cause}, got ${got}`);
}
