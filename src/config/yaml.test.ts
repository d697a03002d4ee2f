import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { DECISION_VARIABLES } from './decisions-env.ts';
import { loadConfig, type Loaded } from './load.ts';
import { SERVICE_VARIABLES } from './service-env.ts';
import { TELEMETRY_VARIABLES } from './telemetry.ts';
import { VENDOR_NAMES } from './names.ts';
import type { Config } from './types.ts';
import { IGNORED_SECTIONS } from './vendor-lapi.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
const SOURCE = 'flags: { sources: [{ type: archive, path: a.tar }] }\n';
const EXAMPLE = new URL('../../docs/headgate.example.yaml', import.meta.url);
const GUIDE = new URL('../../docs/configuration.md', import.meta.url);

async function load(text: string): Promise<Loaded> {
  const readFile = async (path: string): Promise<string> => (path === 'hg.yaml' ? text : 'nginx: s3cret\n');
  return await loadConfig({ file: 'hg.yaml', readFile, fromEnv: false, machine: MACHINE });
}

async function configOf(text: string): Promise<Config> {
  const { config, problems } = await load(text);
  expect(problems.filter(({ severity }) => severity !== 'info')).toEqual([]);
  if (config === undefined) throw new Error('no configuration came without an error');
  return config;
}

describe('our own file', () => {
  it('sets everything', async () => {
    const config = await configOf(`
server:
  host: 127.0.0.1
  port: 0
  tls: { cert: c.pem, key: k.pem, minVersion: '1.3', clientCa: ca.pem, clientVerification: require }
  http2: false
  backlog: 9
  headersTimeout: 2s
  requestTimeout: 3s
  keepAliveTimeout: 4s
  maxHeaderBytes: 8KiB
  maxBodyBytes: 1MB
  drainDelay: 0
  grace: 1m
  http2MaxConcurrentStreams: 7
limits:
  mode: auto
  slots: 11
  queue: 12
  wait: { stream: 13s, poll: 500ms, decisions: 900ms }
  parked: 14
  pinnedBytes: 15MiB
  sendTimeout: 16s
  link: 10Gbit/s
  floor: 17KiB/s
  slack: 18s
  fairness: off
  parking: true
  earlyShed: false
  turn: 19MiB
  lowWaterMark: 128KiB
flags:
  heartbeat: 20s
  maxConnectionTime: 21m
  compression: off
  retry: 22s
  catchUp: all
  aheadWait: 23s
  log: { batches: 27, bytes: 28MiB }
  sources:
    - type: archive
      path: a.tar.gz
      interval: 29s
      allowedOrigins: https://a.example.com
      allowedHeaders: [X-One, X-Two]
    - type: file
      name: prod
      paths: [flags.json, segments.yaml]
      sdkKey: sdk-1
      mobileKey: mob-1
      envId: env-1
      projectKey: shop
      ttl: 5m
      secureMode: true
exit: { onError: true, always: true }
log: { level: none, format: pretty }
`);
    expect(config.server).toEqual({
      host: '127.0.0.1',
      port: 0,
      tls: {
        certPath: 'c.pem',
        keyPath: 'k.pem',
        minVersion: '1.3',
        clientCaPath: 'ca.pem',
        clientVerification: 'require',
      },
      http2: false,
      backlog: 9,
      headersTimeoutMs: 2000,
      requestTimeoutMs: 3000,
      keepAliveTimeoutMs: 4000,
      headerBytesMax: 8192,
      bodyBytesMax: 1_000_000,
      http2ConcurrentStreamsMax: 7,
      drainDelayMs: 0,
      graceMs: 60_000,
    });
    expect(config.limits).toEqual({
      mode: 'auto',
      enabled: true,
      slots: 11,
      queue: 12,
      waitStreamMsMax: 13_000,
      waitPollMsMax: 500,
      waitDecisionsMsMax: 900,
      parking: true,
      parked: 14,
      pinnedBytesMax: 15 * 2 ** 20,
      sendTimeoutMs: 16_000,
      linkBytesPerSecond: 1_250_000_000,
      floorBytesPerSecond: 17 * 1024,
      slackMs: 18_000,
      fairness: 'off',
      earlyShed: false,
      turnBytesMax: 19 * 2 ** 20,
      lowWaterMarkBytes: 128 * 1024,
    });
    expect(config.flags).toEqual({
      initTimeoutMs: 10_000,
      disconnectedStatusMs: 60_000,
      credentialCleanupMs: 60_000,
      pingJitterMs: 0,
      upstreamProtocol: 'auto',
      evaluation: { threads: 'auto', cacheBytesMax: 32 * 2 ** 20 },
      bigSegments: { staleAsDegraded: false, staleThresholdMs: 300_000 },
      heartbeatMs: 20_000,
      connectionMsMax: 21 * 60_000,
      compression: 'off',
      retryMs: 22_000,
      catchUp: 'all',
      aheadWaitMs: 23_000,
      logBatchesMax: 27,
      logBytesMax: 28 * 2 ** 20,
      sources: [
        {
          type: 'archive',
          path: 'a.tar.gz',
          intervalMs: 29_000,
          allowedOrigins: ['https://a.example.com'],
          allowedHeaders: ['X-One', 'X-Two'],
        },
        {
          type: 'file',
          name: 'prod',
          paths: ['flags.json', 'segments.yaml'],
          intervalMs: 1000,
          sdkKey: 'sdk-1',
          mobileKey: 'mob-1',
          envId: 'env-1',
          projectKey: 'shop',
          ttlMs: 300_000,
          secureMode: true,
          allowedOrigins: [],
          allowedHeaders: [],
        },
      ],
    });
    expect(config).toMatchObject({ exit: { onError: true, always: true }, log: { level: 'none', format: 'pretty' } });
  });

  it.each([
    ['limits: auto', { mode: 'auto', slots: 512 }],
    ['limits: off', { mode: 'off', enabled: false }],
    ['limits:', { mode: 'auto', slots: 512 }],
    ['limits: { slots: 32 }', { mode: 'auto', slots: 32, queue: 2048 }],
    ['limits: { mode: auto, slots: 32 }', { mode: 'auto', slots: 32 }],
    [
      'limits: { mode: off, turn: 2MiB, lowWaterMark: off }',
      { mode: 'off', turnBytesMax: 2 * 2 ** 20, lowWaterMarkBytes: undefined },
    ],
    ['limits: { wait: 3s }', { waitStreamMsMax: 3000, waitPollMsMax: 3000, waitDecisionsMsMax: 3000 }],
    ['limits: { wait: { poll: off } }', { waitStreamMsMax: 10_000, waitPollMsMax: Number.POSITIVE_INFINITY }],
    [
      'limits: { sendTimeout: auto, link: off, floor: off, pinnedBytes: off }',
      { sendTimeoutMs: undefined, floorBytesPerSecond: 0, pinnedBytesMax: Number.POSITIVE_INFINITY },
    ],
    ['limits: { parking: false }', { parking: false, parked: 0 }],
  ])('%s', async (text, limits) => {
    expect((await configOf(`${text}\n${SOURCE}`)).limits).toMatchObject(limits);
  });

  it('follows anchors and aliases, and counts commented-out sections as empty', async () => {
    const config = await configOf(
      'server:\n  # port: 1\nflags:\n  heartbeat: &beat 7s\n  aheadWait: *beat\n  log:\n  sources: [{ type: archive, path: a }]\n',
    );
    expect(config.flags).toMatchObject({ heartbeatMs: 7000, aheadWaitMs: 7000, logBatchesMax: 10_000 });
  });
});

