import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Collector } from '../support/collector.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';

const SDK_KEY = 'sdk-00000000-1111-2222-3333-444444444444';
const ENV_ID = '507f1f77bcf86cd799439011';
const WAIT_MS = 15_000;
/** A process is started in each, on a machine that may be busy. */
const TEST_MS_MAX = 60_000;

const flagsPath = join(mkdtempSync(join(tmpdir(), 'headgate-metrics-')), 'flags.json');
writeFileSync(flagsPath, JSON.stringify({ flags: { one: { key: 'one', version: 1, on: true } }, segments: {} }));
const FLAGS = {
  sources: [{ type: 'file', name: 'production', paths: [flagsPath], sdkKey: SDK_KEY, envId: ENV_ID }],
};

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(config: object, env: Record<string, string> = {}): Promise<Headgate> {
  const headgate = await startHeadgate({ config: { server: { drainDelay: 0 }, flags: FLAGS, ...config }, env });
  closing.push(() => headgate.stop());
  await headgate.waitForLog('environment loaded');
  return headgate;
}

async function adminOf(headgate: Headgate): Promise<string> {
  const { port } = await headgate.waitForLog('admin listening');
  return `http://127.0.0.1:${String(port)}`;
}

/** The value of one series. */
function valueOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length));
}

async function metricsOf(headgate: Headgate): Promise<string> {
  const response = await fetch(`${await adminOf(headgate)}/metrics`);
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/plain; version=0.0.4; charset=utf-8',
  ]);
  return await response.text();
}

async function poll(headgate: Headgate, path: string): Promise<string> {
  const headers = { authorization: SDK_KEY, 'user-agent': 'GoClient/7.14.6', 'accept-encoding': 'identity' };
  const response = await fetch(headgate.url + path, { headers });
  return await response.text();
}

