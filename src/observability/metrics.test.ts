import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { Limiter } from '../admission/index.ts';
import { pagesEncoded } from '../dataset/index.ts';
import { Deliveries } from '../delivery/index.ts';
import { FakeClock } from '../kernel/index.ts';
import * as decisions from '../protocols/crowdsec/index.ts';
import * as flags from '../protocols/launchdarkly/index.ts';
import { requested } from '../server/index.ts';
import { CATALOG } from './catalog.ts';
import type { Figures, FlagFigures } from './figures.ts';
import { type Metrics, type MetricsOptions, openMetrics } from './metrics.ts';
import { prometheusName } from './prometheus.ts';

const CLIENT = { environment: 'env-1', route: '/all', sdk: 'GoClient', remoteAddress: '192.0.2.7' };
const BOUNCER = { bouncer: 'nginx-1', agent: 'nginx/v1', route: '/v1/decisions/stream', remoteAddress: '192.0.2.8' };
const DELIVERED = { waitedMs: 20, encoding: 'gzip', bytes: 1000, ms: 400, parkedMs: 0 } as const;
const REFUSED = { reason: 'timeout', early: false, waitedMs: 2000, retryAfterSeconds: 3 };

const limiter = new Limiter({ name: 'copies', maxConcurrent: 4, maxQueued: 0, waitMsMax: 1000 });
const DECISION_FIGURES = {
  tombstones: 2,
  bytes: 3000,
  offset: 9,
  cursors: 6,
  behind: { current: 1, few: 2, many: 3 },
  counts: [{ origin: 'CAPI', type: 'ban', count: 12 }],
  sources: [
    { name: 'lapi', up: true, ageMs: 1500, decisions: 12 },
    { name: 'new', up: false, ageMs: undefined, decisions: 0 },
  ],
};

const EVENTS = { payloads: 1, events: 2, bytes: 300 };
const FLAG_FIGURES: FlagFigures = {
  healthy: false,
  sources: [{ name: 'flags.tar.gz', up: false }],
  evaluations: {
    queued: 1,
    running: 2,
    evaluations: 30,
    cacheHits: 40,
    cacheMisses: 50,
    cacheBytes: 6000,
    threads: 7,
    threadFailures: 8,
    itemFailures: 9,
  },
  events: {
    heldBytes: 100,
    heldEvents: 4,
    environments: [
      {
        name: 'Shop Production',
        received: { payloads: 3, events: 6, bytes: 900 },
        sent: EVENTS,
        failed: { network: EVENTS, status: { payloads: 1, events: 1, bytes: 10 } },
        dropped: { full: EVENTS },
      },
    ],
  },
};

function figures(): Figures {
  return {
    admission: limiter.stats(),
    slotsMax: 4,
    parkedMax: 2,
    pinnedBytesMax: 1e6,
    deliveries: new Deliveries().stats(),
    kernelHeldBytes: 65_536,
    queueMax: 100,
    memoryLimitBytes: 1e9,
    activeRequests: 7,
    ready: true,
    stores: [
      { name: 'flags', failing: false },
      { name: 'decisions', failing: true },
    ],
    environments: [
      {
        name: 'Shop Production',
        ready: true,
        items: 5,
        ageMs: 2000,
        streams: [
          { audience: 'server', sdk: 'GoClient', count: 3 },
          { audience: 'client', sdk: 'JSClient', count: 2 },
        ],
        behind: { current: 3, few: 1, many: 1 },
        position: 'digest.7.all',
        bytes: 9000,
        connected: true,
        connection: 'VALID',
        dataStore: 'VALID',
        hasExpiringKey: true,
      },
      {
        name: 'Shop Test',
        ready: false,
        items: 0,
        ageMs: undefined,
        streams: [],
        behind: { current: 0, few: 0, many: 2 },
        position: undefined,
        bytes: undefined,
        connected: false,
        connection: 'INITIALIZING',
        dataStore: 'VALID',
        hasExpiringKey: false,
      },
    ],
    flags: FLAG_FIGURES,
    decisions: DECISION_FIGURES,
  };
}

let open: Metrics | undefined;

function start(more: Partial<MetricsOptions> = {}): Metrics {
  open = openMetrics({
    clock: new FakeClock(),
    version: '1.2.3',
    figures,
    flags: true,
    decisions: true,
    tenantOf: (name) => (name === 'env-1' ? 'Shop Production' : name),
    relay8Prefix: 'launchdarkly_relay',
    ...more,
  });
  return open;
}

