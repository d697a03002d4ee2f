import { describe, expect, it } from 'vitest';
import { describeConfig } from './describe.ts';
import { loadConfig } from './load.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };

/** What check-config prints: problems first, then the report. */
async function printed(file: string, text: string, env: Record<string, string> = {}): Promise<string[]> {
  const { config, problems } = await loadConfig({
    file,
    readFile: async () => text,
    env,
    fromEnv: false,
    machine: MACHINE,
  });
  return [
    ...problems.map(({ severity, where, message }) => `${severity}: ${where}: ${message}`),
    ...(config === undefined ? [] : describeConfig(config).split('\n')),
  ];
}

/** From the flags to the limits: what the service has to do with. */
function middle(lines: readonly string[]): string[] {
  return lines.slice(
    lines.indexOf('Flags:'),
    lines.findIndex((line) => line.startsWith('Limits: ')),
  );
}

/** Several environments, Redis, events and a proxy. */
const SHOP = `
[Main]
  port = 8030
  initTimeout = 5s
  heartbeatInterval = 15s
  disconnectedStatusTime = 2m
  ignoreConnectionErrors = true
  bigSegmentsStaleAsDegraded = true
  pingStreamJitterTime = 3s

[Redis]
  host = "redis.internal"
  port = 6380
  tls = true
  username = "relay"
  password = "hunter2hunter2"
  localTtl = 1m
  connectTimeout = 2s
  readTimeout = 500ms
  caFile = /etc/redis-ca.pem

[Events]
  sendEvents = true
  capacity = 5000
  flushInterval = 10s
  inlineUsers = true
  maxInboundPayloadSize = 1MiB

[Proxy]
  url = "http://proxy.internal:3128"
  user = "relay"
  password = "hunter3hunter3"
  caCertFiles = "/etc/ssl/corp.pem"

[Environment "Shop Production"]
  sdkKey = "sdk-00000000-0000-4000-8000-000000001111"
  mobileKey = "mob-00000000-0000-4000-8000-000000002222"
  envId = "507f1f77bcf86cd799433333"
  prefix = "ld:shop:prod"
  allowedOrigin = "https://shop.example.com"
  allowedHeader = "X-Shop"
  secureMode = true
  ttl = 5m
  projKey = shop

[Environment "Shop Test"]
  sdkKey = "sdk-00000000-0000-4000-8000-000000004444"
  prefix = "ld:shop:test"
  projKey = shop

[Filters "shop"]
  keys = checkout, search

[Concurrency]
  maxConcurrent = 300
`;

