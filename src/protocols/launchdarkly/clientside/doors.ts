import type { Exchange } from '../../../delivery/index.ts';
import { credentialOf, type EnvironmentInfo } from '../credentials.ts';
import type { Audience, Found } from '../directory.ts';
import { replyEmpty, replyRefusal } from '../replies.ts';
import { CorsExchange, corsHeaders, FDV2_HEADERS } from './cors.ts';
import type { ClientSideOptions } from './deps.ts';
import type { Asked } from './question.ts';

/** Whose key a path takes, and where it stands: `Authorization`, the path, or FDv2's choice of header and query. */
export type DoorKind = 'server' | 'mobile' | 'env-id' | 'fdv2';

/** Who has come in, through which answers leave with the headers that a browser needs. */
type Entered = Pick<Asked, 'exchange' | 'environment' | 'audience' | 'credential'>;

/** What stands before a path: nothing else is looked at before it is known who asks. */
export interface Door {
  readonly methods: readonly string[];
  /** Undefined: the request was answered. */
  enter(
    exchange: Exchange,
    params: Readonly<Record<string, string>>,
    directory: ClientSideOptions['directory'],
  ): Entered | undefined;
}

/** The door of a path. Where browsers come in, `OPTIONS` is one of its methods. */
export function doorOf(kind: DoorKind, methods: readonly string[]): Door {
  if (kind === 'server' || kind === 'mobile') {
    return {
      methods,
      enter: (exchange, _params, directory) => {
        const credential = credentialOf(exchange.header('authorization'));
        const found = directory.find(kind, credential, filterOf(exchange));
        return 'status' in found
          ? replyRefusal(exchange, found)
          : { exchange, environment: found.environment, audience: kind, credential };
      },
    };
  }
  const taken = [...methods, 'OPTIONS'];
  return { methods: taken, enter: kind === 'env-id' ? enterByPath(taken) : enterFdv2(taken) };
}

function enterByPath(methods: readonly string[]): Door['enter'] {
  return (plain, params, directory) => {
    const credential = params['envId'];
    const found = directory.find('client', credential, filterOf(plain));
    if ('status' in found) {
      // as the vendor's: of an environment that is not known it is not known either who may read of it
      return replyRefusal(new CorsExchange(plain, { 'access-control-allow-methods': methods.join(',') }), found);
    }
    const exchange = new CorsExchange(plain, termsOf(plain, found.environment.info, methods));
    return unlessOptions({ exchange, environment: found.environment, audience: 'client', credential });
  };
}

function enterFdv2(methods: readonly string[]): Door['enter'] {
  return (plain, _params, directory) => {
    const credential = credentialOf(plain.header('authorization')) ?? plain.query.get('auth') ?? undefined;
    const found: Found & { readonly audience: Audience } = directory.findPublic(credential, filterOf(plain));
    const info = 'status' in found ? {} : found.environment.info;
    const exchange = new CorsExchange(plain, termsOf(plain, info, methods, FDV2_HEADERS));
    // a preflight has no header of its own, so that the key may be one that is not seen here
    if (plain.method === 'OPTIONS') return replyOptions(exchange);
    if ('status' in found) return replyRefusal(exchange, found);
    return { exchange, environment: found.environment, audience: found.audience, credential };
  };
}

function unlessOptions(entered: Entered): Entered | undefined {
  return entered.exchange.method === 'OPTIONS' ? replyOptions(entered.exchange) : entered;
}

function replyOptions(exchange: Exchange): undefined {
  replyEmpty(exchange, 200);
  return undefined;
}

function termsOf(
  exchange: Exchange,
  info: Pick<EnvironmentInfo, 'allowedOrigins' | 'allowedHeaders'>,
  methods: readonly string[],
  more: readonly string[] = [],
): Record<string, string> {
  return corsHeaders({ origin: exchange.header('origin'), info, methods, more });
}

function filterOf(exchange: Exchange): string | undefined {
  return exchange.query.get('filter') ?? undefined;
}
