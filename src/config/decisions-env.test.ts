import { describe, expect, it } from 'vitest';
import { hashOfKey } from './keys.ts';
import { loadConfig, type Loaded } from './load.ts';
import type { Config } from './types.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
const LAPI = { HEADGATE_LAPI_URL: 'http://lapi:8080/', HEADGATE_LAPI_KEY: 'k' };
const FILE = { HEADGATE_DECISIONS_FILE: 'a.txt', BOUNCER_KEY_a: 'k' };

interface Given {
  readonly env: Record<string, string>;
  /** Texts by path; `hg.yaml` and `relay.conf` are configurations. */
  readonly files?: Record<string, string>;
  readonly fromEnv?: boolean;
}

async function load({ env, files = {}, fromEnv = true }: Given): Promise<Loaded> {
  return await loadConfig({
    file: Object.keys(files).find((path) => path === 'hg.yaml' || path === 'relay.conf'),
    env,
    fromEnv,
    machine: MACHINE,
    readFile: async (path) => {
      const text = files[path];
      if (text === undefined) throw new Error(`ENOENT: ${path}`);
      return text;
    },
    readFolder: async (path) => {
      const inside = Object.keys(files).filter((file) => file.startsWith(`${path}/`));
      if (inside.length === 0) throw new Error(`ENOENT: ${path}`);
      return inside.map((file) => file.slice(path.length + 1));
    },
  });
}

function complaintsOf({ problems }: Loaded): string[] {
  return problems
    .filter(({ severity }) => severity !== 'info')
    .map(({ severity, where, message }) => `${severity} ${where} ${message}`);
}

async function configOf(env: Record<string, string>, files?: Record<string, string>): Promise<Config> {
  const loaded = await load({ env, ...(files === undefined ? {} : { files }) });
  expect(complaintsOf(loaded)).toEqual([]);
  if (loaded.config === undefined) throw new Error('no configuration came without an error');
  return loaded.config;
}

