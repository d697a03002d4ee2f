import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { loadConfig } from '../../src/config/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import { openLog } from '../../src/observability/index.ts';
import { Relay } from '../../src/relay.ts';
import { writeArchive } from './archive.ts';
import { until } from './conditions.ts';
import { type Connection, connect, type Reply } from './connections.ts';
import type { UpstreamRequest } from './fake-upstream.ts';
import {
  compareReply,
  compareStream,
  type Differences,
  type RelayTrace,
  type RelayTraces,
  type TracedItem,
  type TracedUpstreamRequest,
} from './relay-traces.ts';
import { SseReader } from './sse-reader.ts';

export const KEY = 'sdk-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';
export const NEXT_KEY = 'sdk-bbbbbbbb-bbbb-4ccc-8ddd-ffffffffffff';
const MOBILE_KEY = 'mob-11111111-2222-4333-8444-555555555555';
export const ENV_ID = '507f1f77bcf86cd799439011';

/** The environment as a list of environments, or an archive, tells it. */
export const LISTED_ENVIRONMENT: Readonly<Record<string, unknown>> = {
  envID: ENV_ID,
  envKey: 'production',
  envName: 'Production',
  mobKey: MOBILE_KEY,
  projKey: 'default',
  projName: 'Default Project',
  sdkKey: { value: KEY },
  defaultTtl: 0,
  secureMode: false,
  version: 1,
};

/** The variables of one environment, as the vendor's relay takes them. */
export const RELAYED_ENVIRONMENT: Readonly<Record<string, string>> = {
  LD_ENV_test: KEY,
  LD_MOBILE_KEY_test: MOBILE_KEY,
  LD_CLIENT_SIDE_ID_test: ENV_ID,
};

/** The environment variables of every traced set-up. Traces have a heartbeat each second; here nobody waits that long. */
const ALWAYS = { HEARTBEAT_INTERVAL: '100ms', HEADGATE_ADMIN: '127.0.0.1:0' };

/** A Headgate in this process that is set up by the variables that set the vendor's relay up, and its clients. */
export class TracedRelay {
  readonly relay: Relay;
  readonly folder: string;
  /** What stands in answers here, and what stood in its place there. */
  readonly aliases: Map<string, string> = new Map();
  readonly #connections: Connection[] = [];

  private constructor(relay: Relay, folder: string) {
    this.relay = relay;
    this.folder = folder;
  }

  static async start(variables: Readonly<Record<string, string>>, folder = ''): Promise<TracedRelay> {
    const { config, problems } = await loadConfig({ fromEnv: true, env: { ...ALWAYS, ...variables } });
    if (config === undefined) throw new Error(`Cannot start from variables: ${JSON.stringify(problems)}`);
    const server = { ...config.server, host: '127.0.0.1', port: 0, drainDelayMs: 0, graceMs: 0 };
    const log = openLog({ level: 'none', clock: new FakeClock() });
    return new TracedRelay(await Relay.start({ config: { ...config, server }, log }), folder);
  }

  /** One that serves an archive. */
  static async archived(
    archive: TracedArchive,
    variables: Readonly<Record<string, string>> = {},
  ): Promise<TracedRelay> {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-traces-'));
    await putArchive(folder, archive);
    const traced = await TracedRelay.start(
      { FILE_DATA_SOURCE: join(folder, 'archive.tar.gz'), FILE_DATA_SOURCE_MONITORING_INTERVAL: '100ms', ...variables },
      folder,
    );
    await traced.ready();
    return traced;
  }

  async ready(): Promise<void> {
    await until('data', () => this.relay.ready);
  }

  /** Asks what the trace asked; a tag in it is replaced by the one that stands for the same here. */
  async ask({ request }: RelayTrace): Promise<Reply> {
    const { method, path, version } = request;
    const headers: Record<string, string> = { 'user-agent': 'curl/7.88.1', accept: '*/*', ...request.headers };
    if (headers['if-none-match'] !== undefined) {
      const { 'if-none-match': _theirs, ...first } = headers;
      headers['if-none-match'] = (await this.#send(path, { headers: first }).whole()).headers['etag'] ?? '';
    }
    const body = request.body === GZIPPED ? gzipSync(GZIPPED_EVENTS) : request.body;
    return this.#send(path, { method, headers, ...(body === undefined ? {} : { body }), ...(version && { version }) });
  }

  /** Opens the stream of the trace. */
  async open(trace: RelayTrace): Promise<SseReader> {
    return new SseReader(await (await this.ask(trace)).begun());
  }

  /** What is answered differently than in the trace. A stream is read until as many events and heartbeats have come. */
  async compare(trace: RelayTrace): Promise<Differences> {
    const reply = await (await this.ask(trace)).begun();
    const streams = reply.headers['content-type']?.startsWith('text/event-stream') === true;
    if (!streams) return compareReply(trace, await reply.whole(), this.#aliased(reply.body));
    const { events = [], heartbeats = false, status } = trace.response;
    const reader = new SseReader(reply);
    if (reply.status !== status) return compareStream(trace, reader);
    await reader.until(
      'as much as in the trace',
      () => reader.events.length >= events.length && (!heartbeats || reader.comments > 0),
    );
    return compareStream(trace, reader);
  }

  /** Asks for any path, as an operator does. */
  async get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return await this.#send(path, { headers }).whole();
  }

  /** Asks again and again until the answer is as awaited. */
  async until(what: string, path: string, holds: (text: string) => boolean): Promise<void> {
    let asking = false;
    let held = false;
    await until(what, () => {
      if (asking || held) return held;
      asking = true;
      void this.get(path).then((reply) => {
        held = holds(reply.body);
        asking = false;
      });
      return false;
    });
  }

  async stop(): Promise<void> {
    for (const connection of this.#connections) connection.leave();
    await this.relay.stop();
    if (this.folder !== '') await rm(this.folder, { recursive: true });
  }

  #aliased(text: string): string {
    return [...this.aliases].reduce((aliased, [ours, theirs]) => aliased.replaceAll(ours, theirs), text);
  }

  #send(path: string, more: Omit<Parameters<Connection['ask']>[0], 'path'>): Reply {
    const connection = connect('http1', this.relay.port);
    this.#connections.push(connection);
    return connection.ask({ path, ...more });
  }
}

