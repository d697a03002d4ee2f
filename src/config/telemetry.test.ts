import { describe, expect, it } from 'vitest';
import { type Loaded, loadConfig } from './load.ts';

const SOURCE = 'flags: { sources: [{ type: archive, path: a.tar }] }\n';
const MACHINE = { memoryLimitBytes: 2 ** 29, lowWater: true };

function load(text: string, env: Record<string, string> = {}): Promise<Loaded> {
  return loadConfig({
    file: 'hg.yaml',
    readFile: async () => SOURCE + text,
    env,
    fromEnv: false,
    machine: MACHINE,
  });
}

function fromEnv(env: Record<string, string>): Promise<Loaded> {
  const variables = { FILE_DATA_SOURCE: 'a.tar', ...env };
  return loadConfig({ env: variables, fromEnv: true, machine: MACHINE });
}

function errorsOf({ problems }: Loaded): string[] {
  return problems.filter(({ severity }) => severity === 'error').map(({ where, message }) => `${where}: ${message}`);
}

describe('the admin listener', () => {
  it('is on loopback without a token unless somebody says otherwise', async () => {
    const { config } = await load('');
    expect(config?.admin).toEqual({
      enabled: true,
      host: '127.0.0.1',
      port: 8031,
      token: undefined,
      openMetrics: false,
      relay8Prefix: undefined,
    });
  });

  it('is moved, locked and closed by the file', async () => {
    const moved = await load('admin: { host: 0.0.0.0, port: 0, token: s3cret, openMetrics: true }\n');
    expect(moved.config?.admin).toMatchObject({ host: '0.0.0.0', port: 0, token: 's3cret', openMetrics: true });
    expect((await load('admin: off\n')).config?.admin.enabled).toBe(false);
  });

  it('is moved, locked and closed by variables, which go before the file', async () => {
    const env = { HEADGATE_ADMIN: '[::]:9000', HEADGATE_ADMIN_TOKEN: 's3cret' };
    const moved = await load('admin: { host: 127.0.0.1, port: 1 }\n', env);
    expect(moved.config?.admin).toMatchObject({ host: '::', port: 9000, token: 's3cret' });
    expect((await load('', { HEADGATE_ADMIN: 'off' })).config?.admin.enabled).toBe(false);
    expect((await load('admin: off\n', { HEADGATE_ADMIN: '127.0.0.1:1' })).config?.admin.enabled).toBe(true);
  });

  // Fails when the check of the token in `checkAdmin` is removed.
  it.each([
    ['admin: { host: 0.0.0.0 }\n', {}, 'hg.yaml:2'],
    ['', { HEADGATE_ADMIN: ':8031' }, 'HEADGATE_ADMIN'],
    ['', { HEADGATE_ADMIN: '10.0.0.1:8031' }, 'HEADGATE_ADMIN'],
  ])('wants a token where others can reach it: %j %j', async (text, env: Record<string, string>, where) => {
    const errors = errorsOf(await load(text, env));
    expect(errors).toEqual([expect.stringMatching(/expected a token/)]);
    expect(errors[0]).toContain(where);
    expect(errorsOf(await load(text, { ...env, HEADGATE_ADMIN_TOKEN: 't' }))).toEqual([]);
  });

  it.each(['127.0.0.1:1', '127.9.9.9:1', '[::1]:1', 'localhost:1'])('wants none on %s', async (address) => {
    expect(errorsOf(await load('', { HEADGATE_ADMIN: address }))).toEqual([]);
  });

  it('tells an address that cannot be used', async () => {
    expect(errorsOf(await load('', { HEADGATE_ADMIN: '8031' }))).toEqual([
      'HEADGATE_ADMIN: expected an address and a port such as 127.0.0.1:8080, or off, got "8031"',
    ]);
  });

  it('tells settings beside off', async () => {
    expect(errorsOf(await load('admin: { mode: off, port: 1 }\notlp: { mode: off, metrics: true }\n'))).toEqual([
      expect.stringContaining('admin.port: has no effect while admin.mode is off'),
      expect.stringContaining('otlp.metrics: has no effect while otlp.mode is off'),
    ]);
  });
});