describe('decisions from the environment', () => {
  it('need no more than a local API and a key', async () => {
    expect(await configOf(LAPI)).toMatchObject({
      origin: 'environment',
      file: undefined,
      server: { port: 8080, drainDelayMs: 5000 },
      decisions: {
        enabled: true,
        delegate: true,
        passthrough: false,
        sources: [{ type: 'lapi', name: 'lapi', url: 'http://lapi:8080', key: 'k', intervalMs: 5000 }],
      },
      store: { type: 'lmdb', path: './headgate-data' },
      limits: { mode: 'auto', slots: 512, waitDecisionsMsMax: 2000 },
    });
  });

  it('take several local APIs in the order of their numbers, and files', async () => {
    const config = await configOf(
      {
        HEADGATE_LAPI_URL_10: 'http://ten',
        HEADGATE_LAPI_KEY_10: 'k10',
        HEADGATE_LAPI_URL_2: 'https://two',
        HEADGATE_LAPI_KEY_FILE_2: '/run/key2',
        ...LAPI,
        HEADGATE_DECISIONS_FILE: 'a.txt, b.csv',
      },
      { '/run/key2': 'k2\n' },
    );
    expect(config.decisions.sources).toMatchObject([
      { name: 'lapi', url: 'http://lapi:8080', key: 'k' },
      { name: 'lapi-2', url: 'https://two', key: 'k2' },
      { name: 'lapi-3', url: 'http://ten', key: 'k10' },
      { name: 'file', paths: ['a.txt', 'b.csv'] },
    ]);
  });

  it('take keys from variables and from secrets, and keep only their hashes', async () => {
    const config = await configOf(
      { ...LAPI, BOUNCER_KEY_nginx: 'one', BOUNCER_KEY_both: 'two', BOUNCER_KEY_empty: '' },
      {
        '/run/secrets/bouncer_key_caddy': 'three\n',
        '/run/secrets/BOUNCER_KEY_haproxy': 'four',
        '/run/secrets/bouncer_key_both': 'another',
        '/run/secrets/bouncer_key_blank': '\n',
        '/run/secrets/password': 'not a key',
      },
    );
    expect(config.decisions.keys).toEqual(
      [
        ['nginx', 'one'],
        ['both', 'two'],
        ['haproxy', 'four'],
        ['caddy', 'three'],
      ].map(([name, key = '']) => ({ name, sha512: hashOfKey(key) })),
    );
    expect(JSON.stringify(config)).not.toMatch(/one|two|three|four/);
  });

  it('set the store and pass-through', async () => {
    expect(await configOf({ ...LAPI, HEADGATE_STORE: '/data', HEADGATE_PASSTHROUGH: 'true' })).toMatchObject({
      store: { type: 'lmdb', path: '/data' },
      decisions: { passthrough: true },
    });
    expect((await configOf({ ...LAPI, HEADGATE_STORE: 'none' })).store).toEqual({ type: 'none', path: '' });
    expect((await configOf({ ...LAPI, HEADGATE_STORE: '', HEADGATE_PASSTHROUGH: '' })).store.type).toBe('lmdb');
  });

  it.each([
    [{}, 8080],
    [{ PORT: '9000' }, 9000],
    [{ PORT: '8030' }, 8030],
    [{ FILE_DATA_SOURCE: 'a.tar' }, 8030],
    [{ FILE_DATA_SOURCE: 'a.tar', PORT: '9000' }, 9000],
  ])('%j: port %d', async (env, port) => {
    expect((await configOf({ ...LAPI, ...env } as Record<string, string>)).server.port).toBe(port);
  });

  it("stand beside the vendor's flags, whose names then decide on limits", async () => {
    const config = await configOf({ ...LAPI, FILE_DATA_SOURCE: 'a.tar' });
    expect(config).toMatchObject({
      origin: 'vendor',
      flags: { sources: [{ type: 'archive' }] },
      decisions: { enabled: true },
      limits: { mode: 'vendor', enabled: false },
    });
    const limited = await load({ env: { ...LAPI, INIT_MAX_CONCURRENT: '5' } });
    expect(limited.config?.limits).toMatchObject({ mode: 'vendor', slots: 5, queue: 0, waitDecisionsMsMax: 10_000 });
    expect(complaintsOf(limited)).toEqual([
      expect.stringContaining('warning environment nobody may wait for one of the 5 slots'),
    ]);
    await configOf({ ...LAPI, INIT_MAX_CONCURRENT: '5', INIT_MAX_QUEUED: '9' });
    const auto = await configOf({ ...LAPI, INIT_MAX_CONCURRENT: '5', HEADGATE_LIMITS: 'auto' });
    expect(auto.limits).toMatchObject({ mode: 'auto', slots: 5, queue: 2048 });
  });

  it('follow HEADGATE_LIMITS', async () => {
    expect((await configOf({ ...LAPI, HEADGATE_LIMITS: 'off' })).limits).toMatchObject({ mode: 'off', enabled: false });
    expect((await configOf({ ...LAPI, HEADGATE_LIMITS: 'auto' })).limits).toMatchObject({ mode: 'auto', slots: 512 });
  });

  it('add to the lists of our own file, and go before it', async () => {
    const yaml = `decisions:
  sources: [{ type: lapi, url: http://a, key: k }]
  keys: [{ name: nginx, key: old }, { name: caddy, key: c }]
  passthrough: true
store: ./there
`;
    const config = await configOf(
      { ...LAPI, BOUNCER_KEY_nginx: 'new', HEADGATE_PASSTHROUGH: 'false', HEADGATE_STORE: './here' },
      { 'hg.yaml': yaml },
    );
    expect(config).toMatchObject({
      origin: 'yaml',
      decisions: {
        passthrough: false,
        sources: [
          { name: 'lapi', url: 'http://a' },
          { name: 'lapi-2', url: 'http://lapi:8080' },
        ],
        keys: [
          { name: 'nginx', sha512: hashOfKey('new') },
          { name: 'caddy', sha512: hashOfKey('c') },
        ],
      },
      store: { path: './here' },
    });
  });

  it("stand beside the vendor's file of flags", async () => {
    const files = { 'relay.conf': '[OfflineMode]\nfileDataSource = a.tar\n' };
    expect(await configOf(LAPI, files)).toMatchObject({
      origin: 'vendor',
      server: { port: 8030 },
      flags: { sources: [{ type: 'archive' }] },
      decisions: { sources: [{ name: 'lapi' }] },
    });
  });

  it('let files be served to the keys that are named', async () => {
    expect((await configOf(FILE)).decisions).toMatchObject({
      delegate: false,
      sources: [{ type: 'file', name: 'file', paths: ['a.txt'] }],
      keys: [{ name: 'a' }],
    });
  });

  it('keep the certificates of clients when the vendor names a port', async () => {
    const yaml = 'server: { tls: { cert: a, key: b, clientCa: c } }\n';
    const config = await configOf({ ...LAPI, PORT: '1' }, { 'hg.yaml': yaml });
    expect(config.server.tls).toMatchObject({ clientCaPath: 'c', clientVerification: 'verify-if-given' });
  });
});