describe('what is wrong, with its line and column', () => {
  it.each([
    [
      'server:\n  prot: 1',
      '2:3',
      'no setting is named "prot" under server (did you mean "port"?); known here: host, port',
    ],
    [
      'sever: {}',
      '1:1',
      'no setting is named "sever" (did you mean "server"?); known here: server, limits, flags, outbound, exit, log',
    ],
    [
      'server:\n  tls:\n    cert: a\n    key: b\n    sni: c',
      '5:5',
      'no setting is named "sni" under server.tls; known here: cert, key, minVersion',
    ],
    ['server:\n  port: eighty', '2:9', 'server.port: expected a whole number, got "eighty"'],
    ['server:\n  port: 70000', '2:9', 'server.port: expected at least 0 and at most 65535, got 70000'],
    ['server:\n  http2: yes please', '2:10', 'server.http2: expected true or false, got "yes please"'],
    ['server:\n  grace: 10', '2:10', 'server.grace: expected a duration such as 500ms, 10s, 3m or 1h30m, got 10'],
    ['server:\n  headersTimeout: 1ms', '2:19', 'server.headersTimeout: expected at least 1s and at most 1h, got "1ms"'],
    [
      'server:\n  maxBodyBytes: big',
      '2:17',
      'server.maxBodyBytes: expected a size in bytes such as 65536, 64KiB, 1MiB or 10MB, got "big"',
    ],
    ['server:\n  host:', '2:3', 'server.host: expected an address to bind, as text, got nothing'],
    ['server:\n  tls:\n    cert: a', '2:3', 'server.tls.key: expected the path of a PEM file, as text, got nothing'],
    ['server: 5', '1:9', 'server: expected a mapping, got a number'],
    ['- 1', '1:1', 'expected a mapping, got a list'],
    ['limits: some', '1:9', 'limits.mode: expected one of auto, off, got "some"'],
    [
      'limits:\n  wait: { stream: soon }',
      '2:19',
      'limits.wait.stream: expected a duration such as 500ms, 10s, 3m or 1h30m, or off, got "soon"',
    ],
    ['limits:\n  mode: off\n  slots: 3', '3:10', 'limits.slots: has no effect while limits.mode is off'],
    ['limits:\n  slots: 0', '2:10', 'limits.slots: expected at least 1 and at most 65536, got 0'],
    ['limits:\n  lowWaterMark: [1]', '2:3', 'limits.lowWaterMark: expected a size in bytes'],
    ['flags:\n  catchUp: sometimes', '2:12', 'flags.catchUp: expected one of safe, all, off, got "sometimes"'],
    ['flags:\n  sources: a.tar', '2:12', 'flags.sources: expected a list, got a string'],
    [
      'flags:\n  sources:\n    - type: redis',
      '3:13',
      'flags.sources[0].type: expected archive or file as the type of a source',
    ],
    [
      'flags:\n  sources:\n    - path: a',
      '3:7',
      'flags.sources[0].type: expected archive or file as the type of a source',
    ],
    [
      'flags:\n  sources:\n    - type: archive\n      path: a\n      paths: b',
      '5:7',
      'no setting is named "paths" under flags.sources[0] (did you mean "path"?)',
    ],
    [
      'flags:\n  sources:\n    - type: archive\n      path: a\n      interval: 1ms',
      '5:17',
      'flags.sources[0].interval: expected at least 100ms and at most 24h, got "1ms"',
    ],
    [
      'flags:\n  sources:\n    - { type: file, name: a, paths: [b] }',
      '3:7',
      'flags.sources[0]: expected at least one of sdkKey, mobileKey and envId',
    ],
    [
      'flags:\n  sources:\n    - { type: file, name: a, paths: [], sdkKey: k }',
      '3:30',
      'flags.sources[0].paths: expected at least one file',
    ],
    [
      'flags:\n  sources:\n    - { type: file, name: a, paths: b, sdkKey: k }\n    - { type: file, name: a, paths: b, sdkKey: l }',
      '4:27',
      'flags.sources[1].name: expected a name of its own, got "a" again',
    ],
    ['a: 1\na: 2', '2:1', 'not valid YAML: Map keys must be unique'],
    ['server: {', '2:1', 'not valid YAML: '],
    ['server: *nobody', '1:9', 'not valid YAML: Unresolved alias'],
    ['a\n---\nb', '2:1', 'not valid YAML: Source contains multiple documents'],
  ])('%j', async (text, place, message) => {
    const { config, problems } = await load(`${text}\n`);
    expect(config).toBeUndefined();
    expect(problems).toContainEqual({
      severity: 'error',
      where: `hg.yaml:${place}`,
      message: expect.stringContaining(message),
    });
  });

  it('is reported whole, from top to bottom', async () => {
    const { problems } = await load('server:\n  port: x\n  prot: 1\nlimits: y\nflags:\n  heartbeat: z\n');
    expect(problems.map(({ where }) => where)).toEqual(['hg.yaml:2:9', 'hg.yaml:3:3', 'hg.yaml:4:9', 'hg.yaml:6:14']);
  });

  it('is only the syntax, while the file is no YAML', async () => {
    const { problems } = await load('a: 1\na: 2\n');
    expect(problems.map(({ message }) => message)).toEqual(['not valid YAML: Map keys must be unique']);
  });

  it('stands where an alias points to', async () => {
    const { problems } = await load('flags:\n  sources:\n    - &one { type: archive, path: 1 }\n    - *one\n');
    expect(problems.map(({ where }) => where)).toEqual(['hg.yaml:3:35', 'hg.yaml:3:35']);
  });

  it('never repeats a key', async () => {
    const { problems } = await load(
      'flags:\n  sources:\n    - { type: file, name: a, paths: b, sdkKey: "sdk 1234567890" }\n',
    );
    expect(problems.map(({ message }) => message)).toEqual([
      'flags.sources[0].sdkKey: expected a server-side key, as text without spaces, got a string',
    ]);
  });

  it('stops aliases that were made to exhaust memory', async () => {
    const levels = Array.from(
      { length: 12 },
      (_, level) =>
        `l${level}: &a${level} [${level === 0 ? '1' : Array.from({ length: 9 }, () => `*a${level - 1}`).join(', ')}]`,
    );
    const { config, problems } = await load(`${levels.join('\n')}\n`);
    expect(config).toBeUndefined();
    expect(problems[0]?.message).toContain('Excessive alias count');
  });
});

