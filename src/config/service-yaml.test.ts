import { describe, expect, it } from 'vitest';
import { type Loaded, loadConfig } from './load.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };

async function load(text: string): Promise<Loaded> {
  return await loadConfig({ file: 'hg.yaml', readFile: async () => text, fromEnv: false, machine: MACHINE });
}

describe('the service in our own file', () => {
  it('sets everything', async () => {
    const { config, problems } = await load(`
flags:
  initTimeout: 1s
  credentialCleanup: 2s
  pingJitter: 3s
  upstream:
    streamUri: https://s.example.com/prefix/
    baseUri: https://b.example.com
    clientSideBaseUri: https://c.example.com
    protocol: fdv1
    disconnectedAfter: 4s
  environments:
    production:
      sdkKey: sdk-1
      mobileKey: mob-1
      envId: env-1
      projectKey: shop
      filters: [one, two]
      secureMode: true
      ttl: 5m
      prefix: p
      tableName: t
      allowedOrigins: https://a.example.com
      allowedHeaders: [X-A]
    plain: { sdkKey: sdk-2 }
  events:
    send: true
    uri: https://e.example.com
    flushInterval: 6s
    capacity: 7
    inlineUsers: true
    maxBodyBytes: 8KiB
    heldBytes: 9MiB
  evaluation: { threads: 10, cacheBytes: 11MiB }
  bigSegments: { staleAsDegraded: true, staleThreshold: 12s }
outbound:
  proxy: { url: http://proxy:3128, user: me, password: hunter2 }
  caFiles: [a.pem, b.pem]
exit: { ignoreConnectionErrors: true }
store: none
`);
    expect(problems).toEqual([]);
    expect(config?.flags).toMatchObject({
      initTimeoutMs: 1000,
      credentialCleanupMs: 2000,
      pingJitterMs: 3000,
      upstreamProtocol: 'fdv1',
      disconnectedStatusMs: 4000,
      evaluation: { threads: 10, cacheBytesMax: 11 * 2 ** 20 },
      bigSegments: { staleAsDegraded: true, staleThresholdMs: 12_000 },
    });
    expect(config?.upstream).toEqual({
      streamUri: 'https://s.example.com/prefix',
      baseUri: 'https://b.example.com',
      clientSideBaseUri: 'https://c.example.com',
    });
    expect(config?.environments).toEqual([
      {
        name: 'production',
        sdkKey: 'sdk-1',
        mobileKey: 'mob-1',
        envId: 'env-1',
        projectKey: 'shop',
        filterKeys: ['one', 'two'],
        prefix: 'p',
        tableName: 't',
        allowedOrigins: ['https://a.example.com'],
        allowedHeaders: ['X-A'],
        secureMode: true,
        logLevel: undefined,
        ttlMs: 300_000,
      },
      {
        name: 'plain',
        sdkKey: 'sdk-2',
        mobileKey: undefined,
        envId: undefined,
        projectKey: undefined,
        filterKeys: [],
        prefix: undefined,
        tableName: undefined,
        allowedOrigins: [],
        allowedHeaders: [],
        secureMode: false,
        logLevel: undefined,
        ttlMs: 0,
      },
    ]);
    expect(config?.events).toEqual({
      send: true,
      uri: 'https://e.example.com',
      flushIntervalMs: 6000,
      capacity: 7,
      inlineUsers: true,
      inboundPayloadBytesMax: 8192,
      heldBytesMax: 9 * 2 ** 20,
    });
    expect(config?.outbound).toEqual({
      proxy: { url: 'http://proxy:3128', user: 'me', password: 'hunter2' },
      caPaths: ['a.pem', 'b.pem'],
    });
    expect(config?.exit.ignoreConnectionErrors).toBe(true);
  });

  it.each([
    ['streamUri: http://s', ['http://s', 'http://s', 'http://s']],
    ['streamUri: http://s, baseUri: http://b', ['http://s', 'http://b', 'http://b']],
    ['baseUri: http://b', ['https://stream.launchdarkly.com', 'http://b', 'http://b']],
  ])('{ %s } stands for the rest of the service', async (text, uris) => {
    const { config } = await load(`flags: { upstream: { ${text} }, environments: { a: { sdkKey: k } } }\n`);
    expect(Object.values(config?.upstream ?? {})).toEqual(uris);
  });

  it('tells what has no effect while events are not sent', async () => {
    const { problems } = await load('flags: { events: { capacity: 5 }, environments: { a: { sdkKey: k } } }\n');
    expect(problems).toEqual([
      {
        severity: 'info',
        where: 'hg.yaml:1:30',
        message: 'flags.events.capacity: has no effect unless events.send is true',
      },
    ]);
  });
});

describe('what is wrong with it, with its line and column', () => {
  it.each([
    [
      'flags:\n  environments:\n    a: { mobilKey: x, sdkKey: k }',
      '3:10',
      'no setting is named "mobilKey" under flags.environments.a (did you mean "mobileKey"?); known here: sdkKey',
    ],
    [
      'flags:\n  environments:\n    a: {}',
      '3:5',
      'flags.environments.a.sdkKey: expected a server-side key, as text without spaces, got nothing',
    ],
    [
      'flags:\n  environments:\n    "": { sdkKey: k }',
      '3:5',
      'flags.environments.: expected a name for each environment, got nothing',
    ],
    ['flags:\n  environments: [a]', '2:3', 'flags.environments: expected a mapping, got a list'],
    [
      'flags:\n  environments:\n    a: { sdkKey: same }\n    b: { sdkKey: same }',
      '4:5',
      'environment "b" has the sdkKey of "a": give it its own',
    ],
    [
      'flags:\n  sources: [{ type: file, name: f, paths: x, sdkKey: same }]\n  environments: { b: { sdkKey: same } }',
      '3:19',
      'environment "b" has the sdkKey of "f": give it its own',
    ],
    ['flags:\n  upstream: { streamUri: ftp://a }', '2:26', 'flags.upstream.streamUri: expected a base address such as'],
    ['flags:\n  upstream: { protocol: v2 }', '2:25', 'flags.upstream.protocol: expected one of auto, fdv1, fdv2'],
    ['flags:\n  evaluation: { threads: 0 }', '2:26', 'threads: expected at least 1 and at most 64, or auto, got 0'],
    ['flags:\n  evaluation: { threads: few }', '2:26', 'threads: expected a whole number, or auto, got "few"'],
    ['flags:\n  autoConfig: { prefix: a }', '2:3', 'flags.autoConfig.key: expected the key of an automatic'],
    ['outbound:\n  proxy: { user: me }', '2:3', 'outbound.proxy.url: expected a base address'],
    [
      'outbound:\n  proxy: { url: "http://me:hunter2@p" }',
      '2:17',
      'outbound.proxy.url: expected a base address such as http://127.0.0.1:8080, without a user, a query or /v1, got one with a user or password, not shown here',
    ],
    [
      'outbound:\n  proxy: { url: http://p, password: "hunter2 x" }',
      '2:37',
      'outbound.proxy.password: expected the password of the proxy, as text without spaces, got a string',
    ],
  ])('%j', async (text, place, message) => {
    const { config, problems } = await load(`${text}\n`);
    expect(config).toBeUndefined();
    expect(problems).toContainEqual({
      severity: 'error',
      where: `hg.yaml:${place}`,
      message: expect.stringContaining(message),
    });
    expect(JSON.stringify(problems)).not.toContain('hunter2');
  });
});
