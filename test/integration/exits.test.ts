import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../support/files.ts';

const MAIN = join(process.env['BENCH_DIST'] ?? join(ROOT, 'dist'), 'cli/main.js');
/** Above what a start takes on a busy machine, below the grace period of 30 s that an exit must not wait for. */
const SOON_MS = 20_000;

let folder: string;
let good: string;
let broken: string;

function headgate(args: readonly string[], env: Record<string, string> = {}): { status: number | null; text: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    encoding: 'utf8',
    timeout: SOON_MS,
  });
  return { status, text: stdout + stderr };
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-exits-'));
  good = join(folder, 'good.yaml');
  broken = join(folder, 'broken.yaml');
  writeFileSync(join(folder, 'flags.json'), '{"flagValues":{"a":true}}');
  const config = (file: string): string =>
    `server: { host: 127.0.0.1, port: 0, drainDelay: 0s }\nflags: { sources: [{ type: file, name: n, sdkKey: sdk-1, paths: [${join(folder, file)}] }] }\n`;
  writeFileSync(good, config('flags.json'));
  writeFileSync(broken, config('missing.json'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a process that is told to end by itself', () => {
  it('reads its sources once and ends well', () => {
    const { status, text } = headgate(['serve', '--from-env', '--config', good], { EXIT_ALWAYS: 'true' });
    expect([status, text]).toEqual([0, expect.stringContaining('environment loaded')]);
    expect(text).toMatch(/"msg":"data: \d+B in 1 environment; \d+ slots × /);
    expect(text).not.toContain('"listening"');
  });

  it.each(['EXIT_ALWAYS', 'EXIT_ON_ERROR'])('ends badly when a source cannot be read: %s', (variable) => {
    const { status, text } = headgate(['serve', '--from-env', '--config', broken], { [variable]: 'true' });
    expect([status, text]).toEqual([1, expect.stringContaining('missing.json')]);
  });
});

describe('check-config', () => {
  it('prints what will happen, and ends well', () => {
    const { status, text } = headgate(['check-config', good]);
    expect([status, text]).toEqual([0, expect.stringContaining('Limits: auto')]);
  });

  it('explains the limits with the size of the files, and what a herd would see', { timeout: 3 * SOON_MS }, () => {
    const { status, text } = headgate(['check-config', '--explain', good]);
    expect([status, text]).toEqual([0, expect.stringContaining('data          25B in 1 environment, from the size')]);
    const herd = headgate(['check-config', good, '--clients', '5000', '--data', '1MB', '--link', '1Gbit/s']);
    expect(herd.text).toContain('= 40s until the last one is complete, at best');
    const wrong = headgate(['check-config', good, '--link', 'fast']);
    expect([wrong.status, wrong.text]).toEqual([2, expect.stringContaining('--link must be the speed of a link')]);
  });

  it('explains what it can when an archive is not there', () => {
    const file = join(folder, 'no-archive.yaml');
    writeFileSync(file, `flags:\n  sources:\n    - type: archive\n      path: ${join(folder, 'missing.tar.gz')}\n`);
    const { status, text } = headgate(['check-config', '--explain', file]);
    expect([status, text]).toEqual([0, expect.stringContaining('missing.tar.gz')]);
  });

  it('prints each problem with its line, and ends badly', () => {
    const file = join(folder, 'wrong.yaml');
    writeFileSync(file, 'limits: auto\nserver:\n  prot: 8030\n');
    const { status, text } = headgate(['check-config', file]);
    expect([status, text]).toEqual([1, expect.stringMatching(/error: .*wrong\.yaml:3:3: .*did you mean.*port/i)]);
  });
});

describe('the demo', () => {
  it.each([
    ['--port', '70000', 65_535],
    ['--admin-port', '', 65_535],
    ['--exit-after', 'soon', 2_147_483_647],
  ])('refuses what is no number: %s %s', (option, text, max) => {
    const said = headgate(['demo', option, text]);
    const expected = `Cannot start the demo: ${option} must be a number from 0 to ${max}, got ${text}\n`;
    expect([said.status, said.text]).toEqual([2, expected]);
  });

  it('says what to do where its port is taken, and why it cannot keep its files', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const said = headgate(['demo', '--port', String(port), '--admin-port', '0'], { TMPDIR: folder });
    expect([said.status, said.text]).toEqual([1, expect.stringMatching(/HG_LISTEN[\s\S]*--port 0 takes any free one/)]);
    taken.close();
    expect(readdirSync(folder).filter((name) => name.startsWith('headgate-demo-'))).toEqual([]);
    const without = headgate(['demo', '--port', '0'], { TMPDIR: join(folder, 'none') });
    expect([without.status, without.text]).toEqual([
      1,
      expect.stringMatching(/^Cannot start the demo: its files need a folder in \S+none, got .*ENOENT.*\n$/),
    ]);
  });

  it('serves its sample, says what to try, and leaves nothing behind', () => {
    const { status, text } = headgate(['demo', '--port', '0', '--exit-after', '300'], { TMPDIR: folder });
    expect(status).toBe(0);
    expect(text).toMatch(/curl -N -H 'Authorization: sdk-demo' http:\/\/127\.0\.0\.1:\d+\/all/);
    expect(text).toContain('"items":4');
  });
});
