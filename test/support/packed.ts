import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ROOT } from './files.ts';

/** What npm says of a package that it packed. */
export interface Packed {
  readonly folder: string;
  /** The path of the tarball. */
  readonly tarball: string;
  readonly bytes: number;
  readonly unpackedBytes: number;
  /** What is in it. */
  readonly paths: readonly string[];
}

/** Where the package lies that was built: `BENCH_DIST` names the folder `dist` of another build. */
const BUILT = process.env['BENCH_DIST'] === undefined ? ROOT : dirname(process.env['BENCH_DIST']);

/** Packs the project as it is built, into a folder of its own, which the caller removes. */
export function pack(): Packed {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-packed-'));
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const [packed] = JSON.parse(execFileSync('npm', args, { cwd: BUILT, encoding: 'utf8' })) as {
    filename: string;
    size: number;
    unpackedSize: number;
    files: { path: string }[];
  }[];
  if (packed === undefined) throw new Error('Cannot pack: npm named no package');
  return {
    folder,
    tarball: join(folder, packed.filename),
    bytes: packed.size,
    unpackedBytes: packed.unpackedSize,
    paths: packed.files.map(({ path }) => path),
  };
}

/**
 * Installs a tarball, with all that it depends on, in an empty folder, as a user does. Answers the folder; undefined where
 * there is no registry that npm could ask. In CI there must be one: its absence is an error, never a skipped test.
 */
export function installPacked({ folder, tarball }: Packed): string | undefined {
  writeFileSync(join(folder, 'package.json'), '{ "name": "empty", "version": "1.0.0", "private": true }\n');
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error', tarball];
  const { status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' });
  if (status === 0) return folder;
  const problem = `Cannot install the package: npm failed, got ${stderr.slice(0, 2000)}`;
  if (process.env['CI'] === 'true') throw new Error(problem);
  process.stderr.write(`${problem}\nThe tests of the installed package are skipped\n`);
  return undefined;
}
