import type { Exchange } from '../delivery/index.ts';
import { judge } from './expectations.ts';
import type { Route } from './route.ts';

const TEXT = { 'content-type': 'text/plain; charset=utf-8' };
const JSON_TYPE = { 'content-type': 'application/json' };

/** How one part of the whole is called by whoever asks about it: by one name, or by a project and a name in it. */
export interface StatusPath {
  readonly names: readonly string[];
  readonly filter: string | undefined;
}

/** What the outside may ask about this process. */
export interface Health {
  /** Whether new clients should be sent here: there is data for every environment, and no stop is under way. */
  readonly ready: () => boolean;
  /** What `/status` answers, as JSON. */
  readonly status: () => object;
  /** What `/status/…` answers: one part of it, or `unknown`, or `not yet` where the list of parts is not known. */
  readonly statusAt?: (path: StatusPath) => object | 'unknown' | 'not yet';
}

/** Names that stand in a status at one time or another: what a probe may expect something of. */
const MEMBERS: ReadonlySet<string> = new Set(
  [
    'environments status version clientVersion headgate decisions sources streams admission deliveries events evaluations',
    'sdkKey envId envKey envName projKey projName filterKey mobileKey expiringSdkKey',
    'connectionStatus dataStoreStatus bigSegmentStatus state stateSince lastError kind statusCode time',
    'database dbServer dbPrefix dbTable available potentiallyStale lastSynchronizedOn',
  ].flatMap((names) => names.split(' ')),
);

/**
 * `/health/live`: the event loop turns. `/health/ready`: send clients here, or (503) not. `/status`: what is served, and
 * `/status/…` one part of it; with `?expect=path=value`, whether it is as expected.
 *
 * @example
 * const routes = healthRoutes({ ready: () => true, status: () => ({ status: 'healthy' }) });
 * console.log(routes.map(({ path }) => path).join(' ')); // /health/live /health/ready /status
 */
export function healthRoutes({ ready, status, statusAt }: Health): readonly Route[] {
  return [
    { methods: ['GET'], path: '/health/live', handle: (exchange) => exchange.reply(200, TEXT, 'live\n') },
    {
      methods: ['GET'],
      path: '/health/ready',
      handle: (exchange) => (ready() ? exchange.reply(200, TEXT, 'ready\n') : exchange.reply(503, TEXT, 'not ready\n')),
    },
    { methods: ['GET'], path: '/status', handle: (exchange) => replyStatus(exchange, status()) },
    ...(statusAt === undefined ? [] : partRoutes(statusAt)),
  ];
}

function partRoutes(statusAt: NonNullable<Health['statusAt']>): Route[] {
  const paths = ['/status/:first', '/status/:first/:second'];
  return [...paths, ...paths.map((path) => `${path}/filters/:filter`)].map((path) => ({
    methods: ['GET'],
    path,
    handle(exchange, params) {
      const names = [params['first'], params['second']].filter((name) => name !== undefined);
      const found = statusAt({ names, filter: params['filter'] });
      if (found === 'unknown') exchange.reply(404, TEXT, 'no such environment\n');
      else if (found === 'not yet') exchange.reply(503, TEXT, 'the list of environments is not known yet\n');
      else replyStatus(exchange, found);
    },
  }));
}

function replyStatus(exchange: Exchange, document: object): void {
  const clauses = exchange.query.getAll('expect');
  if (clauses.length === 0) {
    exchange.reply(200, JSON_TYPE, JSON.stringify(document));
    return;
  }
  const { status, body } = judge(document, clauses, (name, parent) => parent === 'environments' || MEMBERS.has(name));
  exchange.reply(status, JSON_TYPE, JSON.stringify(body));
}
