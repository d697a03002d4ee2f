import type { Channel, Exchange, ReplyHeaders } from '../../../delivery/index.ts';
import type { EnvironmentInfo } from '../credentials.ts';

const ALLOWED_HEADERS =
  'Cache-Control,Content-Type,Content-Length,Accept-Encoding,X-LaunchDarkly-User-Agent,X-LaunchDarkly-Payload-ID,' +
  'X-LaunchDarkly-Wrapper,X-LaunchDarkly-Event-Schema,X-LaunchDarkly-Tags';

/** FDv2 may have its key and its position in headers; neither may be sent from another origin unless it is allowed. */
export const FDV2_HEADERS: readonly string[] = ['Authorization', 'If-None-Match', 'Last-Event-ID'];

/**
 * What a page may read besides the body. `Date` is the vendor's; without the others a page could not tell when to come back,
 * nor that it is to go back to the first protocol.
 */
const EXPOSED = 'Date,ETag,Retry-After,X-LD-FD-Fallback,X-LD-FD-Fallback-TTL';

/** Under which terms a browser may read an answer. */
export interface CorsTerms {
  /** As sent with the request; absent where it has none. */
  readonly origin: string | undefined;
  readonly info: Pick<EnvironmentInfo, 'allowedOrigins' | 'allowedHeaders'>;
  readonly methods: readonly string[];
  /** Headers of requests beyond those that all routes take. */
  readonly more?: readonly string[];
}

/** The headers that say so. */
export function corsHeaders({ origin, info, methods, more = [] }: CorsTerms): Record<string, string> {
  return {
    'access-control-allow-credentials': 'false',
    'access-control-allow-headers': [ALLOWED_HEADERS, ...more, ...(info.allowedHeaders ?? [])].join(','),
    'access-control-allow-methods': methods.join(','),
    'access-control-allow-origin': allowedOrigin(origin, info.allowedOrigins ?? []),
    'access-control-expose-headers': EXPOSED,
    'access-control-max-age': '300',
  };
}

/** Where none of those allowed matches, the first is named: the browser refuses then, and says which would be right. */
function allowedOrigin(origin: string | undefined, allowed: readonly string[]): string {
  const first = allowed[0];
  if (first === undefined) return origin ?? '*';
  return origin !== undefined && allowed.includes(origin) ? origin : first;
}

/** An exchange whose every answer, refusals included, carries some headers; those of the answer itself win. */
export class CorsExchange implements Exchange {
  readonly #exchange: Exchange;
  readonly #headers: Record<string, string>;

  constructor(exchange: Exchange, headers: Record<string, string>) {
    this.#exchange = exchange;
    this.#headers = headers;
  }

  get method(): string {
    return this.#exchange.method;
  }

  get path(): string {
    return this.#exchange.path;
  }

  get target(): string {
    return this.#exchange.target;
  }

  get query(): URLSearchParams {
    return this.#exchange.query;
  }

  get remoteAddress(): string {
    return this.#exchange.remoteAddress;
  }

  get connection(): object {
    return this.#exchange.connection;
  }

  get peer(): Exchange['peer'] {
    return this.#exchange.peer;
  }

  get httpVersion(): Exchange['httpVersion'] {
    return this.#exchange.httpVersion;
  }

  get closed(): boolean {
    return this.#exchange.closed;
  }

  get answered(): boolean {
    return this.#exchange.answered;
  }

  header(name: string): string | undefined {
    return this.#exchange.header(name);
  }

  onClose(listener: (complete: boolean) => void): void {
    this.#exchange.onClose(listener);
  }

  offClose(listener: (complete: boolean) => void): void {
    this.#exchange.offClose(listener);
  }

  onReceived(listener: (received: boolean) => void): void {
    this.#exchange.onReceived(listener);
  }

  onTurn(listener: () => void): void {
    this.#exchange.onTurn(listener);
  }

  body(bytesMax: number, onPart?: (bytes: number) => boolean): Promise<Buffer> {
    return this.#exchange.body(bytesMax, onPart);
  }

  reply(status: number, headers: ReplyHeaders, body?: string | Uint8Array): void {
    this.#exchange.reply(status, this.#with(headers), body);
  }

  open(status: number, headers: ReplyHeaders): Channel {
    return this.#exchange.open(status, this.#with(headers));
  }

  /** What a refusal exposes is part of what is exposed anyhow. */
  #with(headers: ReplyHeaders): Record<string, string> {
    const all = { ...this.#headers, ...headers };
    const exposed = this.#headers['access-control-expose-headers'];
    if (exposed !== undefined) all['access-control-expose-headers'] = exposed;
    return all;
  }
}
