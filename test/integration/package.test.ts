import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, posix } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../support/files.ts';

const PACK_MS_MAX = 60_000;

const manifest = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
  name: string;
  version: string;
  bin: Record<string, string>;
  exports: Record<string, string | { types: string; default: string }>;
  dependencies: Record<string, string>;
};

describe('the package', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-package-'));
  const installed = join(folder, 'node_modules', manifest.name);
  let paths: readonly string[] = [];

  beforeAll(() => {
    const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
    const [packed] = JSON.parse(execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8' })) as {
      filename: string;
      files: { path: string }[];
    }[];
    if (packed === undefined) throw new Error('Cannot pack: npm named no package');
    paths = packed.files.map(({ path }) => path);
    mkdirSync(installed, { recursive: true });
    execFileSync('tar', ['-xzf', join(folder, packed.filename), '-C', installed, '--strip-components=1']);
    // what the package asks for, and nothing else of what is installed here
    for (const name of Object.keys(manifest.dependencies)) {
      mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true });
      symlinkSync(`${ROOT}node_modules/${name}`, join(folder, 'node_modules', name));
    }
  }, PACK_MS_MAX);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const node = (...args: readonly string[]): string =>
    execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });

  it('has its licence and pages, and of the code only what was built, without tests', () => {
    expect(paths).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'CHANGELOG.md', 'package.json']));
    const others = paths.filter((path) => !/^(LICENSE|README\.md|CHANGELOG\.md|package\.json)$/.test(path));
    expect(others.filter((path) => !/^dist\/.*\.(js|js\.map|d\.ts)$/.test(path))).toEqual([]);
    expect(others.filter((path) => path.includes('.test.'))).toEqual([]);
  });

  it.each(Object.entries(manifest.exports).filter(([, target]) => typeof target !== 'string'))(
    'can be imported as %s, with types',
    (subpath, target) => {
      const name = posix.join(manifest.name, subpath);
      const script = `import * as room from '${name}'; console.log(Object.keys(room).length > 0);`;
      expect(node('--input-type=module', '--eval', script)).toBe('true\n');
      expect(paths).toContain((target as { types: string }).types.slice(2));
    },
  );

  it('brings a command that knows its version', () => {
    expect(node(join(installed, manifest.bin['headgate'] ?? ''), '--version')).toBe(`${manifest.version}\n`);
  });
});
