import { describe, expect, it } from 'vitest';
import { hashOfKey } from './keys.ts';
import { loadConfig, type LoadOptions, type Loaded } from './load.ts';
import type { Config } from './types.ts';
import { IGNORED_BY_PATH, IGNORED_SECTIONS } from './vendor-lapi.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
const LAPI = 'decisions: { sources: [{ type: lapi, url: http://127.0.0.1:8080, key: k }] }\n';
const FILE = 'decisions: { sources: [{ type: file, paths: a.txt }], keys: [{ name: a, key: k }] }\n';
const FLAGS = 'flags: { sources: [{ type: archive, path: a.tar }] }\n';
const HASH = hashOfKey('s3cret');

async function load(
  text: string,
  files: Record<string, string> = {},
  more: Partial<LoadOptions> = {},
): Promise<Loaded> {
  const readFile = async (path: string): Promise<string> => {
    const found = path === 'hg.yaml' ? text : files[path];
    if (found === undefined) throw new Error(`ENOENT: ${path}`);
    return found;
  };
  return await loadConfig({ file: 'hg.yaml', readFile, fromEnv: false, machine: MACHINE, ...more });
}

/** Warnings and errors, each with its place. */
function complaintsOf({ problems }: Loaded): string[] {
  return problems
    .filter(({ severity }) => severity !== 'info')
    .map(({ severity, where, message }) => `${severity} ${where} ${message}`);
}

async function configOf(text: string, files?: Record<string, string>): Promise<Config> {
  const loaded = await load(text, files);
  expect(complaintsOf(loaded)).toEqual([]);
  if (loaded.config === undefined) throw new Error('no configuration came without an error');
  return loaded.config;
}