/** Every line of a metric, by its labels. */
function valuesOf(metrics: Metrics, name: string): Record<string, number> {
  const lines = metrics
    .text()
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return Object.fromEntries(
    lines.map((line) => [
      line.slice(name.length, line.lastIndexOf(' ')).replace(/^\{(.*)\}$/, '$1'),
      Number(line.slice(line.lastIndexOf(' '))),
    ]),
  );
}

/** Makes each thing known that is measured, once. */
function everything(): void {
  flags.requested.publish(() => ({ ...CLIENT, method: 'GET' }));
  flags.delivered.publish(() => ({ ...CLIENT, ...DELIVERED, what: 'full', outcome: 'completed', plainBytes: 9000 }));
  flags.caughtUp.publish(() => ({ ...CLIENT, changes: 2, bytes: 100 }));
  flags.refused.publish(() => ({ ...CLIENT, ...REFUSED }));
  flags.lost.publish(() => CLIENT);
  flags.failed.publish(() => ({ ...CLIENT, error: new Error('broken') }));
  const counted = { added: 1, deleted: 0, what: 'full', outcome: 'stalled' } as const;
  decisions.answered.publish(() => ({ ...BOUNCER, what: 'current', bytes: 26, hit: false }));
  const lookUp = { ...BOUNCER, route: '/v1/decisions', what: 'look-up' } as const;
  decisions.answered.publish(() => ({ ...lookUp, bytes: 300, hit: true }));
  decisions.answered.publish(() => ({ ...lookUp, bytes: 4, hit: false }));
  decisions.delivered.publish(() => ({ ...BOUNCER, ...DELIVERED, ...counted }));
  decisions.refused.publish(() => ({ ...BOUNCER, ...REFUSED, early: true }));
  decisions.left.publish(() => ({ ...BOUNCER, waitedMs: 5 }));
  decisions.unavailable.publish(() => ({ ...BOUNCER, reason: 'no data' }));
  decisions.cursorShared.publish(() => BOUNCER);
  decisions.keyLearned.publish(() => BOUNCER);
  decisions.notForwarded.publish(() => ({ ...BOUNCER, route: '/v1/alerts', status: 502, error: undefined }));
  flags.taken.publish(() => ({ ms: 30, clients: 100, bytes: 5000 }));
  flags.takenCompressed.publish(() => ({ ms: 7000, clients: 1, bytes: 20 }));
  decisions.pickedUp.publish(() => ({ ms: 40_000 }));
  pagesEncoded.publish(() => ({ data: 'items', encoding: 'gzip', bytes: 9000, ms: 4 }));
  pagesEncoded.publish(() => ({ data: 'decisions', encoding: 'identity', bytes: 60_000, ms: 0.3 }));
  const http = { method: 'GET', status: 200, ms: 30, complete: true };
  requested.publish(() => ({ ...http, route: '/v1/decisions/stream' }));
  requested.publish(() => ({ ...http, route: '404', status: 404 }));
}

afterEach(() => open?.close());

