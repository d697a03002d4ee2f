import { caughtUp, delivered, failed, lost, refused, requested, steppedBack } from '../protocols/launchdarkly/index.ts';
import { FLAGS, RELAY_8, RELAY_9 } from './catalog.ts';
import type { EnvironmentFigures, StreamCount } from './figures.ts';
import { BoundByName, type Collected, type NumberSeries, observed, OTHER, type Registry } from './instruments.ts';
import type { SharedMetrics } from './metrics-shared.ts';

/** Environments, and SDKs by name, that have series of their own. */
export const TENANTS_MAX = 500;
const SDKS_MAX = 64;

const FRONT = 'flags';

/** What is written to for one route of one environment. */
interface RouteSeries {
  readonly small: { readonly current: NumberSeries; readonly 'catch-up': NumberSeries };
  /** Bytes of the last full copy that was sent: what a catch-up spares. */
  fullBytes: number;
}

interface RequestSeries {
  readonly relay9: NumberSeries;
  readonly relay8: NumberSeries | undefined;
  /** Counted for streams only. */
  readonly newConnection: NumberSeries | undefined;
}

const STREAMS: ReadonlySet<string> = new Set(['/all', '/flags', '/sdk/stream']);
/** Streams of browsers and phones. */
const CLIENT_STREAM = /^\/(sdk\/stream\/eval|m?eval|m?ping)(\/|$)/;

function protocolOf(route: string): string {
  if (route.startsWith('/sdk/stream') || route.startsWith('/sdk/poll')) return 'fdv2';
  return route === '/sdk/flags' ? 'php' : 'fdv1';
}

/** How flags are measured. */
export interface FlagsMeasured {
  /** What stands before the names of version 8; absent: they are not wanted. */
  readonly prefix?: string;
  /** What an environment is called, by its name in facts. */
  readonly tenantOf: (name: string) => string;
}