/** What the fixture says for a body that was compressed, and what its text was. */
const GZIPPED = '@gzip';
const GZIPPED_EVENTS = '[{"kind":"identify","creationDate":1,"context":{"kind":"user","key":"g"}}]';

export interface TracedArchive {
  readonly dataId: string;
  readonly flags: readonly TracedItem[];
  readonly segments: readonly TracedItem[];
  /** What is not as in {@link LISTED_ENVIRONMENT}. */
  readonly env?: Readonly<Record<string, unknown>>;
}

/** Puts an archive where {@link TracedRelay.archived} reads it. */
export async function putArchive(folder: string, { dataId, flags, segments, env }: TracedArchive): Promise<void> {
  await writeArchive(join(folder, 'archive.tar.gz'), [
    {
      envId: ENV_ID,
      sdkKey: KEY,
      mobileKey: MOBILE_KEY,
      dataId,
      flags: byKey(flags),
      segments: byKey(segments),
      env: { ...LISTED_ENVIRONMENT, ...env },
    },
  ]);
}

function byKey(items: readonly TracedItem[]): Record<string, TracedItem> {
  return Object.fromEntries(items.map((item) => [item.key, item]));
}

/** A page of metrics in Prometheus' text format, without its values. */
export function seriesOf(page: string): Pick<RelayTraces['metrics'], 'series'> & { types: Record<string, string> } {
  const types: Record<string, string> = {};
  const series: [string, Record<string, string>][] = [];
  for (const line of page.split('\n')) {
    const [, typed, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (typed !== undefined && type !== undefined) types[typed] = type;
    const [, name, labels] = /^([a-z_]+)\{(.*)\} \S+$/.exec(line) ?? [];
    if (name === undefined || labels === undefined) continue;
    series.push([
      name,
      Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value])),
    ]);
  }
  return { types, series };
}

/**
 * What is sent to the services otherwise than by the vendor's relay: by request, the headers that read otherwise, and
 * `more` requests that it did not make. What it tells of itself is left out.
 */
export function differencesOfRequests(
  theirs: readonly TracedUpstreamRequest[],
  ours: readonly UpstreamRequest[],
): Record<string, Record<string, string> | string[]> {
  const found: Record<string, Record<string, string> | string[]> = {};
  const left = numbered(ours.map((request) => [nameOf(request.method, request.target, request.headers), request]));
  const asked = theirs.filter(({ own }) => own !== true);
  for (const [name, request] of numbered(asked.map((one) => [nameOf(one.method, one.path, one.headers), one]))) {
    const same = left.get(name);
    left.delete(name);
    const differing = same === undefined ? { request: 'none' } : differencesOfRequest(request, same);
    if (Object.keys(differing).length > 0) found[name] = differing;
  }
  return { ...found, more: [...new Set([...left.keys()].map((name) => name.replace(/ #\d+$/, '')))] };
}

/** Method and path, and what batches of events are apart by. */
function nameOf(
  method: string,
  target: string,
  headers: Readonly<Record<string, string | string[] | undefined>>,
): string {
  const apart = ['x-launchdarkly-event-schema', 'x-launchdarkly-tags'].map((name) => headers[name]);
  return [method, target, ...apart.filter((value) => value !== undefined)].join(' ');
}

/** Those that have a name already get a number. */
function numbered<T>(entries: readonly (readonly [string, T])[]): Map<string, T> {
  const all = new Map<string, T>();
  for (const [name, value] of entries) {
    let free = name;
    for (let at = 2; all.has(free); at++) free = `${name} #${at}`;
    all.set(free, value);
  }
  return all;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

function differencesOfRequest(theirs: TracedUpstreamRequest, ours: UpstreamRequest): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(theirs.headers)) {
    const here = String(ours.headers[name] ?? 'none');
    if (value === 'uuid' ? !UUID.test(here) : here !== value) found[name] = here;
  }
  if (theirs.json !== undefined && ours.body !== JSON.stringify(theirs.json)) found['body'] = ours.body;
  return found;
}
