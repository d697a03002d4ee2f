import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { healthUrl } from '../../src/cli/health.ts';
import { ROOT } from '../support/files.ts';
import { LineProcess } from '../support/line-process.ts';

const MS_MAX = 120_000;
vi.setConfig({ testTimeout: MS_MAX, hookTimeout: MS_MAX });
const START_MS_MAX = 30_000;

const dockerfile = readFileSync(`${ROOT}Dockerfile`, 'utf8');
const [, installs = ''] = /AS packages[\s\S]*?^RUN (npm ci .*)$/m.exec(dockerfile) ?? [];
const [, check = ''] = /^ {2}CMD (\[.*health\.js.*\])$/m.exec(dockerfile) ?? [];
const [, command = ''] = /^CMD (\[.*\])$/m.exec(dockerfile) ?? [];

/**
 * What the image's stages make, in a folder; undefined where there is no registry, or no way to seal a process off. In CI
 * both must be there: their absence is an error, never a skipped test.
 */
function makeImage(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-image-'));
  for (const name of ['build/dashboard', 'data', 'root']) mkdirSync(join(folder, name), { recursive: true });
  for (const name of ['package.json', 'package-lock.json', 'dashboard/package.json']) {
    cpSync(ROOT + name, join(folder, 'build', name));
  }
  const sealable = spawnSync('unshare', ['-m', 'true'], { encoding: 'utf8' });
  const installed = spawnSync('sh', ['-c', `${installs} --prefer-offline`], {
    cwd: join(folder, 'build'),
    encoding: 'utf8',
  });
  if (sealable.status === 0 && installed.status === 0) {
    cpSync(`${ROOT}dist`, join(folder, 'build/dist'), { recursive: true });
    // whoever else may read it
    for (const name of ['.', 'build', 'data']) chmodSync(join(folder, name), 0o755);
    return folder;
  }
  rmSync(folder, { recursive: true, force: true });
  const problem = `Cannot run what the image runs: it takes npm's registry and the right to mount, got ${sealable.stderr}${installed.stderr}`;
  if (process.env['CI'] === 'true') throw new Error(problem);
  process.stderr.write(`${problem}\nIts tests are skipped\n`);
  return undefined;
}

const folder = makeImage();
afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

/** The arguments of `unshare` that run a command as in a container of the image, whose paths it names. */
function sealed(...words: readonly string[]): string[] {
  const at = (name: string): string => join(folder ?? '', name);
  const inside = words.map((word) =>
    word.replace(/^\/usr\/lib\/headgate\//, '/image/').replace(/^node$/, '/node/node'),
  );
  const script = `${ROOT}test/support/sealed.sh`;
  return ['-m', 'sh', script, at('root'), at('build'), at('data'), dirname(process.execPath), ...inside];
}

describe.runIf(folder !== undefined)(
  'what the image runs, on a root that nobody can write to, without any right',
  () => {
    const env = {
      HEADGATE_ADMIN: '127.0.0.1:0',
      HEADGATE_DECISIONS_FILE: '/data/bans.csv',
      BOUNCER_KEY_test: 'key',
    };
    let headgate: LineProcess;
    let port: unknown;
    let admin: unknown;
    const said = async (msg: string): Promise<Readonly<Record<string, unknown>>> =>
      headgate.waitFor(msg, (line) => line['msg'] === msg, { msMax: START_MS_MAX });
    const health = (adminPort: unknown): { status: number | null; stderr: string } =>
      spawnSync('unshare', sealed(...(JSON.parse(check) as string[])), {
        encoding: 'utf8',
        env: { ...process.env, HEADGATE_ADMIN: `127.0.0.1:${String(adminPort)}` },
      });

    beforeAll(async () => {
      writeFileSync(join(folder ?? '', 'data/bans.csv'), 'value\n192.0.2.7\n');
      const words = sealed('node', '/usr/lib/headgate/dist/cli/main.js', ...(JSON.parse(command) as string[]));
      // a variable cannot say "any": one that was free a moment ago
      const free = createServer().listen(0, '127.0.0.1');
      await once(free, 'listening');
      const { port: freePort } = free.address() as AddressInfo;
      free.close();
      await once(free, 'close');
      headgate = new LineProcess({ command: 'unshare', args: words, env: { ...env, PORT: String(freePort) } });
      ({ port } = await said('listening'));
      ({ port: admin } = await said('admin listening'));
      await said('decisions loaded');
    });
    afterAll(async () => {
      await headgate?.stop('SIGKILL');
    });

    it('cannot write anywhere else', () => {
      const write =
        'for at in / /tmp /image /node /etc; do touch "$at/x" 2>/dev/null && echo "$at"; done; touch /data/y; id -u';
      const { stdout } = spawnSync('unshare', sealed('sh', '-c', write), { encoding: 'utf8' });
      expect(stdout).toBe('1000\n');
    });

    it('serves, with its store in the volume and the low-water mark set', async () => {
      const answer = await fetch(`http://127.0.0.1:${String(port)}/v1/decisions`, { headers: { 'x-api-key': 'key' } });
      expect(await answer.json()).toMatchObject([{ value: '192.0.2.7' }]);
      expect(readdirSync(join(folder ?? '', 'data/headgate-data'))).not.toEqual([]);
      expect(await said('low-water mark on unsent data')).toMatchObject({ mode: 'set' });
    });

    it('has no package that only development needs', () => {
      const names = readdirSync(join(folder ?? '', 'build/node_modules'));
      expect(names).toEqual(expect.arrayContaining(['fastify', 'lmdb', 'koffi']));
      expect(
        names.filter((name) => /^(vitest|typescript|vite|uplot|playwright-core|headgate-dashboard)$/.test(name)),
      ).toEqual([]);
    });

    it('tells its health, and ends in good order when it is told to', async () => {
      expect(health(admin)).toMatchObject({ status: 0, stderr: '' });
      expect(await headgate.stop('SIGTERM')).toEqual({ code: 0, signal: null });
      expect(health(admin)).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(/^Not healthy: expected http:.*ECONNREFUSED/),
      });
    });
  },
);

describe('the health check of a container', () => {
  it.each([
    [{}, 'http://127.0.0.1:8031/health/live'],
    [{ HEADGATE_ADMIN: 'off' }, 'http://127.0.0.1:8031/health/live'],
    [{ HEADGATE_ADMIN: '0.0.0.0:9000' }, 'http://127.0.0.1:9000/health/live'],
    [{ HEADGATE_ADMIN: '[::]:9000' }, 'http://127.0.0.1:9000/health/live'],
    [{ HEADGATE_ADMIN: '10.0.0.1:9000' }, 'http://10.0.0.1:9000/health/live'],
    [{ PROMETHEUS_PORT: '9001' }, 'http://127.0.0.1:9001/health/live'],
  ])('asks where operators do: %j', (env, url) => {
    expect(healthUrl(env)).toBe(url);
  });
});
