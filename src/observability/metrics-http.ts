import { requested } from '../server/index.ts';
import { HTTP, LAPI } from './catalog.ts';
import { BoundByName, type HistogramSeries, type NumberSeries, type Registry } from './instruments.ts';

/** Methods that have series of their own: what a client makes up has not. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'REPORT']);
/** Routes are ours; there are not that many. */
const ROUTES_MAX = 200;
/** What the local API calls a path that it does not have. */
const NO_ROUTE = 'invalid-endpoint';
const LAPI_PREFIX = '/v1/';

interface MethodSeries {
  readonly byStatus: Map<number, HistogramSeries>;
  readonly lapi: { readonly requests: NumberSeries; readonly duration: HistogramSeries } | undefined;
}

/** Listens to the server. `lapi`: whether the local API's names are wanted. */
export function measureHttp(registry: Registry, lapi: boolean): () => void {
  const durations = registry.histogram(HTTP.duration);
  const requests = lapi ? registry.number(LAPI.routeRequests) : undefined;
  const lapiDurations = lapi ? registry.histogram(LAPI.duration) : undefined;
  const lapiOf = (route: string, method: string): MethodSeries['lapi'] => {
    const isUnknown = !route.startsWith('/');
    if (requests === undefined || lapiDurations === undefined) return undefined;
    if (!isUnknown && !route.startsWith(LAPI_PREFIX)) return undefined;
    return {
      requests: requests.bind(isUnknown ? NO_ROUTE : route, method),
      duration: lapiDurations.bind(isUnknown ? '' : route, method),
    };
  };
  const bound = new BoundByName(
    ROUTES_MAX,
    (route) =>
      new BoundByName<MethodSeries>(METHODS.size + 1, (method) => ({
        byStatus: new Map(),
        lapi: lapiOf(route, method),
      })),
  );
  return requested.listen(({ route, method, status, ms }) => {
    const name = METHODS.has(method) ? method : '_OTHER';
    const { byStatus, lapi: local } = bound.of(route).of(name);
    let duration = byStatus.get(status);
    if (duration === undefined) byStatus.set(status, (duration = durations.bind(name, route, String(status))));
    const seconds = ms / 1000;
    duration.record(seconds);
    if (local === undefined) return;
    local.requests.value++;
    local.duration.record(seconds);
  });
}