describe('the example and the guide', () => {
  /** Turns each commented-out setting of the example on, so that all of them are read. */
  function uncommented(text: string): string {
    return text.replace(/^(\s*)#(?=[ ]?\s*[\w-]+:|[ ]?\s*- )[ ]?/gm, '$1');
  }

  /** The settings that stand in place of others, each as a file of its own. */
  function alternatives(text: string): string[] {
    const blocks = text.match(/(?:^[ ]*## .*\n)+/gm) ?? [];
    return blocks.map((block) => {
      const lines = block.replace(/^([ ]*)## /gm, '$1');
      return lines.startsWith(' ')
        ? `flags:\n${lines}`
        : `${lines}flags: { environments: { a: { sdkKey: k, prefix: p } } }\n`;
    });
  }

  it('loads the example as it is', async () => {
    const config = await configOf(await readFile(EXAMPLE, 'utf8'));
    expect(config.flags.sources).toHaveLength(1);
    expect(config.limits).toMatchObject({ mode: 'auto', slots: 512 });
  });

  it('states the default wherever the example shows one', async () => {
    const example = await configOf(await readFile(EXAMPLE, 'utf8'));
    const lapi = '{ type: lapi, url: https://lapi.example.com:8080, key: the-key-that-cscli-bouncers-add-printed }';
    const plain = await configOf(
      `flags: { sources: [{ type: archive, path: /var/lib/headgate/flags.tar.gz }] }\ndecisions: { sources: [${lapi}] }\n`,
    );
    expect(example).toEqual(plain);
  });

  it('loads with every commented-out setting on', async () => {
    const config = await configOf(uncommented(await readFile(EXAMPLE, 'utf8')));
    expect(config).toMatchObject({
      server: { host: '127.0.0.1', tls: { minVersion: '1.2' } },
      limits: { slots: 512, parked: 256 },
    });
    expect(config.flags.sources.map(({ type }) => type)).toEqual(['archive', 'file']);
    expect(config.environments.map(({ name }) => name)).toEqual(['staging']);
    expect(config.decisions.sources.map(({ type }) => type)).toEqual(['lapi', 'file']);
  });

  it('loads with each of the settings that stand in place of others', async () => {
    const texts = alternatives(await readFile(EXAMPLE, 'utf8'));
    const [automatic, redis, dynamo] = await Promise.all(texts.map(async (text) => (await load(text)).config));
    expect(texts).toHaveLength(3);
    expect(automatic?.autoConfig?.cache).toEqual({ name: 'auto-config', encryptionKey: 'a-long-random-text' });
    expect(redis).toMatchObject({
      store: { type: 'lmdb', path: './headgate-data' },
      redis: { url: 'rediss://127.0.0.1:6379' },
    });
    expect(dynamo).toMatchObject({
      store: { type: 'lmdb', path: './headgate-data' },
      dynamoDb: { tableName: 'flags', url: 'http://127.0.0.1:8000', prefix: 'all' },
    });
  });

  it.each([
    'zz: 1',
    'server: { zz: 1 }',
    'server: { tls: { cert: a, key: b, zz: 1 } }',
    'limits: { zz: 1 }',
    'limits: { wait: { zz: 1 } }',
    'flags: { zz: 1 }',
    'flags: { log: { zz: 1 } }',
    'flags: { upstream: { zz: 1 } }',
    'flags: { environments: { a: { sdkKey: k, zz: 1 } } }',
    'flags: { autoConfig: { key: k, zz: 1 } }',
    'flags: { events: { zz: 1 } }',
    'flags: { evaluation: { zz: 1 } }',
    'flags: { bigSegments: { zz: 1 } }',
    'flags: { bigSegments: { dynamoDb: { zz: 1 } } }',
    'outbound: { zz: 1 }',
    'outbound: { proxy: { url: http://a, zz: 1 } }',
    'store: { tls: { zz: 1 } }',
    'flags: { sources: [{ type: archive, path: a, zz: 1 }] }',
    'flags: { sources: [{ type: file, name: a, paths: a, zz: 1 }] }',
    'decisions: { zz: 1 }',
    'decisions: { sources: [{ type: lapi, url: http://a, key: k, zz: 1 }] }',
    'decisions: { sources: [{ type: lapi, url: https://a, key: k, tls: { zz: 1 } }] }',
    'decisions: { sources: [{ type: file, paths: a, zz: 1 }] }',
    'decisions: { keys: [{ name: a, key: k, zz: 1 }] }',
    'store: { zz: 1 }',
    'admin: { zz: 1 }',
    'otlp: { zz: 1 }',
    'exit: { zz: 1 }',
    'log: { zz: 1 }',
  ])('has every setting beside zz in the guide and in the example: %s', async (strange) => {
    const { problems } = await load(strange);
    const listed = /known here: (.*)$/.exec(problems[0]?.message ?? '')?.[1]?.split(', ') ?? [];
    const known = listed.filter((key) => key !== 'api' && !IGNORED_SECTIONS.has(key)); // the vendor's
    const text = await readFile(EXAMPLE, 'utf8');
    const [guide, example] = [await readFile(GUIDE, 'utf8'), [uncommented(text), ...alternatives(text)].join('')];
    expect(known.length).toBeGreaterThan(1);
    expect(known.filter((key) => !guide.includes(`\`${key}\``))).toEqual([]);
    expect(known.filter((key) => !new RegExp(`^\\s*(- )?${key}:`, 'm').test(example))).toEqual([]);
  });

  it.each([
    'api: { zz: 1 }',
    'api: { server: { zz: 1 } }',
    'api: { server: { decisions_stream: { zz: 1 } } }',
    'api: { server: { tls: { zz: 1 } } }',
  ])("has every one of the local API's names beside zz in the guide: %s", async (text) => {
    const { problems } = await load(text);
    const known = /known here: (.*)$/.exec(problems[0]?.message ?? '')?.[1]?.split(', ') ?? [];
    const guide = await readFile(GUIDE, 'utf8');
    expect(known.length).toBeGreaterThan(1);
    expect(known.filter((key) => !new RegExp(`\\b${key}\\b`).test(guide))).toEqual([]);
  });

  it('has every variable of our own for decisions and flags in the guide', async () => {
    const guide = await readFile(GUIDE, 'utf8');
    expect([...DECISION_VARIABLES, ...SERVICE_VARIABLES].filter((name) => !guide.includes(`\`${name}\``))).toEqual([]);
  });

  it('has every variable for metrics in the guide', async () => {
    const guide = await readFile(GUIDE, 'utf8');
    expect(TELEMETRY_VARIABLES.filter((name) => !guide.includes(`\`${name}\``))).toEqual([]);
  });

  it("has every one of the vendor's names in the guide", async () => {
    const guide = await readFile(GUIDE, 'utf8');
    const names = VENDOR_NAMES.flatMap(({ key, env }) => (key === undefined ? [env] : [key, env]));
    expect(names.filter((name) => !guide.includes(`\`${name}`))).toEqual([]);
  });
});