describe('decisions in our own file', () => {
  it('set everything', async () => {
    const text = `
server:
  tls: { cert: c.pem, key: k.pem, clientCa: ca.pem }
decisions:
  sources:
    - type: lapi
      name: central
      url: https://lapi.example.com/base/
      keyFile: /run/lapi
      interval: 7s
      resync: 8m
      scopes: [session, user]
      tls: { ca: a.pem, cert: b.pem, key: c.pem, serverName: lapi.internal }
    - type: file
      name: list
      paths: [a.txt, b.csv]
      interval: 9s
      duration: 10h
      origin: lists
      scenario: blocklist
      decisionType: captcha
  keys:
    - { name: nginx, key: s3cret }
    - { name: caddy, sha512: ${HASH.toUpperCase()} }
  keyFile: keys.txt
  auth: keys
  passthrough: true
  wait: 11s
  durationGranularity: 12s
  startWait: 13s
  cursorsPerKey: 14
  pollInterval: 15s
  trustedProxies: [10.0.0.0/8, '::1']
  bouncersAllowedOu: bouncers
store: { path: /var/lib/headgate }
`;
    const config = await configOf(text, { '/run/lapi': ' the-key\n', 'keys.txt': 'haproxy: x\n' });
    expect(config.decisions).toEqual({
      enabled: true,
      sources: [
        {
          type: 'lapi',
          name: 'central',
          url: 'https://lapi.example.com/base',
          key: 'the-key',
          intervalMs: 7000,
          resyncMs: 480_000,
          scopes: ['session', 'user'],
          tls: { caPath: 'a.pem', certPath: 'b.pem', keyPath: 'c.pem', serverName: 'lapi.internal', verify: true },
        },
        {
          type: 'file',
          name: 'list',
          paths: ['a.txt', 'b.csv'],
          intervalMs: 9000,
          durationMs: 36_000_000,
          origin: 'lists',
          scenario: 'blocklist',
          decisionType: 'captcha',
        },
      ],
      keys: [
        { name: 'nginx', sha512: HASH },
        { name: 'caddy', sha512: HASH },
      ],
      keyFilePath: 'keys.txt',
      delegate: false,
      passthrough: true,
      waitMsMax: 11_000,
      granularityMs: 12_000,
      startWaitMs: 13_000,
      pageItemsMax: 10_000,
      cursorsPerKeyMax: 14,
      pollMs: 15_000,
      trustedProxies: ['10.0.0.0/8', '::1'],
      bouncersAllowedOu: ['bouncers'],
    });
    expect(config.store).toEqual({ type: 'lmdb', path: '/var/lib/headgate' });
    expect(config.server.tls).toMatchObject({ clientCaPath: 'ca.pem', clientVerification: 'verify-if-given' });
    expect(config.limits).toMatchObject({ mode: 'auto', waitDecisionsMsMax: 11_000 });
  });

  it('have defaults: delegated, no pass-through, a store, port 8080, limits auto', async () => {
    const config = await configOf(LAPI);
    expect(config.decisions).toMatchObject({
      delegate: true,
      passthrough: false,
      waitMsMax: 2000,
      granularityMs: 5000,
      sources: [{ name: 'lapi', key: 'k', intervalMs: 5000, resyncMs: 600_000, scopes: [], tls: undefined }],
    });
    expect(config).toMatchObject({
      server: { port: 8080 },
      store: { type: 'lmdb', path: './headgate-data' },
      limits: { mode: 'auto', slots: 512 },
    });
    expect((await configOf(FILE)).decisions).toMatchObject({
      delegate: false,
      sources: [
        {
          name: 'file',
          paths: ['a.txt'],
          intervalMs: 1000,
          durationMs: 14_400_000,
          origin: 'cscli-import',
          scenario: 'manual',
          decisionType: 'ban',
        },
      ],
    });
  });

  it.each([
    [FLAGS, 8030, 'none'],
    [FLAGS + LAPI, 8030, 'lmdb'],
    [`server: { port: 8030 }\n${LAPI}`, 8030, 'lmdb'],
    [LAPI, 8080, 'lmdb'],
    ['api: { server: { listen_uri: "127.0.0.1:9" } }\n' + LAPI, 9, 'lmdb'],
  ])('%j: port %d, store %s', async (text, port, store) => {
    expect(await configOf(text)).toMatchObject({ server: { port }, store: { type: store } });
  });

  it.each([
    ['store: none', { type: 'none', path: '' }],
    ['store: /data', { type: 'lmdb', path: '/data' }],
    ['store: { type: none }', { type: 'none', path: '' }],
    ['store: { type: lmdb }', { type: 'lmdb', path: './headgate-data' }],
    ['store:', { type: 'lmdb', path: './headgate-data' }],
  ])('%s', async (text, store) => {
    expect((await configOf(`${LAPI}${text}\n`)).store).toEqual(store);
  });

  it('never resync more often than they pull', async () => {
    const text = 'decisions: { sources: [{ type: lapi, url: http://a, key: k, interval: 1h }] }\n';
    expect((await configOf(text)).decisions.sources).toMatchObject([{ intervalMs: 3_600_000, resyncMs: 3_600_000 }]);
  });

  it('number the names of sources that have none', async () => {
    const text = `decisions:
  sources:
    - { type: lapi, url: http://a, key: k }
    - { type: file, paths: a }
    - { type: lapi, url: http://b, key: k }
`;
    expect((await configOf(text)).decisions.sources.map(({ name }) => name)).toEqual(['lapi', 'file', 'lapi-2']);
  });

  it('are told about once, when nothing is wrong: affinity, and the automatic deletion of bouncers', async () => {
    const infos = async (text: string): Promise<string[]> =>
      (await load(text)).problems.map(({ severity, message }) => `${severity} ${message}`);
    expect(await infos(LAPI)).toEqual([
      expect.stringMatching(/^info replicas do not share their cursors/),
      expect.stringMatching(/^info .*bouncers_autodelete/),
    ]);
    expect(await infos(FILE)).toEqual([expect.stringMatching(/^info replicas do not share/)]);
    expect(await infos(FLAGS)).toEqual([]);
  });
});