describe('the metrics of a relay', { timeout: TEST_MS_MAX }, () => {
  it('tell which decisions are held, where they come from, and what bouncers were answered', async () => {
    const listPath = join(mkdtempSync(join(tmpdir(), 'headgate-metrics-')), 'drop.txt');
    writeFileSync(listPath, '192.0.2.1\n198.51.100.0/24\n');
    const decisions = {
      sources: [{ type: 'file', name: 'drop', paths: [listPath] }],
      keys: [{ name: 'edge', key: 'key-of-the-edge' }],
    };
    const headgate = await startHeadgate({ config: { server: { drainDelay: 0 }, decisions, store: 'none' } });
    closing.push(() => headgate.stop());
    await headgate.waitForLog('decisions loaded');
    const headers = { 'x-api-key': 'key-of-the-edge' };
    for (const path of ['stream?startup=true', 'stream', '?ip=198.51.100.7', '?ip=203.0.113.1']) {
      const url = `${headgate.url}/v1/decisions${path.startsWith('?') ? '' : '/'}${path}`;
      expect((await fetch(url, { headers })).status).toBe(200);
    }
    const text = await metricsOf(headgate);
    expect(valueOf(text, 'headgate_decisions{origin="cscli-import",type="ban"}')).toBe(2);
    expect(valueOf(text, 'headgate_source_up{source="drop"}')).toBe(1);
    expect(valueOf(text, 'headgate_source_decisions{source="drop"}')).toBe(2);
    expect(valueOf(text, 'cs_lapi_decisions_ok_total{bouncer="edge"}')).toBe(1);
    expect(valueOf(text, 'cs_lapi_decisions_ko_total{bouncer="edge"}')).toBe(1);
    expect(text).not.toContain('key-of-the-edge');
  });

  // fails when what could not be read is not told of as down
  it('tell of a file of flags that cannot be read any more, while its data stay served', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'headgate-metrics-')), 'flags.json');
    const whole = JSON.stringify({ flags: { one: { key: 'one', version: 1, on: true } } });
    writeFileSync(file, whole);
    const source = { type: 'file', name: 'staging', paths: [file], sdkKey: SDK_KEY, interval: '100ms' };
    const headgate = await startHeadgate({ config: { flags: { sources: [source] }, store: 'none' } });
    closing.push(() => headgate.stop());
    await headgate.waitForLog('environment loaded');
    const up = async (): Promise<number | undefined> =>
      valueOf(await metricsOf(headgate), 'headgate_source_up{source="staging"}');
    expect(await up()).toBe(1);
    writeFileSync(file, '{"flags":');
    await vi.waitFor(async () => expect(await up()).toBe(0), WAIT_MS);
    expect(await poll(headgate, '/sdk/flags/one')).toContain('"one"');
    writeFileSync(file, whole);
    await vi.waitFor(async () => expect(await up()).toBe(1), WAIT_MS);
  });

  it('tell what it did, before and after', async () => {
    const headgate = await start({});
    const before = await metricsOf(headgate);
    expect(valueOf(before, 'headgate_admission_admitted_total')).toBe(0);
    expect(valueOf(before, 'headgate_environment_items{tenant="production"}')).toBe(1);
    expect(before).not.toContain('http_server_request_duration_seconds_count');

    const full = await poll(headgate, '/sdk/poll');
    const basis = /"state":"([\w.-]+)"/.exec(full)?.[1] ?? '';
    const small = await poll(headgate, `/sdk/poll?basis=${basis}`);
    await poll(headgate, '/sdk/flags/one');
    const leaving = new AbortController();
    closing.push(() => leaving.abort());
    await fetch(`${headgate.url}/all`, { headers: { authorization: SDK_KEY }, signal: leaving.signal });

    const after = await vi.waitFor(async () => {
      const text = await metricsOf(headgate);
      expect(valueOf(text, 'headgate_admission_admitted_total')).toBe(2);
      expect(valueOf(text, 'headgate_streams{tenant="production"}')).toBe(1);
      return text;
    }, WAIT_MS);
    const series = (route: string, status: string): string =>
      `http_server_request_duration_seconds_count{http_request_method="GET",http_route="${route}",http_response_status_code="${status}"}`;
    expect(valueOf(after, series('/sdk/poll', '200'))).toBe(2);
    expect(valueOf(after, series('/sdk/flags/:key', '200'))).toBe(1);
    expect(valueOf(after, 'http_server_active_requests')).toBe(1);
    const flow = 'front="flags",tenant="production",route="/sdk/poll"';
    expect(valueOf(after, `headgate_deliveries_total{${flow},copy="full",outcome="completed"}`)).toBe(1);
    expect(valueOf(after, `headgate_small_answers_total{${flow},copy="current"}`)).toBe(1);
    expect(valueOf(after, 'headgate_saved_bytes_total{front="flags"}')).toBe(full.length - small.length);
    expect(valueOf(after, 'launchdarkly_relay_init_admitted_total')).toBe(2);
    expect(valueOf(after, 'process_resident_memory_bytes')).toBeGreaterThan(1e7);
    expect(after).not.toContain(SDK_KEY.slice(-12));
    expect(after).not.toContain(ENV_ID);
  });

  it('tell of a herd before, while some of it has stalled, and after', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'headgate-metrics-')), 'flags.json');
    const write = (version: number): void => {
      const filler = 'x'.repeat(2000);
      const item = (key: string): object => ({ key, version: key === 'flag-0' ? version : 1, on: true, filler });
      const flags = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`flag-${at}`, item(`flag-${at}`)]));
      writeFileSync(`${path}.new`, JSON.stringify({ flags, segments: {} }));
      renameSync(`${path}.new`, path);
    };
    write(1);
    const source = { type: 'file', name: 'production', paths: [path], sdkKey: SDK_KEY, interval: '100ms' };
    const headgate = await start({ flags: { sources: [source] }, limits: { mode: 'auto', slots: 8, parking: true } });
    const one = (text: string, name: string): number => valueOf(text, name) ?? Number.NaN;
    const completed = `headgate_deliveries_total{front="flags",tenant="production",route="/all",copy="full",outcome="completed"}`;
    const behind = (text: string): number[] =>
      ['0', '1-10', 'more'].map((lag) => one(text, `headgate_clients_behind{front="flags",lag="${lag}"}`));

    // without the mark the kernel is not asked either, and the metric is not there
    const held = (text: string): number =>
      process.env['HEADGATE_LOW_WATER'] === 'off'
        ? Number(text.includes('headgate_deliveries_kernel_held_bytes'))
        : one(text, 'headgate_deliveries_kernel_held_bytes');
    const isAsked = process.env['HEADGATE_LOW_WATER'] !== 'off';

    const before = await metricsOf(headgate);
    expect(one(before, 'headgate_deliveries_started_total')).toBe(0);
    expect(held(before)).toBe(0);
    expect(behind(before)).toEqual([0, 0, 0]);
    expect(valueOf(before, 'headgate_environment_size_bytes{tenant="production"}')).toBeUndefined();

    const stalled = Array.from({ length: STALLED }, () => stalledStream(headgate.port));
    const readers = Array.from({ length: READERS }, () => readerOf(headgate.port));
    // before the relay stops, which waits for streams
    closing.unshift(() => [...stalled, ...readers].forEach(({ socket }) => socket.destroy()));
    const size = Math.max(...(await Promise.all(readers.map(({ whole }) => whole))));
    const during = await vi.waitFor(async () => {
      const text = await metricsOf(headgate);
      expect(one(text, 'headgate_deliveries_active')).toBe(STALLED);
      expect(one(text, completed)).toBe(READERS);
      expect(held(text) > 0).toBe(isAsked);
      return text;
    }, WAIT_MS);
    expect(behind(during)).toEqual([READERS, 0, 0]);
    expect(one(during, 'headgate_environment_size_bytes{tenant="production"}')).toBe(size);
    const encoded = one(during, 'headgate_encoded_bytes_total{front="flags",encoding="identity"}');
    // once for all of them
    expect(encoded).toBeGreaterThan(0.9 * size);
    expect(encoded).toBeLessThan(1.1 * size);
    expect(one(during, 'headgate_encode_seconds_sum{front="flags",encoding="identity"}')).toBeGreaterThan(0);
    expect(one(during, 'headgate_admission_wait_seconds_count{front="flags",answer="admitted"}')).toBe(READERS);

    write(2);
    const changed = await Promise.all(readers.map(({ changed: change }) => change));
    const after = await vi.waitFor(async () => {
      const text = await metricsOf(headgate);
      expect(one(text, 'headgate_change_latency_seconds_count{front="flags"}')).toBe(READERS);
      return text;
    }, WAIT_MS);
    const sent = changed.reduce((sum, bytes) => sum + bytes, 0);
    expect(one(after, 'headgate_sent_bytes_total{front="flags",copy="change",encoding="identity"}')).toBe(sent);
    expect(behind(after)).toEqual([READERS, 0, 0]);

    for (const { socket } of stalled) socket.destroy();
    await vi.waitFor(async () => {
      const text = await metricsOf(headgate);
      expect(one(text, completed.replace('completed', 'client_gone'))).toBe(STALLED);
      const left = ['active', 'parked'].map((name) => one(text, `headgate_deliveries_${name}`));
      expect([...left, held(text), one(text, 'headgate_admission_held')]).toEqual([0, 0, 0, 0]);
    }, WAIT_MS);
  });

  it('are where health and status are as well', async () => {
    const headgate = await start({});
    const admin = await adminOf(headgate);
    for (const path of ['/health/live', '/health/ready', '/status']) {
      expect((await fetch(admin + path)).status).toBe(200);
    }
    expect((await fetch(`${headgate.url}/metrics`)).status).toBe(404);
  });

  it('want the token that is set, but for the page that is open', async () => {
    const headgate = await start({ admin: { token: 's3cret', openMetrics: true } });
    const admin = await adminOf(headgate);
    expect((await fetch(`${admin}/status`)).status).toBe(401);
    expect((await fetch(`${admin}/status`, { headers: { authorization: 'Bearer s3cret' } })).status).toBe(200);
    expect((await fetch(`${admin}/metrics`)).status).toBe(200);
  });

  it("are as open as the vendor's exporter, with its old names, where that is asked for", async () => {
    const port = await freePort();
    const headgate = await startHeadgate({
      env: {
        PORT: String(await freePort()),
        LD_ENV_x: 'sdk-x',
        USE_PROMETHEUS: '1',
        PROMETHEUS_PORT: String(port),
        HEADGATE_ADMIN: '',
      },
    });
    closing.push(() => headgate.stop());
    const { host } = await headgate.waitForLog('admin listening');
    expect(host).toBe('*');
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(text).toContain('headgate_admission_held');
    expect((await fetch(`http://127.0.0.1:${port}/status`)).status).toBe(403);
  });

  it('cost one line when their port is taken, and nothing else', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    closing.push(() => taken.close());
    const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
    const headgate = await start({}, { HEADGATE_ADMIN: address });
    const isError = ({ level }: Headgate['logs'][number]): boolean => level === 50;
    await vi.waitFor(() => expect(headgate.logs.filter(isError)).toHaveLength(1), WAIT_MS);
    expect(headgate.logs.find(isError)?.['msg']).toMatch(/^Cannot listen on 127\.0\.0\.1:\d+: .*HEADGATE_ADMIN/);
    expect(await poll(headgate, '/sdk/flags/one')).toContain('"one"');
  });
});