/** Listens to the flags front. */
export function measureFlags(registry: Registry, shared: SharedMetrics, options: FlagsMeasured): () => void {
  const stops = [
    measureRequests(registry, options),
    ...measureDeliveries(registry, shared, options),
    ...measureFaults(registry, options),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function measureRequests(registry: Registry, { prefix, tenantOf }: FlagsMeasured): () => void {
  const relay9 = registry.number(RELAY_9.requests);
  const named = <Key extends keyof typeof RELAY_8>(key: Key): ReturnType<Registry['number']> | undefined =>
    prefix === undefined ? undefined : registry.number({ ...RELAY_8[key], name: `${prefix}_${RELAY_8[key].name}` });
  const relay8 = named('requests');
  const newConnections = named('newConnections');
  const bySdk = (environment: string, sdk: string): Map<string, RequestSeries> & { readonly make: Make } =>
    Object.assign(new Map<string, RequestSeries>(), {
      make: (route: string, method: string): RequestSeries => {
        const category = categoryOf(route);
        const isStream = STREAMS.has(route) || CLIENT_STREAM.test(route);
        // version 8 does not count what a browser asks before it asks
        const isCounted = method !== 'OPTIONS';
        return {
          relay9: relay9.bind(environment, route, method, sdk),
          relay8: isCounted ? relay8?.bind(environment, method, category, routeOf8(route), sdk) : undefined,
          newConnection: isCounted && isStream ? newConnections?.bind(environment, category, sdk) : undefined,
        };
      },
    });
  const bound = new BoundByName(TENANTS_MAX, (environment) => {
    const tenant = tenantOf(environment);
    return new BoundByName(SDKS_MAX, (sdk) => bySdk(tenant, sdk));
  });
  return requested.listen(({ environment, sdk, route, method }) => {
    const routes = bound.of(environment).of(sdk);
    // routes are ours, and so are the methods that they take: nothing to bound
    const asked = `${method} ${route}`;
    let series = routes.get(asked);
    if (series === undefined) routes.set(asked, (series = routes.make(route, method)));
    series.relay9.value++;
    if (series.relay8 !== undefined) series.relay8.value++;
    if (series.newConnection !== undefined) series.newConnection.value++;
  });
}

type Make = (route: string, method: string) => RequestSeries;

/** Who asks on a route, in the words of version 8. Phones share FDv2's routes for values with browsers: it has none of them. */
function categoryOf(route: string): 'server' | 'mobile' | 'browser' {
  if (/^\/(msdk|mobile|meval|mping)(\/|$)/.test(route)) return 'mobile';
  return route.includes(':envId') || route === IMAGE || /^\/sdk\/(stream|poll)\/eval/.test(route)
    ? 'browser'
    : 'server';
}

/** Here it takes the whole name of the file. */
const IMAGE = '/a/:file';

/** Version 8 writes `/sdk/flags/{key}` as `_sdk_flags_{key}`. */
function routeOf8(route: string): string {
  const named = route === IMAGE ? '/a/:envId.gif' : route;
  return named.replaceAll(/:(\w+)/g, '{$1}').replaceAll('/', '_');
}

function measureDeliveries(registry: Registry, shared: SharedMetrics, { tenantOf }: FlagsMeasured): (() => void)[] {
  const relayDeliveries = registry.number(RELAY_9.deliveries);
  const sheds = registry.number(RELAY_9.sheds);
  const upToDate = registry.number(RELAY_9.upToDate).bind('false');
  registry.number(RELAY_9.deadlineErrors);
  const sentCurrent = shared.sent.bind(FRONT, 'current', 'identity');
  const sentCatchUp = shared.sent.bind(FRONT, 'catch-up', 'identity');
  const saved = shared.saved.bind(FRONT);
  const tenants = new BoundByName(TENANTS_MAX, tenantOf);
  const routes = new BoundByName(TENANTS_MAX, (environment) => {
    const tenant = tenants.of(environment);
    return new BoundByName<RouteSeries>(STREAMS.size + 8, (route) => ({
      small: {
        current: shared.small.bind(FRONT, tenant, route, 'current'),
        'catch-up': shared.small.bind(FRONT, tenant, route, 'catch-up'),
      },
      fullBytes: 0,
    }));
  });
  return [
    caughtUp.listen(({ environment, route, changes, bytes }) => {
      const series = routes.of(environment).of(route);
      if (changes === 0) upToDate.value++;
      (changes === 0 ? series.small.current : series.small['catch-up']).value++;
      (changes === 0 ? sentCurrent : sentCatchUp).value += bytes;
      if (series.fullBytes > bytes) saved.value += series.fullBytes - bytes;
    }),
    delivered.listen((fact) => {
      const { environment, route, what, outcome, bytes } = fact;
      shared.delivered(FRONT, tenants.of(environment), fact);
      relayDeliveries.bind(protocolOf(route), outcome, String(outcome === 'capped')).value++;
      if (outcome !== 'completed') return;
      const series = routes.of(environment).of(route);
      if (what === 'full') series.fullBytes = bytes;
      else if (series.fullBytes > bytes) saved.value += series.fullBytes - bytes;
    }),
    refused.listen((fact) => {
      shared.refused(FRONT, tenants.of(fact.environment), fact);
      sheds.bind(STREAMS.has(fact.route) ? 'stream' : 'poll').value++;
    }),
  ];
}

function measureFaults(registry: Registry, { tenantOf }: FlagsMeasured): (() => void)[] {
  const lostStreams = registry.number(FLAGS.lost);
  const failedStreams = registry.number(FLAGS.failed);
  const stepsBack = registry.number(FLAGS.stepsBack);
  const tenants = new BoundByName(TENANTS_MAX, (environment) => {
    const tenant = tenantOf(environment);
    return { lost: lostStreams.bind(tenant), failed: failedStreams.bind(tenant), stepsBack: stepsBack.bind(tenant) };
  });
  return [
    lost.listen(({ environment }) => tenants.of(environment).lost.value++),
    failed.listen(({ environment }) => tenants.of(environment).failed.value++),
    steppedBack.listen(({ environment }) => tenants.of(environment).stepsBack.value++),
  ];
}

/** Environments as they stand, as many as have series of their own. */
export function* environmentMetrics(
  environments: readonly EnvironmentFigures[],
  prefix: string | undefined,
): Generator<Collected> {
  const shown = environments.slice(0, TENANTS_MAX);
  const each = (value: (it: EnvironmentFigures) => number | undefined): [string[], number][] =>
    shown.flatMap((environment) => {
      const number = value(environment);
      return number === undefined ? [] : [[[environment.name], number] as [string[], number]];
    });
  yield observed(
    FLAGS.streams,
    each(({ streams }) => streams.reduce((total, { count }) => total + count, 0)),
  );
  yield observed(
    FLAGS.items,
    each(({ items }) => items),
  );
  yield observed(
    FLAGS.size,
    each(({ bytes }) => bytes),
  );
  yield observed(
    FLAGS.ready,
    each(({ ready }) => Number(ready)),
  );
  yield observed(
    FLAGS.connected,
    each(({ connected }) => Number(connected)),
  );
  yield observed(
    FLAGS.changedAge,
    each(({ ageMs }) => (ageMs === undefined ? undefined : ageMs / 1000)),
  );
  if (prefix === undefined) return;
  yield observed(
    { ...RELAY_8.connections, name: `${prefix}_${RELAY_8.connections.name}` },
    shown.flatMap(({ name, streams }) =>
      bounded(streams).map(([category, sdk, count]) => [[name, category, sdk], count] as const),
    ),
  );
}

/** Whose streams they are, in the words of version 8. */
const CATEGORIES = { server: 'server', mobile: 'mobile', client: 'browser' } as const;

/** SDKs name themselves: those beyond the bound are summed, by category. */
function bounded(streams: readonly StreamCount[]): [category: string, sdk: string, count: number][] {
  const all = streams.toSorted((left, right) => right.count - left.count);
  const rest = new Map<string, number>();
  for (const { audience, count } of all.slice(SDKS_MAX)) {
    const category = CATEGORIES[audience];
    rest.set(category, (rest.get(category) ?? 0) + count);
  }
  return [
    ...all
      .slice(0, SDKS_MAX)
      .map(({ audience, sdk, count }) => [CATEGORIES[audience], sdk, count] as [string, string, number]),
    ...Array.from(rest, ([category, count]) => [category, OTHER, count] as [string, string, number]),
  ];
}
