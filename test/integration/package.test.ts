import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ROOT } from '../support/files.ts';
import { pack } from '../support/packed.ts';

const PACK_MS_MAX = 60_000;
vi.setConfig({ testTimeout: PACK_MS_MAX, hookTimeout: PACK_MS_MAX });
/** A third more than it is; what grows it by that much should be looked at. */
const BYTES_MAX = 2.4e6;
const UNPACKED_BYTES_MAX = 9e6;

const manifest = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
  name: string;
  version: string;
  bin: Record<string, string>;
  exports: Record<string, string | { types: string; default: string }>;
  dependencies: Record<string, string>;
};

describe('the package', () => {
  const packed = pack();
  const { folder, paths } = packed;
  const installed = join(folder, 'node_modules', manifest.name);

  beforeAll(() => {
    mkdirSync(installed, { recursive: true });
    execFileSync('tar', ['-xzf', packed.tarball, '-C', installed, '--strip-components=1']);
    // what the package asks for, and nothing else of what is installed here
    for (const name of Object.keys(manifest.dependencies)) {
      mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true });
      symlinkSync(`${ROOT}node_modules/${name}`, join(folder, 'node_modules', name));
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const node = (...args: readonly string[]): string =>
    execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });

  it('has its licence and pages, and of the code only what was built, without tests', () => {
    expect(paths).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'CHANGELOG.md', 'package.json']));
    const others = paths.filter((path) => !/^(LICENSE|README\.md|CHANGELOG\.md|package\.json)$/.test(path));
    const page = /^dist\/dashboard\/(index\.html|assets\/[\w-]+-[\w-]{8}\.(js|css|svg|png|woff2))$/;
    const isBuilt = (path: string): boolean => page.test(path) || /^dist\/.*\.(js|js\.map|d\.ts)$/.test(path);
    expect(others.filter((path) => !isBuilt(path))).toEqual([]);
    expect(others.filter((path) => path.includes('.test.'))).toEqual([]);
  });

  it('has the page, and what it refers to', () => {
    expect(paths).toContain('dist/dashboard/index.html');
    const html = readFileSync(join(installed, 'dist/dashboard/index.html'), 'utf8');
    const named = [...html.matchAll(/(?:src|href)="\.?\/?(assets\/[^"]+)"/g)].map(
      ([, path]) => `dist/dashboard/${path}`,
    );
    expect(named).not.toEqual([]);
    expect(paths).toEqual(expect.arrayContaining(named));
  });

  it('has maps that hold the sources that they map to, and each map that its code names', () => {
    const maps = paths.filter((path) => path.endsWith('.map'));
    expect(maps.length).toBeGreaterThan(100);
    const hollow = maps.filter((path) => {
      const { sources, sourcesContent = [] } = JSON.parse(readFileSync(join(installed, path), 'utf8')) as {
        sources: string[];
        sourcesContent?: (string | null)[];
      };
      return sources.some((_, index) => typeof sourcesContent[index] !== 'string');
    });
    expect(hollow).toEqual([]);
    const code = paths.filter((path) => /\.(js|css|d\.ts)$/.test(path));
    const nowhere = code.filter((path) => {
      const name = /\n\/[/*]# sourceMappingURL=(\S+)/.exec(readFileSync(join(installed, path), 'utf8'))?.[1];
      return name !== undefined && !maps.includes(posix.join(posix.dirname(path), name));
    });
    expect(nowhere).toEqual([]);
  });

  it('is no larger than it should be', () => {
    const { bytes, unpackedBytes } = packed;
    process.stdout.write(`The package: ${paths.length} files, ${bytes} bytes packed, ${unpackedBytes} unpacked\n`);
    expect(bytes).toBeLessThan(BYTES_MAX);
    expect(unpackedBytes).toBeLessThan(UNPACKED_BYTES_MAX);
  });

  it.each(Object.entries(manifest.exports).filter(([, target]) => typeof target !== 'string'))(
    'can be imported as %s, with types',
    (subpath, target) => {
      const name = posix.join(manifest.name, subpath);
      const script = `import * as room from '${name}'; console.log(Object.keys(room).length > 0);`;
      expect(node('--input-type=module', '--eval', script)).toBe('true\n');
      expect(paths).toContain((target as { types: string }).types.slice(2));
      // CommonJS can as well: fails when a module of it awaits before it exports
      const required = `console.log(Object.keys(require('${name}')).length > 0);`;
      expect(node('--input-type=commonjs', '--eval', required)).toBe('true\n');
    },
  );

  it('brings a command that knows its version', () => {
    expect(node(join(installed, manifest.bin['headgate'] ?? ''), '--version')).toBe(`${manifest.version}\n`);
  });
});
