import { createHash } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';

export interface ArchiveEnvironment {
  readonly envId: string;
  readonly sdkKey: string;
  readonly mobileKey?: string;
  /** Must change whenever the data do: a reader may reload only what has a new one. */
  readonly dataId: string;
  readonly flags: Readonly<Record<string, unknown>>;
  readonly segments?: Readonly<Record<string, unknown>>;
  /** Members of the environment that are not as usual. */
  readonly env?: Readonly<Record<string, unknown>>;
}

function filesOf(environment: ArchiveEnvironment): readonly (readonly [name: string, text: string])[] {
  const { envId, sdkKey, mobileKey = `mob-${envId}`, dataId, flags, segments = {} } = environment;
  const env = {
    envID: envId,
    envKey: 'production',
    envName: 'Production',
    mobKey: mobileKey,
    projKey: 'default',
    projName: 'Default',
    sdkKey: { value: sdkKey },
    defaultTtl: 0,
    secureMode: false,
    version: 1,
    ...environment.env,
  };
  return [
    [`${envId}-data.json`, JSON.stringify({ flags, segments })],
    [`${envId}.json`, JSON.stringify({ dataId, env })],
  ];
}

/**
 * Writes a data archive (`.tar.gz`) as the vendor's tool makes it: two files an environment, and the raw 16 bytes of
 * the MD5 of all contents in the order of their names. It appears under `path` at once, by a rename.
 */
export async function writeArchive(path: string, environments: readonly ArchiveEnvironment[]): Promise<void> {
  const files = environments.flatMap(filesOf).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const digest = createHash('md5');
  const archive = pack();
  for (const [name, text] of files) {
    digest.update(text);
    archive.entry({ name }, text);
  }
  archive.entry({ name: 'checksum.md5' }, digest.digest());
  archive.finalize();
  const bytes = gzipSync(await buffer(archive));
  await writeFile(`${path}.new`, bytes);
  await rename(`${path}.new`, path);
}
