// licenses.mjs [FOLDER] [--texts]: the licence of every package that an installation of this one brings, a line for each:
// name, version and SPDX expression. Fails on a licence that is not allowed below. FOLDER has a package-lock.json with
// `node_modules` beside it. --texts adds the text of each licence that was installed, as a release must hand it on.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** None of these asks for more than its text and names to be kept. */
const ALLOWED = new Set(['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']);

/** Development dependencies of which the dashboard's build takes the code in. */
const BUILT_IN = new Set(['node_modules/uplot']);

const words = process.argv.slice(2);
const root = words.find((word) => !word.startsWith('--')) ?? fileURLToPath(new URL('..', import.meta.url));
const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));

/** What stands in a package's own file goes before what the lock file repeats of it; some are for other machines. */
function describe([path, entry]) {
  const manifest = join(root, path, 'package.json');
  const own = existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')) : {};
  const licence = own.license ?? entry.license;
  return {
    path,
    name: path.replace(/^.*node_modules\//, ''),
    version: own.version ?? entry.version,
    licence: typeof licence === 'string' ? licence : (licence?.type ?? 'none'),
  };
}

/**
 * Whether an SPDX expression can be met: one side of an OR, both of an AND; AND binds more tightly. One with parentheses
 * inside is refused, to be looked at.
 */
function isAllowed(expression) {
  const bare = expression.replace(/^\(([^()]*)\)$/, '$1');
  return (
    !/[()]/.test(bare) && bare.split(' OR ').some((choice) => choice.split(' AND ').every((part) => ALLOWED.has(part)))
  );
}

function textsOf(path) {
  const folder = join(root, path);
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => /^(licen[cs]e|notice|copying)(\.(md|txt))?$/i.test(name));
  return names.map((name) => readFileSync(join(folder, name), 'utf8').trim());
}

const isBrought = ([path, { dev, devOptional, link }]) =>
  path.includes('node_modules/') && !link && (BUILT_IN.has(path) || (!dev && !devOptional));

const found = Object.entries(packages)
  .filter(isBrought)
  .map(describe)
  .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.path < b.path ? -1 : 1));

for (const { path, name, version, licence } of found) {
  process.stdout.write(`${name} ${version} ${licence}\n`);
  if (!words.includes('--texts')) continue;
  for (const text of textsOf(path)) process.stdout.write(`\n${text}\n`);
  process.stdout.write(`\n${'-'.repeat(80)}\n\n`);
}

const refused = found.filter(({ licence }) => !isAllowed(licence));
for (const { name, version, licence } of refused) {
  process.stderr.write(`Cannot release with ${name} ${version}: expected a licence that is allowed, got ${licence}\n`);
}
if (found.length === 0) process.stderr.write(`Cannot list licences: expected packages in ${root}, got none\n`);
process.exitCode = refused.length > 0 || found.length === 0 ? 1 : 0;
