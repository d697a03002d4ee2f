import type { Route } from './route.ts';

const TEXT = { 'content-type': 'text/plain; charset=utf-8' };
const JSON_TYPE = { 'content-type': 'application/json' };

/** What the outside may ask about this process. */
export interface Health {
  /** Whether new clients should be sent here: there is data for every environment, and no stop is under way. */
  readonly ready: () => boolean;
  /** What `/status` answers, as JSON. */
  readonly status: () => object;
}

/**
 * `/health/live`: the event loop turns. `/health/ready`: send clients here, or (503) not. `/status`: what is served.
 *
 * @example
 * const routes = healthRoutes({ ready: () => true, status: () => ({ status: 'healthy' }) });
 * console.log(routes.map(({ path }) => path).join(' ')); // /health/live /health/ready /status
 */
export function healthRoutes({ ready, status }: Health): readonly Route[] {
  return [
    { methods: ['GET'], path: '/health/live', handle: (exchange) => exchange.reply(200, TEXT, 'live\n') },
    {
      methods: ['GET'],
      path: '/health/ready',
      handle: (exchange) => (ready() ? exchange.reply(200, TEXT, 'ready\n') : exchange.reply(503, TEXT, 'not ready\n')),
    },
    {
      methods: ['GET'],
      path: '/status',
      handle: (exchange) => exchange.reply(200, JSON_TYPE, JSON.stringify(status())),
    },
  ];
}
