import { readFile } from 'node:fs/promises';
import { Agent as HttpAgent, type ClientRequest, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import {
  checkServerIdentity,
  createSecureContext,
  type PeerCertificate,
  rootCertificates,
  type SecureContext,
} from 'node:tls';
import { type Clock, HeadgateError, messageOf, systemClock } from '../kernel/index.ts';
import { Exchange, type OutboundReply, type OutboundRequest } from './exchange.ts';
import { Proxied, Tunnels } from './proxies.ts';
import { parseHttpUrl } from './url.ts';

/** Settings of {@link Outbound.open}. */
export interface OutboundOptions {
  readonly userAgent: string;
  /** Files in PEM form whose certificates are trusted besides the usual ones. */
  readonly caPaths?: readonly string[];
  /** An HTTP proxy for every request; user and password are sent by the Basic scheme (RFC 7617). */
  readonly proxy?: { readonly url: string; readonly user?: string; readonly password?: string };
  /** Name, TCP, tunnel and TLS together, in milliseconds; 10,000 when not given. */
  readonly connectTimeoutMs?: number;
  readonly clock?: Clock;
}

const CONNECT_MS_MAX = 10_000;
/** Connections that wait for their next request, of each host. A stream holds its connection for itself. */
const FREE_SOCKETS_MAX = 16;

/**
 * HTTP/1.1 to the services that Headgate is a client of: kept connections, a proxy where one is set, certificates of one's own,
 * and a bound on every wait. Redirects are not followed: a credential goes where it was meant to go.
 *
 * @example
 * ```ts no-run
 * const outbound = await Outbound.open({ userAgent: 'Headgate/1.0' });
 * const reply = await outbound.send({ method: 'GET', url: urlUnder('https://stream.example', '/all') });
 * console.log(reply.status, await reply.text(1024));
 * outbound.close();
 * ```
 */
export class Outbound {
  readonly #userAgent: string;
  readonly #clock: Clock;
  readonly #connectTimeoutMs: number;
  readonly #secureContext: SecureContext | undefined;
  readonly #http: HttpAgent;
  readonly #https: HttpAgent;
  readonly #underWay = new Set<Exchange>();
  #closed = false;

  private constructor(options: OutboundOptions, ca: readonly string[]) {
    this.#userAgent = options.userAgent;
    this.#clock = options.clock ?? systemClock;
    this.#connectTimeoutMs = options.connectTimeoutMs ?? CONNECT_MS_MAX;
    // Made once: a context of its own for each connection reads all the roots again, which takes tens of milliseconds.
    this.#secureContext = ca.length === 0 ? undefined : contextOf(ca);
    const pool = { keepAlive: true, maxFreeSockets: FREE_SOCKETS_MAX };
    const trust = this.#secureContext === undefined ? {} : { secureContext: this.#secureContext };
    const proxy = options.proxy === undefined ? undefined : proxyUrl(options.proxy);
    this.#http = proxy === undefined ? new HttpAgent(pool) : new Proxied(proxy, { ...pool, ...trust });
    this.#https =
      proxy === undefined ? new HttpsAgent({ ...pool, ...trust }) : new Tunnels(proxy, { ...pool, ...trust });
  }

  /**
   * Reads the certificates.
   *
   * @throws HeadgateError HG_OPTION when a file cannot be read or holds no certificate, or the proxy's URL is none.
   */
  static async open(options: OutboundOptions): Promise<Outbound> {
    const ca = await Promise.all((options.caPaths ?? []).map(readCertificates));
    return new Outbound(options, ca);
  }

  /**
   * Sends a request and resolves when the head of the answer is here, whatever its status.
   *
   * A kept connection that the other side closed in the same moment is no failure: a GET is then sent once more, on another.
   *
   * @throws HeadgateError HG_UPSTREAM when there is no answer, or the request was given up.
   */
  async send(request: OutboundRequest): Promise<OutboundReply> {
    const exchange = this.#exchange(request);
    try {
      return await exchange.run();
    } catch (thrown) {
      if (!exchange.mayRepeat || this.#closed) throw thrown;
      return await this.#exchange(request).run();
    }
  }

  /** Gives up every request and closes every connection. */
  close(): void {
    this.#closed = true;
    for (const exchange of this.#underWay) exchange.stop('it was given up');
    this.#http.destroy();
    this.#https.destroy();
  }

  #exchange(request: OutboundRequest): Exchange {
    const exchange = new Exchange({
      request,
      clock: this.#clock,
      connectTimeoutMs: this.#connectTimeoutMs,
      send: (signal) => this.#send(request, signal),
      ended: (over) => this.#underWay.delete(over),
    });
    this.#underWay.add(exchange);
    return exchange;
  }

  #send({ method, url, headers, body }: OutboundRequest, signal: AbortSignal): ClientRequest {
    if (this.#closed) throw new Error('it was stopped');
    const isSecure = url.protocol === 'https:';
    const options = {
      method,
      agent: isSecure ? this.#https : this.#http,
      headers: {
        'user-agent': this.#userAgent,
        'accept-encoding': 'gzip',
        ...(body === undefined ? {} : { 'content-length': String(body.byteLength) }),
        ...headers,
      },
      stopSignal: signal,
    };
    if (!isSecure) return httpRequest(url, options).end(body);
    // An agent for a proxy takes what it secures a connection with from the request, and forgets whom it was for when that is an address.
    const trust = {
      checkServerIdentity: (_: string, certificate: PeerCertificate) =>
        checkServerIdentity(url.hostname.replace(/^\[|\]$/g, ''), certificate),
      ...(this.#secureContext === undefined ? {} : { secureContext: this.#secureContext }),
    };
    return httpsRequest(url, { ...options, ...trust }).end(body);
  }
}

function proxyUrl({ url, user, password }: NonNullable<OutboundOptions['proxy']>): URL {
  const parsed = parseHttpUrl('use a proxy', 'its address', url);
  if (user !== undefined) parsed.username = encodeURIComponent(user);
  if (password !== undefined) parsed.password = encodeURIComponent(password);
  return parsed;
}

async function readCertificates(path: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (thrown) {
    throw new HeadgateError('HG_OPTION', `Cannot trust ${path}: ${messageOf(thrown)}`, { cause: thrown });
  }
  if (!text.includes('-----BEGIN CERTIFICATE-----')) {
    throw new HeadgateError('HG_OPTION', `Cannot trust ${path}: it must hold certificates in PEM form, got none`);
  }
  return text;
}

function contextOf(ca: readonly string[]): SecureContext {
  try {
    return createSecureContext({ ca: [...rootCertificates, ...ca] });
  } catch (thrown) {
    throw new HeadgateError('HG_OPTION', `Cannot trust the certificates of caPaths: ${messageOf(thrown)}`, {
      cause: thrown,
    });
  }
}