/** A port that nobody has. Something else may take it before it is used: very rarely. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Fewer than there are slots: all are admitted at once. */
const STALLED = 3;
const READERS = 12;
const ASK = `GET /all HTTP/1.1\r\nHost: x\r\nAuthorization: ${SDK_KEY}\r\n\r\n`;

/** A stream that is asked for, and never read. */
function stalledStream(port: number): { readonly socket: Socket } {
  const socket = connect(port, '127.0.0.1').pause();
  socket.on('error', () => {});
  socket.write(ASK);
  return { socket };
}

interface Reader {
  readonly socket: Socket;
  /** Bytes of its first event, and of the one after it. */
  readonly whole: Promise<number>;
  readonly changed: Promise<number>;
}

/** A stream that is read as fast as it comes. */
function readerOf(port: number): Reader {
  const leaving = new AbortController();
  const socket = { destroy: () => leaving.abort() } as Socket;
  const sizes: { readonly promise: Promise<number>; readonly told: (bytes: number) => void }[] = [0, 1].map(() => {
    let told: (bytes: number) => void = () => {};
    const promise = new Promise<number>((resolve) => (told = resolve));
    return { promise, told };
  });
  const read = async (): Promise<void> => {
    const url = `http://127.0.0.1:${port}/all`;
    const { body } = await fetch(url, { headers: { authorization: SDK_KEY }, signal: leaving.signal });
    let bytes = 0;
    let tail = '';
    for await (const piece of body as AsyncIterable<Uint8Array>) {
      bytes += piece.byteLength;
      tail = (tail + Buffer.from(piece.subarray(-2)).toString('latin1')).slice(-2);
      if (tail !== '\n\n') continue;
      sizes.shift()?.told(bytes);
      bytes = 0;
    }
  };
  const [first, second] = sizes;
  read().catch(() => {});
  return { socket, whole: first?.promise ?? Promise.resolve(0), changed: second?.promise ?? Promise.resolve(0) };
}