describe('metrics', () => {
  it('are all of the catalogue, and no others', () => {
    const metrics = start();
    everything();
    const told = [...metrics.collect()].map(({ definition }) => definition.name);
    expect(told.toSorted()).toEqual(CATALOG.map(({ name }) => name).toSorted());
  });

  it('are all in the guide, with their type and their labels, and the guide has no others', () => {
    const guide = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
    const rows = guide.split('\n').filter((line) => line.startsWith('| `'));
    const wanted = CATALOG.map((definition) => {
      const labels = (definition.labels ?? []).map((label) => `\`${label.replaceAll('.', '_')}\``).join(', ');
      return `| \`${prometheusName(definition)}\` | ${definition.type} | ${labels} |`;
    });
    expect(rows.map((row) => row.slice(0, row.lastIndexOf('|', row.length - 2) + 1)).toSorted()).toEqual(
      wanted.toSorted(),
    );
  });

  it('tell whether it is ready, and whether what keeps its data can be written', () => {
    const metrics = start();
    expect(valuesOf(metrics, 'headgate_ready')).toEqual({ '': 1 });
    expect(valuesOf(metrics, 'headgate_store_failing')).toEqual({ 'store="flags"': 0, 'store="decisions"': 1 });
    metrics.close();
    const { stores: _, ...rest } = figures();
    const unkept = start({ figures: () => ({ ...rest, ready: false }) });
    expect(valuesOf(unkept, 'headgate_ready')).toEqual({ '': 0 });
    expect(valuesOf(unkept, 'headgate_store_failing')).toEqual({});
  });

  it('tell of a front only where there is one', () => {
    const metrics = start({ flags: false, figures: () => ({ ...figures(), environments: [] }) });
    everything();
    expect(metrics.text()).not.toMatch(/launchdarkly|headgate_streams|front="flags"/);
    metrics.close();
    const { decisions: _, ...rest } = figures();
    const others = start({ decisions: false, figures: () => rest });
    everything();
    expect(others.text()).not.toMatch(/cs_|headgate_decisions|front="decisions"/);
  });

  it("have the vendor's old names only where they are asked for, behind their prefix", () => {
    const { relay8Prefix: _, ...without } = { relay8Prefix: '' };
    const metrics = openMetrics({
      clock: new FakeClock(),
      version: '1',
      figures,
      flags: true,
      decisions: false,
      ...without,
    });
    everything();
    expect(metrics.text()).not.toMatch(/launchdarkly_relay_requests\{|newconnections/);
    metrics.close();
    const prefixed = start({ relay8Prefix: 'relay' });
    everything();
    expect(valuesOf(prefixed, 'relay_requests')).toEqual({
      'env="Shop Production",method="GET",platformCategory="server",route="_all",userAgent="GoClient"': 1,
    });
    expect(valuesOf(prefixed, 'relay_newconnections')).toEqual({
      'env="Shop Production",platformCategory="server",userAgent="GoClient"': 1,
    });
    expect(valuesOf(prefixed, 'relay_connections')).toEqual({
      'env="Shop Production",platformCategory="server",userAgent="GoClient"': 3,
      'env="Shop Production",platformCategory="browser",userAgent="JSClient"': 2,
    });
  });

  it('name routes and who asks as the vendor does, by each method', () => {
    const metrics = start({ relay8Prefix: 'relay' });
    const asked = [
      ['GET', '/sdk/flags/:key'],
      ['REPORT', '/sdk/evalx/:envId/context'],
      ['GET', '/sdk/evalx/:envId/contexts/:context'],
      ['OPTIONS', '/events/bulk/:envId'],
      ['POST', '/events/bulk/:envId'],
      ['GET', '/a/:file'],
      ['POST', '/mobile'],
      ['GET', '/mping'],
    ] as const;
    for (const [method, route] of asked) flags.requested.publish(() => ({ ...CLIENT, route, method }));
    const labels = (method: string, category: string, route: string): string =>
      `env="Shop Production",method="${method}",platformCategory="${category}",route="${route}",userAgent="GoClient"`;
    expect(valuesOf(metrics, 'relay_requests')).toEqual({
      [labels('GET', 'server', '_sdk_flags_{key}')]: 1,
      [labels('REPORT', 'browser', '_sdk_evalx_{envId}_context')]: 1,
      [labels('GET', 'browser', '_sdk_evalx_{envId}_contexts_{context}')]: 1,
      [labels('POST', 'browser', '_events_bulk_{envId}')]: 1,
      [labels('GET', 'browser', '_a_{envId}.gif')]: 1,
      [labels('POST', 'mobile', '_mobile')]: 1,
      [labels('GET', 'mobile', '_mping')]: 1,
    });
    expect(valuesOf(metrics, 'relay_newconnections')).toEqual({
      'env="Shop Production",platformCategory="mobile",userAgent="GoClient"': 1,
    });
  });

  it('hear nothing more once they are closed', () => {
    start().close();
    expect(requested.isHeard).toBe(false);
    expect(open?.text()).toContain('headgate_build_info{version="1.2.3"');
  });
});

describe('what is counted', () => {
  it('waits, deliveries, refusals and bytes, by front', () => {
    const metrics = start();
    everything();
    expect(valuesOf(metrics, 'headgate_admission_wait_seconds_sum')).toEqual({
      'front="flags",answer="admitted"': 0.02,
      'front="flags",answer="refused"': 2,
      'front="decisions",answer="admitted"': 0.02,
      'front="decisions",answer="refused"': 2,
      'front="decisions",answer="left"': 0.005,
    });
    expect(valuesOf(metrics, 'headgate_deliveries_total')).toEqual({
      'front="flags",tenant="Shop Production",route="/all",copy="full",outcome="completed"': 1,
      'front="decisions",tenant="",route="/v1/decisions/stream",copy="full",outcome="stalled"': 1,
    });
    expect(valuesOf(metrics, 'headgate_refusals_total')).toEqual({
      'front="flags",tenant="Shop Production",route="/all",reason="timeout"': 1,
      'front="decisions",tenant="",route="/v1/decisions/stream",reason="early"': 1,
    });
    expect(valuesOf(metrics, 'headgate_sent_bytes_total')).toMatchObject({
      'front="flags",copy="full",encoding="gzip"': 1000,
      'front="flags",copy="catch-up",encoding="identity"': 100,
      'front="decisions",copy="look-up",encoding="identity"': 304,
    });
  });

  it('what catch-ups spared: the last full copy of the same route, less what was sent', () => {
    const metrics = start();
    flags.caughtUp.publish(() => ({ ...CLIENT, changes: 2, bytes: 100 }));
    expect(valuesOf(metrics, 'headgate_saved_bytes_total')).toEqual({ 'front="flags"': 0 });
    everything();
    expect(valuesOf(metrics, 'headgate_saved_bytes_total')).toEqual({ 'front="flags"': 900 });
    flags.caughtUp.publish(() => ({ ...CLIENT, route: '/flags', changes: 2, bytes: 100 }));
    expect(valuesOf(metrics, 'headgate_saved_bytes_total')).toEqual({ 'front="flags"': 900 });
  });

  it('what compression spared, of deliveries that were completed', () => {
    const metrics = start();
    const away = (): unknown => valuesOf(metrics, 'headgate_compression_saved_bytes_total');
    const full = { ...CLIENT, ...DELIVERED, what: 'full', outcome: 'completed', encoding: 'gzip' } as const;
    flags.delivered.publish(() => ({ ...full, bytes: 100, plainBytes: 1000 }));
    expect(away()).toEqual({ 'front="flags"': 900 });
    // fails when the outcome is not looked at: a length is that of the whole
    flags.delivered.publish(() => ({ ...full, outcome: 'stalled', bytes: 100, plainBytes: 1000 }));
    // what is longer compressed has spared nothing, and costs nothing of what was spared
    flags.delivered.publish(() => ({ ...full, bytes: 20, plainBytes: 10 }));
    flags.delivered.publish(() => full);
    expect(away()).toEqual({ 'front="flags"': 900 });
  });

  it("requests of bouncers and look-ups, by the local API's names", () => {
    const metrics = start();
    everything();
    expect(valuesOf(metrics, 'cs_lapi_bouncer_requests_total')).toEqual({
      'bouncer="nginx-1",route="/v1/decisions/stream",method="GET"': 5,
      'bouncer="nginx-1",route="/v1/decisions",method="GET"': 2,
    });
    expect(valuesOf(metrics, 'cs_lapi_decisions_ok_total')).toEqual({ 'bouncer="nginx-1"': 1 });
    expect(valuesOf(metrics, 'cs_lapi_decisions_ko_total')).toEqual({ 'bouncer="nginx-1"': 1 });
    expect(valuesOf(metrics, 'cs_lapi_route_requests_total')).toEqual({
      'route="/v1/decisions/stream",method="GET"': 1,
      'route="invalid-endpoint",method="GET"': 1,
    });
    expect(valuesOf(metrics, 'cs_active_decisions')).toEqual({ 'origin="CAPI",action="ban"': 12 });
  });

  it('the budget, as of when it is read', () => {
    const metrics = start();
    const answer = limiter.tryAcquire();
    expect(valuesOf(metrics, 'headgate_admission_held')).toEqual({ '': 1 });
    expect(valuesOf(metrics, 'launchdarkly_relay_init_slots_held')).toEqual({ '': 1 });
    if (answer.admitted) answer.slot.release();
    expect(valuesOf(metrics, 'headgate_admission_held')).toEqual({ '': 0 });
  });

  it('how soon changes are taken, by so many clients at once, and what they were sent', () => {
    const metrics = start();
    everything();
    const buckets = valuesOf(metrics, 'headgate_change_latency_seconds_bucket');
    const upTo = (front: string, le: string): number | undefined => buckets[`front="${front}",le="${le}"`];
    expect([upTo('flags', '0.025'), upTo('flags', '0.05'), upTo('flags', '5'), upTo('flags', '10')]).toEqual([
      0, 100, 100, 101,
    ]);
    expect([upTo('decisions', '30'), upTo('decisions', '60')]).toEqual([0, 1]);
    expect(valuesOf(metrics, 'headgate_change_latency_seconds_sum')).toEqual({
      'front="flags"': 10,
      'front="decisions"': 40,
    });
    expect(valuesOf(metrics, 'headgate_sent_bytes_total')).toMatchObject({
      'front="flags",copy="change",encoding="identity"': 5000,
      'front="flags",copy="change",encoding="gzip"': 20,
    });
  });

  it('what encoding takes, by front and encoding', () => {
    const metrics = start();
    everything();
    expect(valuesOf(metrics, 'headgate_encode_seconds_sum')).toEqual({
      'front="flags",encoding="gzip"': 0.004,
      'front="decisions",encoding="identity"': 0.0003,
    });
    expect(valuesOf(metrics, 'headgate_encoded_bytes_total')).toEqual({
      'front="flags",encoding="gzip"': 9000,
      'front="decisions",encoding="identity"': 60_000,
    });
  });

  it('how far clients are behind, over all environments, and what the kernel holds, where it says so', () => {
    const metrics = start();
    expect(valuesOf(metrics, 'headgate_clients_behind')).toEqual({
      'front="flags",lag="0"': 3,
      'front="flags",lag="1-10"': 1,
      'front="flags",lag="more"': 3,
      'front="decisions",lag="0"': 1,
      'front="decisions",lag="1-10"': 2,
      'front="decisions",lag="more"': 3,
    });
    expect(valuesOf(metrics, 'headgate_cursors')).toEqual({ '': 6 });
    expect(valuesOf(metrics, 'headgate_environment_size_bytes')).toEqual({ 'tenant="Shop Production"': 9000 });
    expect(valuesOf(metrics, 'headgate_deliveries_kernel_held_bytes')).toEqual({ '': 65_536 });
    metrics.close();
    const unasked = start({ figures: () => ({ ...figures(), kernelHeldBytes: undefined }) });
    expect(unasked.text()).not.toMatch(/kernel_held/);
  });

  it('small deltas by their encoding', () => {
    const metrics = start();
    const delta = { ...BOUNCER, what: 'delta', hit: true } as const;
    decisions.answered.publish(() => ({ ...delta, bytes: 900, encoding: 'identity' }));
    decisions.answered.publish(() => ({ ...delta, bytes: 5000, encoding: 'gzip' }));
    expect(valuesOf(metrics, 'headgate_sent_bytes_total')).toMatchObject({
      'front="decisions",copy="delta",encoding="identity"': 900,
      'front="decisions",copy="delta",encoding="gzip"': 5000,
    });
  });

  it('how old data are, and nothing where there are none yet', () => {
    const metrics = start();
    expect(valuesOf(metrics, 'headgate_environment_age_seconds')).toEqual({ 'tenant="Shop Production"': 2 });
    expect(valuesOf(metrics, 'headgate_source_age_seconds')).toEqual({ 'source="lapi"': 1.5 });
    expect(valuesOf(metrics, 'headgate_source_up')).toEqual({
      'source="flags.tar.gz"': 0,
      'source="lapi"': 1,
      'source="new"': 0,
    });
  });
});

describe('what comes from outside', () => {
  const labelsOf = (metrics: Metrics, name: string): string[] => Object.keys(valuesOf(metrics, name));

  // Fails when the bound in `BoundByName.of` is removed.
  it('makes 1,000 series for bouncers at most, and one for the rest', () => {
    const metrics = start();
    for (let number = 0; number < 1500; number++) {
      decisions.answered.publish(() => ({ ...BOUNCER, bouncer: `b${number}`, what: 'current', bytes: 26, hit: false }));
    }
    const requests = valuesOf(metrics, 'cs_lapi_bouncer_requests_total');
    expect(Object.keys(requests)).toHaveLength(1001);
    expect(requests['bouncer="other",route="/v1/decisions/stream",method="GET"']).toBe(500);
  });

  it('makes as many for environments, SDKs, methods and paths as there are bounds for', () => {
    const metrics = start();
    for (let number = 0; number < 800; number++) {
      const sdk = `sdk${number}`;
      flags.requested.publish(() => ({ ...CLIENT, sdk, method: 'GET' }));
      flags.lost.publish(() => ({ ...CLIENT, environment: `e${number}` }));
      decisions.notForwarded.publish(() => ({ ...BOUNCER, route: `/v1/${number}`, status: 404, error: undefined }));
      requested.publish(() => ({ route: '/all', method: `M${number}`, status: 405, ms: 1, complete: true }));
    }
    expect(labelsOf(metrics, 'launchdarkly_relay_requests_total')).toHaveLength(65);
    expect(labelsOf(metrics, 'headgate_streams_lost_total')).toHaveLength(501);
    expect(labelsOf(metrics, 'headgate_not_forwarded_total')).toHaveLength(9);
    expect(labelsOf(metrics, 'http_server_request_duration_seconds_count')).toEqual([
      'http_request_method="_OTHER",http_route="/all",http_response_status_code="405"',
    ]);
  });

  it('never shows the address of a client', () => {
    const metrics = start();
    everything();
    expect(metrics.text()).not.toMatch(/192\.0\.2\./);
  });
});
