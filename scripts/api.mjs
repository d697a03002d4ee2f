// api.mjs [--update]: keeps a report of what each entry of the package exports, in `api/`, with its types.
// Without --update it compares and fails where a report is missing, out of date, or of an entry that is gone.
// It reads `dist`, so build first (`npm run api` does both).
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'api');
const isUpdate = process.argv.includes('--update');
const { name, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** The entries that have types: the report's file name, and the declarations it is made from. */
const entries = Object.entries(exports)
  .filter(([, target]) => typeof target !== 'string')
  .map(([subpath, { types }]) => ({
    file: `${subpath === '.' ? name : subpath.slice(2).replaceAll('/', '-')}.api.md`,
    types: join(root, types),
  }));

/** The report as it would be now. What the extractor has to say about comments is left to the tests of the exports. */
function reportOf({ file, types }) {
  const temporary = mkdtempSync(join(tmpdir(), 'headgate-api-'));
  try {
    const config = ExtractorConfig.prepare({
      configObject: {
        projectFolder: root,
        mainEntryPointFilePath: types,
        newlineKind: 'lf',
        compiler: { tsconfigFilePath: join(root, 'tsconfig.build.json') },
        apiReport: { enabled: true, reportFolder: temporary, reportTempFolder: temporary, reportFileName: file },
        docModel: { enabled: false },
        dtsRollup: { enabled: false },
        tsdocMetadata: { enabled: false },
      },
      configObjectFullPath: undefined,
      packageJsonFullPath: join(root, 'package.json'),
    });
    const errors = [];
    Extractor.invoke(config, {
      localBuild: true,
      messageCallback(message) {
        if (message.category === 'Compiler') errors.push(message.text);
        message.handled = true;
      },
    });
    if (errors.length > 0) throw new Error(`Cannot report ${file}: its types do not compile, got ${errors.join('; ')}`);
    return readFileSync(join(temporary, file), 'utf8');
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

const files = new Set(entries.map(({ file }) => file));
const problems = readdirSync(folder)
  .filter((file) => file.endsWith('.api.md') && !files.has(file))
  .map((file) => ({ file, what: 'is of an entry that is gone', fix: () => rmSync(join(folder, file)) }));
const kept = new Set(readdirSync(folder));
for (const entry of entries) {
  const path = join(folder, entry.file);
  const now = reportOf(entry);
  const before = kept.has(entry.file) ? readFileSync(path, 'utf8') : '';
  if (now === before) continue;
  const lines = before.split('\n');
  const index = now.split('\n').findIndex((line, at) => line !== lines[at]);
  const what = before === '' ? 'is missing' : `is out of date from line ${index + 1} on`;
  problems.push({ file: entry.file, what, fix: () => writeFileSync(path, now) });
}

for (const { file, what, fix } of problems) {
  if (isUpdate) fix();
  process.stdout.write(`api/${file} ${isUpdate ? `${what.replace(/^is /, 'was ')}: put right` : what}\n`);
}
if (problems.length > 0 && !isUpdate) {
  process.stderr.write('What the package exports has changed: look at it, then run npm run api\n');
  process.exitCode = 1;
}