describe('what is wrong with decisions, with its line', () => {
  const lapi = (more: string): string => `decisions:\n  sources:\n    - { type: lapi, url: https://a, ${more} }\n`;
  it.each([
    ['decisions:\n  surces: []', '2:3', 'no setting is named "surces" under decisions (did you mean "sources"?)'],
    ['decisions:\n  sources: [{ type: http }]', '2:21', 'decisions.sources[0].type: expected lapi or file as the type'],
    ['decisions:\n  sources: [{ type: lapi, key: k }]', '2:13', 'decisions.sources[0].url: expected a base address'],
    [lapi('keyy: k'), '3:37', '(did you mean "key"?)'],
    [lapi('name: a'), '3:7', 'expected a key, a keyFile, or a client certificate under tls, got nothing'],
    [lapi('key: k, keyFile: f'), '3:54', 'expected either a key or a keyFile, got both'],
    [lapi('key: [k]'), '3:37', 'expected the key of a bouncer of this local API, as text without spaces, got a list'],
    [lapi('key: k, interval: 900ms'), '3:55', 'interval: expected at least 1s and at most 1h, got "900ms"'],
    [lapi('key: k, interval: 1m, resync: 30s'), '3:67', 'resync: expected at least the interval'],
    [lapi('key: k, tls: { cert: c }'), '3:45', 'tls: expected cert and key together, got cert alone'],
    [lapi('tls: { key: c }'), '3:37', 'tls: expected cert and key together, got key alone'],
    [
      'decisions:\n  sources: [{ type: lapi, url: http://a, key: k, tls: { ca: c } }]',
      '2:50',
      'tls: has no effect without TLS: write the url with https',
    ],
    ['decisions:\n  sources: [{ type: file, paths: [] }]', '2:27', 'paths: expected at least one file'],
    ['decisions:\n  sources: [{ type: file, paths: a }]', '2:13', 'nobody could ask for decisions'],
    ['decisions:\n  sources: [{ type: file, paths: a }]\n  auth: keys', '3:9', 'nobody could ask for decisions'],
    [
      'decisions:\n  sources: [{ type: file, paths: a }]\n  auth: delegated',
      '3:9',
      'delegated needs a source of type lapi',
    ],
    [
      'decisions:\n  keys: [{ name: a, key: k }]\n  sources: [{ type: file, paths: a }]\n  passthrough: true',
      '4:16',
      'passthrough: expected a source of type lapi to pass requests on to, got none',
    ],
    ['decisions:\n  keys: [{ name: a }]', '2:10', 'keys[0]: expected either a key or its sha512, got neither'],
    [
      `decisions:\n  keys: [{ name: a, key: k, sha512: ${HASH} }]`,
      '2:10',
      'expected either a key or its sha512, got both',
    ],
    ['decisions:\n  keys: [{ name: a, sha512: abc }]', '2:29', 'expected the SHA-512 of a key, as 128 hexadecimal'],
    ['decisions:\n  keys: [{ name: a, key: k }, { name: a, key: l }]', '2:39', 'expected a name of its own, got "a"'],
    ['decisions:\n  keys: [{ name: a, key: k }]', '1:1', 'decisions: expected at least one source, got none'],
    ['decisions:\n  trustedProxies: [10.0.0.0/8, 10.0.0.0/33]', '2:3', 'got "10.0.0.0/33"'],
    ['decisions:\n  trustedProxies: [10.0.0.0/8/9]', '2:3', 'got "10.0.0.0/8/9"'],
    ['decisions:\n  trustedProxies: [fe80::1%lo]', '2:3', 'got "fe80::1%lo"'],
    ['decisions:\n  trustedProxies: example.com', '2:19', 'expected an IP address or a network such as 10.0.0.0/8'],
    ['decisions:\n  durationGranularity: 500ms', '2:24', 'expected at least 1s and at most 10m'],
    [
      `${LAPI.replace(' }\n', ', bouncersAllowedOu: a }\n')}`,
      '1:96',
      'client certificates count only when they are verified: set server.tls.clientCa',
    ],
    [
      `limits: { mode: off }\n${LAPI.replace(' }\n', ', wait: 1s }\n')}`,
      '2:83',
      'wait: has no effect while limits.mode',
    ],
    [
      'decisions:\n  sources:\n    - { type: file, name: a, paths: b }\n    - { type: file, name: a, paths: c }',
      '4:27',
      'expected a name of its own for each source, got "a" again',
    ],
    ['store: { type: none, path: a }', '1:28', 'store.path: has no effect while store.type is none'],
    ['store: [a]', '1:1', 'store: expected a mapping, got a list'],
    [
      'server: { tls: { cert: a, key: b, clientVerification: require } }',
      '1:55',
      'expected a clientCa beside it, to verify client certificates with, got none',
    ],
    [
      'server: { tls: { cert: a, key: b, clientCa: c, clientVerification: request } }',
      '1:45',
      'clientCa: has no effect while clientVerification is request',
    ],
  ])('%j', async (text, place, message) => {
    const { config, problems } = await load(`${text}\n`);
    expect(config).toBeUndefined();
    expect(problems).toContainEqual({
      severity: 'error',
      where: `hg.yaml:${place}`,
      message: expect.stringContaining(message),
    });
  });

  it.each([
    ['user:hunter2@lapi'],
    ['http://user:hunter2@lapi'],
    ['http://lapi/v1'],
    ['http://lapi?key=x'],
    ['http://'],
    ['lapi:8080'],
  ])('is no base address: %s', async (url) => {
    const { config, problems } = await load(`decisions:\n  sources: [{ type: lapi, url: '${url}', key: k }]\n`);
    expect(config).toBeUndefined();
    expect(problems[0]?.message).toContain('expected a base address such as http://127.0.0.1:8080');
    expect(JSON.stringify(problems)).not.toContain('hunter2');
  });

  it('is a key file that cannot be read, or has no key in it', async () => {
    const text = 'decisions:\n  sources:\n    - { type: lapi, url: http://a, keyFile: /run/key }\n';
    for (const [files, message] of [
      [{}, 'Cannot read the key: ENOENT: /run/key'],
      [{ '/run/key': ' \n' }, 'expected one key in /run/key, got nothing'],
      [{ '/run/key': 'hunter2 hunter2' }, 'expected one key in /run/key, got several words'],
    ] as const) {
      expect(complaintsOf(await load(text, files))).toEqual([`error hg.yaml:3:45 ${message}`]);
    }
  });

  it('is each ill line of the file of keys', async () => {
    const text = `decisions:\n  sources: [{ type: lapi, url: http://a, key: k }]\n  keyFile: keys.txt\n`;
    expect(complaintsOf(await load(text))).toEqual(['error hg.yaml:3:12 Cannot read the keys: ENOENT: keys.txt']);
    const ill = await load(text, { 'keys.txt': 'a: b\nhunter2\n' });
    expect(complaintsOf(ill)).toEqual([expect.stringContaining('error keys.txt:2 expected a name, a colon and a key')]);
    expect(JSON.stringify(ill)).not.toContain('hunter2');
  });

  it("stands under our own name where the local API's is there as well", async () => {
    const text = `api: { server: { tls: { bouncers_allowed_ou: [a] } } }\n${LAPI.replace(' }\n', ', bouncersAllowedOu: a }\n')}`;
    expect(complaintsOf(await load(text))).toEqual([
      expect.stringContaining(
        'warning hg.yaml:1:25 api.server.tls.bouncers_allowed_ou: is set as decisions.bouncersAllowedOu',
      ),
      expect.stringContaining('error hg.yaml:2:96 client certificates count only when they are verified'),
    ]);
  });

  it('is warned about where it is only unwise', async () => {
    expect(complaintsOf(await load(lapi('key: k, tls: { verify: false }')))).toEqual([
      expect.stringMatching(/^warning hg.yaml:3:60 decisions.sources\[0\].tls.verify: whoever sits in between/),
    ]);
  });
});