describe('what is wrong with variables for decisions', () => {
  it.each([
    [{ HEADGATE_LAPI_KEY: 'k' }, 'HEADGATE_LAPI_KEY expected HEADGATE_LAPI_URL beside it'],
    [{ HEADGATE_LAPI_KEY_FILE_3: 'k' }, 'HEADGATE_LAPI_KEY_FILE_3 expected HEADGATE_LAPI_URL_3 beside it'],
    [
      { HEADGATE_LAPI_URL: 'http://a' },
      'HEADGATE_LAPI_URL expected either HEADGATE_LAPI_KEY or HEADGATE_LAPI_KEY_FILE beside it, got neither',
    ],
    [{ ...LAPI, HEADGATE_LAPI_KEY_FILE: 'f' }, 'beside it, got both'],
    [{ ...LAPI, HEADGATE_LAPI_KEY: 'hunter2 hunter2' }, 'HEADGATE_LAPI_KEY expected a key without spaces, got text'],
    [{ ...LAPI, HEADGATE_LAPI_URL: 'lapi' }, 'HEADGATE_LAPI_URL expected a base address such as'],
    [{ ...LAPI, HEADGATE_LAPI_URL: 'http://u:hunter2@lapi' }, 'got one with a user or password, not shown here'],
    [
      { HEADGATE_LAPI_URL: 'http://a', HEADGATE_LAPI_KEY_FILE: '/none' },
      'HEADGATE_LAPI_KEY_FILE Cannot read the key: ENOENT: /none',
    ],
    [{ ...LAPI, HEADGATE_DECISIONS_FILE: 'a,,b' }, 'HEADGATE_DECISIONS_FILE expected paths between the commas'],
    [{ ...LAPI, HEADGATE_PASSTHROUGH: 'maybe' }, 'HEADGATE_PASSTHROUGH expected true or false, got "maybe"'],
    [
      { ...FILE, HEADGATE_PASSTHROUGH: 'true' },
      'HEADGATE_PASSTHROUGH decisions.passthrough: expected a source of type',
    ],
    [{ ...LAPI, BOUNCER_KEY_: 'k' }, 'BOUNCER_KEY_ expected a name after BOUNCER_KEY_'],
    [{ ...LAPI, BOUNCER_KEY_a: 'hunter2 hunter2' }, 'BOUNCER_KEY_a expected a key without spaces'],
    [{ HEADGATE_DECISIONS_FILE: 'a.txt' }, 'HEADGATE_DECISIONS_FILE nobody could ask for decisions'],
  ])('%j', async (env, message) => {
    const loaded = await load({ env });
    expect(loaded.config).toBeUndefined();
    expect(complaintsOf(loaded)).toEqual([expect.stringContaining(message)]);
    expect(JSON.stringify(loaded)).not.toContain('hunter2');
  });

  it('is a secret that cannot be read', async () => {
    const loaded = await loadConfig({
      env: LAPI,
      fromEnv: true,
      machine: MACHINE,
      readFolder: async () => ['bouncer_key_a'],
      readFile: async () => {
        throw new Error('EACCES');
      },
    });
    expect(complaintsOf(loaded)).toEqual(['error /run/secrets/bouncer_key_a Cannot read the key: EACCES']);
  });

  it('is that they do not count without --from-env', async () => {
    const files = { 'relay.conf': '[OfflineMode]\nfileDataSource = a.tar\n' };
    const loaded = await load({ env: LAPI, files, fromEnv: false });
    expect(loaded.config?.decisions.enabled).toBe(false);
    expect(complaintsOf(loaded)).toEqual([
      'warning HEADGATE_LAPI_URL HEADGATE_LAPI_URL is ignored: it counts only with --from-env',
      'warning HEADGATE_LAPI_KEY HEADGATE_LAPI_KEY is ignored: it counts only with --from-env',
    ]);
  });

  it('is a name that nothing has', async () => {
    const loaded = await load({ env: { ...LAPI, HEADGATE_LAPI_URL_1: 'http://b', HEADGATE_LAPI_KYE: 'k' } });
    expect(complaintsOf(loaded)).toEqual([
      expect.stringContaining(
        'HEADGATE_LAPI_URL_1 is ignored: no variable has this name (did you mean "HEADGATE_LAPI_URL"',
      ),
      expect.stringContaining(
        'HEADGATE_LAPI_KYE is ignored: no variable has this name (did you mean "HEADGATE_LAPI_KEY"',
      ),
    ]);
  });
});