describe("the vendor's Prometheus exporter", () => {
  it('is open to everybody on every address, with the names of version 8', async () => {
    const { config, problems } = await fromEnv({ USE_PROMETHEUS: '1', PROMETHEUS_PORT: '9031' });
    expect(config?.admin).toMatchObject({
      enabled: true,
      host: undefined,
      port: 9031,
      openMetrics: true,
      relay8Prefix: 'launchdarkly_relay',
    });
    expect(problems).toContainEqual(
      expect.objectContaining({ severity: 'info', message: expect.stringContaining('only /metrics is answered') }),
    );
  });

  it('counts only when it is on, as the vendor has it', async () => {
    const { config } = await fromEnv({ PROMETHEUS_PORT: '9031' });
    expect(config?.admin).toMatchObject({ host: '127.0.0.1', port: 8031, openMetrics: false });
  });

  it('leaves an address of our own alone', async () => {
    const env = { USE_PROMETHEUS: '1', PROMETHEUS_PREFIX: 'relay', HEADGATE_ADMIN: '127.0.0.1:1' };
    const { config } = await fromEnv(env);
    expect(config?.admin).toMatchObject({ host: '127.0.0.1', port: 1, openMetrics: true, relay8Prefix: 'relay' });
  });

  // Fails when the check of `adminHost` in `applyVendorPrometheus` is removed.
  it('leaves the address of our own file alone', async () => {
    const { config } = await loadConfig({
      file: 'hg.yaml',
      readFile: async () => `${SOURCE}admin: { host: 127.0.0.2 }\n`,
      env: { USE_PROMETHEUS: '1', PROMETHEUS_PORT: '9031' },
      fromEnv: true,
      machine: MACHINE,
    });
    expect(config?.admin).toMatchObject({ host: '127.0.0.2', port: 9031, openMetrics: true });
  });

  it('tells a prefix and a port that no exporter could have', async () => {
    const errors = errorsOf(await fromEnv({ USE_PROMETHEUS: '1', PROMETHEUS_PREFIX: 'a-b', PROMETHEUS_PORT: '70000' }));
    expect(errors).toEqual([
      'PROMETHEUS_PORT: expected a port between 1 and 65535, got 70000',
      'PROMETHEUS_PREFIX: expected letters, digits and underscores, got "a-b"',
    ]);
  });
});

describe('what goes to a collector', () => {
  const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
  const NOTHING = { metrics: false, traces: false, metricsUrl: undefined, tracesUrl: undefined, intervalMs: 60_000 };

  it('is nothing, unless an address is known', async () => {
    expect((await load('')).config?.otlp).toEqual(NOTHING);
    expect((await load('otlp: { interval: 1m }\n')).config?.otlp).toEqual(NOTHING);
  });

  it.each<[string, Record<string, string>, object]>([
    ['', ENDPOINT, { metrics: true, traces: true, metricsUrl: undefined }],
    ['', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://c:4318' }, { metrics: false, traces: true }],
    ['', { ...ENDPOINT, OTEL_METRICS_EXPORTER: 'none' }, { metrics: false, traces: true }],
    ['', { OTEL_METRICS_EXPORTER: 'otlp' }, { metrics: true, traces: false }],
    ['', { ...ENDPOINT, OTEL_SDK_DISABLED: 'true' }, { metrics: false, traces: false }],
    ['', { ...ENDPOINT, OTEL_METRIC_EXPORT_INTERVAL: '500' }, { intervalMs: 500 }],
    ['otlp: off\n', ENDPOINT, { metrics: false, traces: false }],
    [
      'otlp: { endpoint: http://c:4318/, interval: 5s }\n',
      {},
      {
        metrics: true,
        traces: true,
        metricsUrl: 'http://c:4318/v1/metrics',
        tracesUrl: 'http://c:4318/v1/traces',
        intervalMs: 5000,
      },
    ],
    ['otlp: { endpoint: http://c:4318, traces: false }\n', {}, { metrics: true, traces: false }],
    ['otlp: { endpoint: http://c:4318 }\n', ENDPOINT, { metrics: true, metricsUrl: undefined }],
  ])('%j %j', async (text, env, otlp) => {
    const { config, problems } = await load(text, env);
    expect(problems.filter(({ severity }) => severity !== 'info')).toEqual([]);
    expect(config?.otlp).toMatchObject(otlp);
  });

  it("is named one by one under the vendor's switch", async () => {
    const on = await fromEnv({ ...ENDPOINT, USE_OTLP: '1' });
    expect(on.config?.otlp).toMatchObject({ metrics: false, traces: false });
    const named = await fromEnv({ ...ENDPOINT, USE_OTLP: '1', OTEL_TRACES_EXPORTER: 'otlp' });
    expect(named.config?.otlp).toMatchObject({ metrics: false, traces: true });
    const off = await fromEnv({ ...ENDPOINT, USE_OTLP: '0' });
    expect(off.config?.otlp).toMatchObject({ metrics: false, traces: false });
  });

  it('is warned about when it is to go by a protocol that is not spoken', async () => {
    const { problems } = await load('', { ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' });
    expect(problems).toContainEqual(
      expect.objectContaining({ severity: 'warning', message: expect.stringContaining('grpc is not supported') }),
    );
  });

  it('wants an interval in milliseconds', async () => {
    expect(errorsOf(await load('', { ...ENDPOINT, OTEL_METRIC_EXPORT_INTERVAL: '5s' }))).toEqual([
      'OTEL_METRIC_EXPORT_INTERVAL: expected milliseconds, got "5s"',
    ]);
  });
});