describe("the local API's own names", () => {
  const stream = (text: string): string => `api:\n  server:\n    decisions_stream: { ${text} }\n${LAPI}`;

  it.each([
    ['', { enabled: false }, 10_000],
    ['page_size: 0, max_concurrent_requests: 0, max_queue_wait: 0', { enabled: false }, 10_000],
    ['page_size: , max_concurrent_requests: , max_queue_wait:', { enabled: false }, 10_000],
    ['page_size: 500', { enabled: false }, 500],
    ['max_concurrent_requests: 8', { enabled: true, slots: 8, waitDecisionsMsMax: 10_000 }, 10_000],
    ['max_concurrent_requests: 8, max_queue_wait: 3s', { slots: 8, waitDecisionsMsMax: 3000 }, 10_000],
    ['max_queue_wait: 3s', { enabled: false }, 10_000],
  ])('mean what they mean there: %s', async (text, limits, pageItemsMax) => {
    const config = await configOf(stream(text));
    expect(config.limits).toMatchObject({ mode: 'vendor', ...limits });
    expect(config.decisions).toMatchObject({ pageItemsMax, waitMsMax: config.limits.waitDecisionsMsMax });
  });

  it('have no deadline, no parking, no early refusal and one queue for everybody', async () => {
    const { limits } = await configOf(stream('max_concurrent_requests: 8') + FLAGS);
    expect(limits).toMatchObject({
      slots: 8,
      waitStreamMsMax: 10_000,
      waitPollMsMax: 10_000,
      parking: false,
      parked: 0,
      sendTimeoutMs: undefined,
      floorBytesPerSecond: 0,
      pinnedBytesMax: Number.POSITIVE_INFINITY,
      fairness: 'off',
      earlyShed: false,
    });
    expect(limits.queue).toBeGreaterThanOrEqual(1_000_000);
  });

  it('recommend limits: auto while nothing is limited, and only then', async () => {
    const hint = async (text: string): Promise<boolean> =>
      (await load(text)).problems.some(({ message }) => message.includes('limits: auto in our own file'));
    expect(await hint(stream(''))).toBe(true);
    expect(await hint(stream('max_concurrent_requests: 8'))).toBe(false);
    expect(await hint(`limits: auto\n${stream('')}`)).toBe(false);
    expect(await hint(LAPI)).toBe(false);
  });

  it.each([
    ['page_size: -1', 'page_size: expected at least 0, got -1; 10000 is used'],
    ['max_concurrent_requests: -2', 'max_concurrent_requests: expected at least 0, got -2; there is no limit'],
    ['max_queue_wait: -3s', 'max_queue_wait: expected at least 0, got -3s; 10s is used'],
  ])('%s is warned about', async (text, message) => {
    const loaded = await load(stream(text));
    const column = 27 + text.indexOf(':');
    expect(complaintsOf(loaded)).toEqual([`warning hg.yaml:3:${column} api.server.decisions_stream.${message}`]);
    expect(loaded.config).toMatchObject({ limits: { enabled: false }, decisions: { pageItemsMax: 10_000 } });
  });

  it.each([
    ['max_concurrent_requests: many', 'expected a whole number, got "many"'],
    ['max_queue_wait: 10', 'expected a duration such as 500ms, 10s, 3m or 1h30m, got 10'],
    ['max_concurent_requests: 1', '(did you mean "max_concurrent_requests"?)'],
  ])('%s is an error', async (text, message) => {
    expect(complaintsOf(await load(stream(text)))).toEqual([expect.stringContaining(message)]);
  });

  it('replace numbers of limits: auto', async () => {
    const config = await configOf(`limits: auto\n${stream('max_concurrent_requests: 8, max_queue_wait: 3s')}`);
    expect(config.limits).toMatchObject({
      mode: 'auto',
      slots: 8,
      waitDecisionsMsMax: 3000,
      waitStreamMsMax: 10_000,
      parking: true,
      floorBytesPerSecond: 65_536,
      queue: 2048,
    });
    const plain = await configOf(`limits: auto\n${stream('max_concurrent_requests: 0')}`);
    expect(plain.limits).toMatchObject({ slots: 512, waitDecisionsMsMax: 2000 });
  });

  it('give way to numbers under our own names, with a warning', async () => {
    const text = stream('max_concurrent_requests: 8, max_queue_wait: 3s');
    const loaded = await load(`limits: { slots: 9, wait: { decisions: 4s } }\n${text}`);
    expect(loaded.config?.limits).toMatchObject({ mode: 'auto', slots: 9, waitDecisionsMsMax: 4000 });
    expect(complaintsOf(loaded)).toEqual([
      'warning hg.yaml:4:50 has no effect: limits.slots is 9; remove one of the two',
      'warning hg.yaml:4:69 has no effect: limits.wait.decisions is set; remove one of the two',
    ]);
    const off = await load(`limits: off\n${text}`);
    expect(off.config?.limits).toMatchObject({ mode: 'off', enabled: false });
    expect(complaintsOf(off)).toEqual(['warning hg.yaml:4:50 has no effect: limits are off; remove one of the two']);
    const waits = await load(text.replace(LAPI, LAPI.replace(' }\n', ', wait: 5s }\n')));
    expect(waits.config?.limits).toMatchObject({ mode: 'vendor', slots: 8, waitDecisionsMsMax: 5000 });
    expect(complaintsOf(waits)).toEqual([expect.stringContaining('decisions.wait is set')]);
  });

  it('follow HEADGATE_LIMITS', async () => {
    const text = stream('max_concurrent_requests: 8');
    const auto = await load(text, {}, { env: { HEADGATE_LIMITS: 'auto' } });
    expect(auto.config?.limits).toMatchObject({ mode: 'auto', slots: 8, waitDecisionsMsMax: 2000, parking: true });
    const off = await load(text, {}, { env: { HEADGATE_LIMITS: 'off' } });
    expect(off.config?.limits).toMatchObject({ mode: 'off', enabled: false });
  });

  it('do not take the limits of flags away when there are no decisions', async () => {
    const loaded = await load(`api:\n  server:\n    decisions_stream: { page_size: 1 }\n${FLAGS}`);
    expect(loaded.config?.limits).toMatchObject({ mode: 'auto', enabled: true });
    expect(complaintsOf(loaded)).toEqual(['warning hg.yaml:3:5 has no effect: there is no source of decisions']);
  });

  it('map to ours: address, proxies, TLS', async () => {
    const config = await configOf(`api:
  server:
    listen_uri: 127.0.0.1:9000
    use_forwarded_for_headers: true
    trusted_proxies: [10.1.0.0/16]
    profiles_path:
    tls:
      cert_file: c.pem
      key_file: k.pem
      ca_cert_path: ca.pem
      bouncers_allowed_ou: [bouncers-ou]
${LAPI}`);
    expect(config).toMatchObject({
      server: {
        host: '127.0.0.1',
        port: 9000,
        tls: {
          certPath: 'c.pem',
          keyPath: 'k.pem',
          minVersion: '1.2',
          clientCaPath: 'ca.pem',
          clientVerification: 'verify-if-given',
        },
      },
      decisions: { trustedProxies: ['10.1.0.0/16'], bouncersAllowedOu: ['bouncers-ou'] },
      limits: { mode: 'auto' },
    });
  });

  it.each([
    ['listen_uri: ":80"', { server: { host: undefined, port: 80 } }],
    ['listen_uri: "[::1]:81"', { server: { host: '::1', port: 81 } }],
    ['use_forwarded_for_headers: true', { decisions: { trustedProxies: ['0.0.0.0/0'] } }],
    ['use_forwarded_for_headers: false', { decisions: { trustedProxies: [] } }],
    ['trusted_proxies: 127.0.0.1', { decisions: { trustedProxies: ['127.0.0.1'] } }],
    ['tls: { client_verification: NoClientCert }', { server: { tls: undefined } }],
    ['tls: { cert_file: a, key_file: b }', { server: { tls: { clientVerification: 'none' } } }],
    [
      'tls: { cert_file: a, key_file: b, ca_cert_path: c, client_verification: RequireAndVerifyClientCert }',
      { server: { tls: { clientVerification: 'require' } } },
    ],
    [
      'tls: { cert_file: a, key_file: b, client_verification: RequestClientCert }',
      { server: { tls: { clientVerification: 'request' } } },
    ],
  ])('%s', async (text, expected) => {
    expect(await configOf(`api: { server: { ${text} } }\n${LAPI}`)).toMatchObject(expected);
  });

  it.each([
    ['listen_uri: localhost', 'listen_uri: expected an address and a port such as 127.0.0.1:8080, got "localhost"'],
    ['listen_uri: "a:70000"', 'listen_uri: expected an address and a port'],
    ['tls: { cert_file: a }', 'tls: expected cert_file and key_file together, got cert_file alone'],
    ['tls: { key_file: a }', 'tls: expected cert_file and key_file together, got key_file alone'],
    [
      'tls: { cert_file: a, key_file: b, client_verification: RequireAndVerifyClientCert }',
      'client_verification: expected a ca_cert_path beside it',
    ],
    ['tls: { client_verification: Always }', 'expected one of NoClientCert, RequestClientCert'],
    ['tls: { bouncers_allowed_ou: [a] }', 'client certificates count only when they are verified'],
  ])('%s is an error', async (text, message) => {
    const { config, problems } = await load(`api: { server: { ${text} } }\n${LAPI}`);
    expect(config).toBeUndefined();
    expect(problems.map((problem) => problem.message).join('\n')).toContain(message);
    expect(problems.every(({ where }) => where.startsWith('hg.yaml:1:'))).toBe(true);
  });

  it('give way to our own names, with a warning', async () => {
    const loaded = await load(`server: { host: 127.0.0.1, tls: { cert: a, key: b, clientCa: c } }
api:
  server:
    listen_uri: 0.0.0.0:1
    trusted_proxies: [10.0.0.0/8]
    tls: { cert_file: x, key_file: y, bouncers_allowed_ou: [z] }
decisions:
  sources: [{ type: lapi, url: http://a, key: k }]
  trustedProxies: []
  bouncersAllowedOu: [ours]
`);
    expect(loaded.config).toMatchObject({
      server: { host: '127.0.0.1', port: 8080, tls: { certPath: 'a' } },
      decisions: { trustedProxies: [], bouncersAllowedOu: ['ours'] },
    });
    expect(complaintsOf(loaded).map((text) => text.replace(/ is set as.*/, ''))).toEqual([
      'warning hg.yaml:4:17 api.server.listen_uri:',
      'warning hg.yaml:5:5 api.server.trusted_proxies:',
      'warning hg.yaml:6:23 api.server.tls.cert_file:',
      'warning hg.yaml:6:39 api.server.tls.bouncers_allowed_ou:',
    ]);
  });

  it('require no certificate that nobody verifies', async () => {
    const text = 'tls: { cert_file: a, key_file: b, ca_cert_path: c, client_verification: RequireAnyClientCert }';
    const loaded = await load(`api: { server: { ${text} } }\n${LAPI}`);
    expect(loaded.config?.server.tls?.clientVerification).toBe('require');
    expect(complaintsOf(loaded)).toEqual([expect.stringContaining('RequireAndVerifyClientCert is used')]);
  });

  it.each([...IGNORED_BY_PATH.keys()])('%s of api is recognised, and said to have no effect', async (name) => {
    const text = name
      .split('.')
      .toReversed()
      .reduce((inner, key) => `{ ${key}: ${inner} }`, 'x');
    const loaded = await load(`api: ${text}\n${LAPI}`);
    expect(loaded.config).toBeDefined();
    expect(complaintsOf(loaded)).toEqual([
      expect.stringMatching(new RegExp(`^warning hg.yaml:1:\\d+ api.${name}: is recognised but has no effect here`)),
    ]);
  });

  it.each([...IGNORED_SECTIONS.keys()])('%s is recognised, and said to have no effect', async (name) => {
    const loaded = await load(`${name}: { a: 1 }\n${LAPI}`);
    expect(loaded.config).toBeDefined();
    expect(complaintsOf(loaded)).toEqual([expect.stringContaining(`${name}: is recognised but has no effect here`)]);
  });

  it('says nothing of a server that is enabled', async () => {
    expect(complaintsOf(await load(`api: { server: { enable: true } }\n${LAPI}`))).toEqual([]);
  });
});
