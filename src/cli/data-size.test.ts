import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { writeArchive } from '../../test/support/archive.ts';
import { type Config, loadConfig } from '../config/index.ts';
import { sizeOfFiles } from './data-size.ts';

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-data-size-'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function at(name: string, text: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

async function configOf(settings: object): Promise<Config> {
  const file = at('headgate.yaml', JSON.stringify(settings));
  const machine = { memoryLimitBytes: 2 ** 29, lowWater: true };
  const { config, problems } = await loadConfig({ file, allowMissingFile: false, fromEnv: false, env: {}, machine });
  if (config === undefined) throw new Error(JSON.stringify(problems));
  return config;
}

it('is that of the files of each environment', async () => {
  const paths = [at('flags.json', 'x'.repeat(1000)), at('more.json', 'y'.repeat(500))];
  const other = [at('other.json', 'z'.repeat(200))];
  const sources = [
    { type: 'file', name: 'a', paths, sdkKey: 'sdk-a' },
    { type: 'file', name: 'b', paths: other, sdkKey: 'sdk-b' },
  ];
  expect(await sizeOfFiles(await configOf({ flags: { sources } }))).toEqual({
    environments: 2,
    decisions: 0,
    bytes: 1700,
    largestBytes: 1500,
    files: 3,
    problems: [],
  });
});

it('is that of the data in an archive, compressed or not', async () => {
  const path = join(folder, 'flags.tar.gz');
  const flags = { one: { key: 'one', salt: 'x'.repeat(5000) } };
  const bytes = JSON.stringify({ flags, segments: {} }).length;
  await writeArchive(path, [
    { envId: 'e1', sdkKey: 'sdk-1', dataId: 'd', flags },
    { envId: 'e2', sdkKey: 'sdk-2', dataId: 'd', flags: {} },
  ]);
  const plain = at('flags.tar', gunzipSync(readFileSync(path)));
  for (const each of [path, plain]) {
    const size = await sizeOfFiles(await configOf({ flags: { sources: [{ type: 'archive', path: each }] } }));
    expect(size).toMatchObject({ environments: 2, bytes: bytes + 26, largestBytes: bytes, files: 1, problems: [] });
  }
});

it('is about 200 bytes for each decision', async () => {
  const paths = [
    at('drop.txt', '192.0.2.1\n198.51.100.0/24\n203.0.113.9\n'),
    at('ban.json', JSON.stringify([{ value: '192.0.2.1', scenario: 'x'.repeat(370) }])),
  ];
  const decisions = { sources: [{ type: 'file', paths }], keys: [{ name: 'edge', key: 'key-of-the-edge' }] };
  expect(await sizeOfFiles(await configOf({ decisions, store: 'none' }))).toMatchObject({ decisions: 6, bytes: 1200 });
});

it('says which files cannot be read, and goes on', async () => {
  const sources = [
    { type: 'file', name: 'a', paths: [join(folder, 'missing.json')], sdkKey: 'sdk-a' },
    { type: 'archive', path: at('broken.tar.gz', 'no archive') },
  ];
  const { problems, bytes } = await sizeOfFiles(await configOf({ flags: { sources } }));
  expect(bytes).toBe(0);
  expect(problems).toEqual([
    expect.stringMatching(/missing\.json: ENOENT/),
    expect.stringMatching(/broken\.tar\.gz: .+/),
  ]);
});