describe('a collector', { timeout: TEST_MS_MAX }, () => {
  it('gets metrics and a trace of each delivery', async () => {
    const collector = await Collector.start();
    closing.push(() => collector.close());
    const headgate = await start(
      {},
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_METRIC_EXPORT_INTERVAL: '200',
        OTEL_BSP_SCHEDULE_DELAY: '100',
        OTEL_SERVICE_NAME: 'relay-7',
      },
    );
    await headgate.waitForLog('sending to an OpenTelemetry collector');
    await poll(headgate, '/sdk/flags');
    const root = await vi.waitFor(() => {
      const found = collector.spans.find(({ parentSpanId = '' }) => parentSpanId === '');
      if (found === undefined) throw new Error('no span yet');
      return found;
    }, WAIT_MS);
    expect(root.name).toBe('delivery full');
    expect(JSON.stringify(root.attributes)).toContain('{"key":"headgate.environment","value":{"stringValue":');
    const children = collector.spans.filter(({ parentSpanId }) => parentSpanId === root.spanId);
    expect(children.map(({ name }) => name)).toEqual(['wait', 'pin', 'encode', 'send']);
    expect(JSON.stringify(children.at(-1)?.attributes)).toContain('"headgate.outcome"');
    expect(children.at(-1)?.endTimeUnixNano).toBe(root.endTimeUnixNano);
    expect(Math.abs(Number(root.endTimeUnixNano) / 1e6 - Date.now())).toBeLessThan(60_000);

    await vi.waitFor(() => {
      const admitted = collector.metrics.find(({ name }) => name === 'headgate.admission.admitted');
      expect(admitted?.sum?.dataPoints).toMatchObject([{ asDouble: 1 }]);
    }, WAIT_MS);
    const named = new Map(collector.metrics.map((metric) => [metric.name, metric]));
    expect(named.get('headgate.admission.wait')).toMatchObject({
      unit: 's',
      histogram: { dataPoints: [{ count: 1, explicitBounds: expect.arrayContaining([0.001, 30]) }] },
    });
    expect(named.get('headgate.admission.held')?.gauge?.dataPoints).toHaveLength(1);
    expect([...collector.resources].every((resource) => resource.includes('relay-7'))).toBe(true);
  });

  it('that is not there is warned about, and holds nothing up', async () => {
    const headgate = await start({
      otlp: { endpoint: `http://127.0.0.1:${await freePort()}`, interval: '1s' },
    });
    await vi.waitFor(() => {
      expect(headgate.logs.some(({ level, msg }) => level === 40 && String(msg).startsWith('OpenTelemetry: '))).toBe(
        true,
      );
    }, 20_000);
    expect(await poll(headgate, '/sdk/flags/one')).toContain('"one"');
    expect(await headgate.stop()).toBe(0);
  });
});