describe('the report', () => {
  it('of several environments with Redis, events and a proxy', async () => {
    const lines = await printed('relay.conf', SHOP);
    expect(middle(lines)).toEqual([
      'Flags:',
      '  environment "Shop Production" from the service, server key ...1111, mobile key ...2222, client-side ID ...3333, filters checkout search, polls cached for 5m, secure mode, in Redis under "ld:shop:prod", by filter under "ld:shop:prod.checkout" "ld:shop:prod.search", browsers of https://shop.example.com only, which may send X-Shop',
      '  environment "Shop Test" from the service, server key ...4444, filters checkout search, in Redis under "ld:shop:test", by filter under "ld:shop:test.checkout" "ld:shop:test.search"',
      '  service: flags from https://stream.launchdarkly.com (FDv2 where it has it, else FDv1), polls from https://sdk.launchdarkly.com, goals from https://clientsdk.launchdarkly.com',
      '  ready when every environment has data, or after 5s when some have, errors at start are ignored; while one has none, its polls are answered 503 and its streams wait',
      '  /status says disconnected when the service is lost for 2m',
      '  expired keys are looked for every 1m',
      '  heartbeat every 15s, streams stay open, compression off, catch-up safe',
      '  change log of 10000 batches or 64MiB per environment',
      '  browsers and phones are evaluated for on a thread for each core but one, 32MiB of results kept, pings held back by up to 3s',
      'Events: sent to https://events.launchdarkly.com every 10s, whole contexts in each; at most 5000 held per environment and 32MiB in all, requests up to 1MiB',
      'Outbound: through the proxy http://proxy.internal:3128 as "relay", trusting /etc/ssl/corp.pem as well',
      'Big segments: looked up in Redis, where something else must keep them up to date; stale after 5m, and then /status says degraded',
      'Database: Redis at rediss://redis.internal:6380 as "relay", trusting /etc/redis-ca.pem, 2s to connect, 500ms to answer, for flags in the vendor\'s layout; replicas share them, and the order of changes',
    ]);
    expect(lines[0]).toBe(
      'info: relay.conf:17: localTtl has no effect: everything is held in memory, and never looked up in the database',
    );
    expect(lines[1]).toBe("Configuration: relay.conf (the vendor's names)");
  });

  // Fails when a key is printed without maskKey, or an address without withoutUser.
  it('never has a password or a whole key in it', async () => {
    const more = SHOP.replace('host = "redis.internal"\n  port = 6380', 'url = redis://:hunter4@r')
      .replace('url = "http://proxy', 'url = "http://me:hunter5@proxy')
      .replace(
        '[Main]',
        '[Main]\n  streamUri = https://me:hunter6@s.example.com\n  baseUri = https://me:hunter6@b.example.com',
      )
      .replace('[Events]', '[Events]\n  eventsUri = https://me:hunter7@e.example.com');
    const auto =
      '[AutoConfig]\nkey = rel-00000000-0000-4000-8000-00000000abcd\ncacheKey = c\ncacheEncryptionKey = hunter8\n';
    const dynamo =
      '[DynamoDB]\nenabled\ntableName = t\nurl = http://me:hunter9@d\n[Environment "a"]\nsdkKey = k\nprefix = p\n';
    const all = [
      ...(await printed('relay.conf', more)),
      ...(await printed('relay.conf', auto, { HEADGATE_STORE: '/data' })),
      ...(await printed('relay.conf', dynamo)),
      ...(await printed('relay.conf', more.replace('baseUri =', '# ').replace('eventsUri =', '# '))),
    ].join('\n');
    expect(all).not.toMatch(/hunter|000000001111|799433333|00000000abcd/);
    for (const part of [
      'rediss://r ',
      's.example.com',
      'b.example.com',
      'e.example.com',
      'set baseUri as well',
      'set eventsUri',
      '...abcd',
      'http://d,',
    ])
      expect(all).toContain(part);
  });

  it('of automatic configuration with Redis and a cache', async () => {
    const text = `
[AutoConfig]
  key = "rel-00000000-0000-4000-8000-00000000abcd"
  cacheKey = "relay-a"
  cacheEncryptionKey = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
  envDatastorePrefix = "ld-$CID"
  envAllowedOrigin = "https://shop.example.com"
[Redis]
  url = "redis://10.0.0.1:6379/2"
`;
    const lines = middle(await printed('relay.conf', text));
    expect(lines.slice(1, 6)).toEqual([
      '  service: flags from https://stream.launchdarkly.com (FDv2 where it has it, else FDv1), polls from https://sdk.launchdarkly.com, goals from https://clientsdk.launchdarkly.com',
      '  environments as the service lists them for the key ...abcd, in Redis under "ld-$CID", browsers of https://shop.example.com only',
      '  that list is kept encrypted in Redis as "relay-a", for a start without the service',
      '  ready when every environment has data, or after 10s when some have; while one has none, its polls are answered 503 and its streams wait',
      '  /status says disconnected when the service is lost for 1m',
    ]);
    expect(lines.at(-1)).toContain('Database: Redis at redis://10.0.0.1:6379/2, for flags');
  });

  it('of automatic configuration alone', async () => {
    const text = '[AutoConfig]\nkey = rel-1\n';
    expect(middle(await printed('relay.conf', text))).toEqual(
      expect.arrayContaining([
        '  that list is kept nowhere, so that there is no start without the service',
        'Store: none, so a start without the service has nothing to serve',
      ]),
    );
    const kept = `${text}cacheKey = c\ncacheEncryptionKey = e\n`;
    expect(middle(await printed('relay.conf', kept, { HEADGATE_STORE: '/data' }))).toEqual(
      expect.arrayContaining([
        '  that list is kept encrypted in /data as "c", for a start without the service',
        'Store: /data, for flags and the log of their changes, the list of environments; not shared between replicas',
      ]),
    );
  });

  it('of an archive with DynamoDB', async () => {
    const text = `
[OfflineMode]
  fileDataSource = "/data/flags.tar.gz"
  envDatastorePrefix = "ld-$CID"
[DynamoDB]
  enabled
  tableName = flags
`;
    expect(middle(await printed('relay.conf', text))).toEqual([
      'Flags:',
      '  archive /data/flags.tar.gz, looked at every 1s, environments and keys as it says, in the DynamoDB table "flags" under "ld-$CID"',
      '  heartbeat every 3m, streams stay open, compression off, catch-up safe',
      '  change log of 10000 batches or 64MiB per environment',
      '  browsers and phones are evaluated for on a thread for each core but one, 32MiB of results kept, pings at once',
      'Big segments: looked up in DynamoDB, where something else must keep them up to date; stale after 5m, which /status shows',
      "Database: DynamoDB, for flags in the vendor's layout; replicas share them, but not the order of changes",
    ]);
  });

  it('of our own file, flags in Redis and decisions in a folder', async () => {
    const text = `
flags:
  upstream: { streamUri: http://core:8030, protocol: fdv2 }
  environments: { a: { sdkKey: sdk-12345678, prefix: pa } }
  evaluation: { threads: 1, cacheBytes: 0 }
decisions: { sources: [{ type: lapi, url: http://a, key: k }] }
outbound: { caFiles: ca.pem }
store: { type: redis, path: /d, url: rediss://r, tls: { cert: c, key: k, verify: false } }
`;
    const lines = await printed('hg.yaml', text);
    expect(lines).toEqual(
      expect.arrayContaining([
        '  service: flags from http://core:8030 (FDv2 only), polls from http://core:8030, goals from http://core:8030',
        '  browsers and phones are evaluated for on 1 thread, no results kept, pings at once',
        'Outbound: directly, trusting ca.pem as well',
        "Database: Redis at rediss://r, with the certificate c, any certificate is accepted, for flags in the vendor's layout; replicas share them, and the order of changes",
        'Store: /d, for decisions, cursors and good keys; not shared between replicas',
      ]),
    );
  });

  it('of when it ends by itself', async () => {
    const text = '[Main]\nexitOnError\n[Environment "a"]\nsdkKey = k\n';
    expect(await printed('relay.conf', text)).toContain('Ends: when something cannot be loaded at start');
    expect(await printed('relay.conf', text.replace('[Main]', '[Main]\nignoreConnectionErrors'))).toContain(
      'Ends: when something cannot be loaded at start, but for a service that cannot be reached',
    );
  });
});
