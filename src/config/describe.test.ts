import { describe, expect, it } from 'vitest';
import { defaultConfig } from './defaults.ts';
import { describeConfig } from './describe.ts';
import { loadConfig } from './load.ts';
import type { Config } from './types.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };

async function configOf(file: string, text: string, env?: Record<string, string>): Promise<Config> {
  const { config, problems } = await loadConfig({
    file,
    readFile: async (path) => (path === file ? text : 'haproxy: x'),
    env,
    fromEnv: env !== undefined,
    machine: MACHINE,
  });
  if (config === undefined) throw new Error(JSON.stringify(problems));
  return config;
}

describe('the report', () => {
  it('says what will happen, in plain lines', async () => {
    const text = `
server: { host: 127.0.0.1, port: 8443, tls: { cert: c.pem, key: k.pem } }
flags:
  sources:
    - { type: archive, path: a.tar, interval: 5s, allowedOrigins: [https://a.example.com] }
    - { type: file, name: prod, paths: [f.json, s.json], sdkKey: sdk-11111111-1234, mobileKey: mob-22222222-5678, envId: 507f1f77bcf8, ttl: 1m, secureMode: true }
`;
    expect(describeConfig(await configOf('hg.yaml', text))).toBe(`Configuration: hg.yaml (our own names)
Listens on: 127.0.0.1, port 8443, HTTP/1.1 and HTTP/2, TLS 1.2 or newer with c.pem and k.pem
  at most 16KiB of headers in 10s, 5MiB of body, 100 streams per HTTP/2 connection
  on shutdown: 5s not ready but serving, then 30s for deliveries to finish
Flags:
  archive a.tar, looked at every 5s, environments and keys as it says, browsers of https://a.example.com only
  environment "prod" from f.json s.json, looked at every 1s, server key ...1234, mobile key ...5678, client-side ID ...bcf8, polls cached for 1m, secure mode
  heartbeat every 3m, streams stay open, compression auto, catch-up safe
  change log of 10000 batches or 64MiB per environment
  browsers and phones are evaluated for on a thread for each core but one, 32MiB of results kept, pings at once
Limits: auto: 512 slots (512MiB / 4 / 256KiB per delivery, within 32 to 4096), 2048 waiting (512MiB / 8 / 32KiB per waiting connection, within 1024 to 65536) for 10s on streams, 1s on polls and 2s on decisions, 256 parked (512MiB / 8 / 256KiB per delivery, within 16 to 4096), 64MiB pinned (512MiB / 8, at least 16MiB), floor 64KiB/s with 10s slack, cap scales with the payload, fair between environments
  1MiB per turn of the event loop, low-water mark 64KiB
Admin: metrics, health and status on 127.0.0.1, port 8031, no token
Log: info, json
Off: events, OTLP, exit on error`);
  });

  it('says where environments come from, and what is off', async () => {
    const text =
      '[Main]\nport = 1\nmaxClientConnectionTime = 30m\n[Environment "My env"]\nsdkKey = sdk-secret-secret-9999\n';
    const lines = describeConfig(await configOf('relay.conf', text)).split('\n');
    expect(lines).toContain('Listens on: every address, port 1, HTTP/1.1 and HTTP/2, no TLS');
    expect(lines).toContain('  environment "My env" from the service, server key ...9999');
    expect(lines).toContain('Limits: none set: no limit, no refusal, no delivery deadline');
    expect(lines).toContain('Off: limits, TLS, compression, events, OTLP, exit on error');
    expect(lines.join()).toContain('streams are closed after 30m');
  });

  it('says that nothing is listened on when the process ends after loading', async () => {
    expect(
      describeConfig(await configOf('relay.conf', '[Main]\nexitAlways\n[OfflineMode]\nfileDataSource = x\n')),
    ).toContain('Listens on: nothing');
  });

  // Fails when keys() prints a key without maskKey.
  it('never shows a whole key', async () => {
    const keys = ['sdk-aaaaaaaa-bbbb', 'mob-cccccccc-dddd', 'eeeeeeeeffff'];
    const [sdk, mobile, id] = keys;
    const report = [
      describeConfig(
        await configOf('a', '', { LD_ENV_a: `${sdk}`, LD_MOBILE_KEY_a: `${mobile}`, LD_CLIENT_SIDE_ID_a: `${id}` }),
      ),
      describeConfig(
        await configOf(
          'a.yaml',
          `flags: { sources: [{ type: file, name: a, paths: b, sdkKey: ${sdk}, mobileKey: ${mobile}, envId: ${id} }] }`,
        ),
      ),
    ].join('\n');
    for (const key of keys) {
      expect(report).not.toContain(key);
      expect(report).toContain(`...${key.slice(-4)}`);
    }
  });

  it('describes the defaults', () => {
    expect(describeConfig(defaultConfig(MACHINE))).toContain('Configuration: no file (defaults)');
  });

  it('says what decisions will do: sources, who may ask, the budget, the store', async () => {
    const text = `
server: { tls: { cert: c.pem, key: k.pem, clientCa: ca.pem } }
decisions:
  sources:
    - { type: lapi, url: https://lapi.example.com, key: hunter2hunter2, scopes: [session], tls: { ca: up.pem, serverName: lapi } }
    - { type: lapi, url: https://b.example.com, tls: { cert: b.pem, key: bk.pem, verify: false } }
    - { type: file, paths: [a.txt, b.csv], duration: 1h }
  keys: [{ name: nginx, key: hunter3hunter3 }]
  keyFile: keys.txt
  passthrough: true
  trustedProxies: [10.0.0.0/8]
  bouncersAllowedOu: [bouncers]
`;
    const report = describeConfig(await configOf('hg.yaml', text));
    expect(report).not.toContain('hunter');
    const lines = report.split('\n');
    expect(lines[1]).toBe(
      'Listens on: every address, port 8080, HTTP/1.1 and HTTP/2, TLS 1.2 or newer with c.pem and k.pem, client certificates verified if given',
    );
    expect(lines.slice(lines.indexOf('Decisions:'), -5)).toEqual([
      'Decisions:',
      '  local API "lapi" at https://lapi.example.com with a key, trusts up.pem, certificate of lapi, pulled every 5s, everything again every 10m, scopes ip range country as and session',
      '  local API "lapi-2" at https://b.example.com with the certificate b.pem, any certificate is accepted, pulled every 5s, everything again every 10m, scopes ip range country as',
      '  files "file" a.txt b.csv, looked at every 1s, rows last 1h unless they say otherwise, origin cscli-import',
      '  who may ask: the keys of nginx, the keys in keys.txt, client certificates of bouncers, keys that the upstream knows; addresses as forwarded by 10.0.0.0/8',
      '  everything else under /v1/ goes on to "lapi"',
      '  budget: a pull or a large delta takes one of 512 slots, and waits 2s for it; deltas that are empty or small and look-ups by address are not limited',
      '  a ban may end up to 5s late, never early; a longer end is told 30s before the one that bouncers know',
      '  answers wait up to 10s for the first pull after a start; 4096 cursors per key',
      'Store: ./headgate-data, for decisions, cursors and good keys; not shared between replicas',
    ]);
    expect(report).not.toContain('Flags:');
  });

  it('says what decisions do without limits, without a store, and beside flags', async () => {
    const text = `
limits: off
store: none
flags: { sources: [{ type: archive, path: a.tar }] }
decisions:
  sources: [{ type: lapi, url: http://a, key: k }]
`;
    const report = describeConfig(await configOf('hg.yaml', text));
    expect(report).toContain('Flags:\n');
    expect(report).toContain('  budget: none, every pull is served at once; deltas');
    expect(report).toContain('Store: none, so a restart begins with a pull');
    expect(report).toContain('  everything else under /v1/ is answered 404: pass-through is off');
    expect(report).toMatch(/^Off: limits, .*, pass-through, store$/m);
    const shared = describeConfig(await configOf('hg.yaml', text.replace('off', '{ wait: { decisions: off } }')));
    expect(shared).toContain('takes one of 512 slots, which flags share, and waits as long as it likes for it');
  });

  it("says what the local API's numbers mean", async () => {
    const text = `
api: { server: { decisions_stream: { max_concurrent_requests: 8 } } }
decisions: { sources: [{ type: lapi, url: http://a, key: k }] }
`;
    expect(describeConfig(await configOf('hg.yaml', text))).toContain(
      'Limits: vendor: 8 slots, everybody may wait for 10s, no delivery deadline, no parking, first come first served\n',
    );
  });
});
