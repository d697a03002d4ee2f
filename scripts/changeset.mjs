// changeset.mjs [ARGUMENT...]: the command of changesets, on a package that is the root of its own workspace. It looks for
// packages in workspaces only, so the root stands among them while it runs.
// `version` also sets the new version in the other files that name one, and tells the changes in CHANGELOG.md.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// the folder that it is started in, as for every script of npm
const root = process.cwd();
const args = process.argv.slice(2);
const read = (path) => readFileSync(join(root, path), 'utf8');
const write = (path, text) => writeFileSync(join(root, path), text);

/** The section of the changelog that a change of each size belongs to. */
const SECTIONS = { major: 'Changed', minor: 'Added', patch: 'Fixed' };

/** What the files in `.changeset` say: the size of each change, and its text. */
function changes() {
  return readdirSync(join(root, '.changeset'))
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .flatMap((name) => {
      const [, head = '', text = ''] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(read(`.changeset/${name}`)) ?? [];
      const size = /:\s*(major|minor|patch)\s*$/m.exec(head)?.[1];
      return size === undefined ? [] : [{ size, text: text.trim().replaceAll(/\s*\n\s*/g, ' ') }];
    });
}

/** The part of the changelog that is not released becomes that of `version`, with the changes added to it. */
function released(changelog, version, date, told) {
  const [, before, part, after] =
    /^([\s\S]*?## \[Unreleased\]\n)([\s\S]*?)(?=\n## \[|$)([\s\S]*)$/.exec(changelog) ?? [];
  if (before === undefined) throw new Error('Cannot write CHANGELOG.md: expected a section [Unreleased], got none');
  const sections = new Map(
    part.split(/^### /m).flatMap((section) => {
      const [heading = '', ...lines] = section.trim().split('\n');
      return heading === '' ? [] : [[heading, lines.filter((line) => line !== '')]];
    }),
  );
  for (const { size, text } of told) {
    const heading = SECTIONS[size];
    sections.set(heading, [...(sections.get(heading) ?? []), `- ${text}`]);
  }
  const text = [...sections].map(([heading, lines]) => `### ${heading}\n\n${lines.join('\n')}`).join('\n\n');
  return `${before}\n## [${version}] - ${date}\n\n${text}\n${after}`;
}

/** Sets the version wherever else it stands. A file in which it does not stand is an error: it would be left behind. */
function setVersion(from, to) {
  const places = [
    ['src/relay.ts', `VERSION = '${from}'`, `VERSION = '${to}'`],
    ['deploy/helm/headgate/Chart.yaml', `\nversion: ${from}\n`, `\nversion: ${to}\n`],
    ['deploy/helm/headgate/Chart.yaml', `\nappVersion: '${from}'\n`, `\nappVersion: '${to}'\n`],
    ['package-lock.json', `"name": "headgate",\n  "version": "${from}"`, `"name": "headgate",\n  "version": "${to}"`],
    [
      'package-lock.json',
      `"name": "headgate",\n      "version": "${from}"`,
      `"name": "headgate",\n      "version": "${to}"`,
    ],
  ];
  for (const [path, now, next] of places) {
    const text = read(path);
    if (!text.includes(now))
      throw new Error(`Cannot set the version in ${path}: expected ${JSON.stringify(now)}, got none`);
    write(path, text.replace(now, next));
  }
}

const told = changes();
const before = read('package.json');
const { version: from, workspaces } = JSON.parse(before);
write('package.json', JSON.stringify({ ...JSON.parse(before), workspaces: ['.', ...workspaces] }, undefined, 2));
let status;
let to;
try {
  ({ status } = spawnSync('npx', ['--no-install', '@changesets/cli', ...args], { cwd: root, stdio: 'inherit' }));
  ({ version: to } = JSON.parse(read('package.json')));
} finally {
  write('package.json', before);
}
if (to !== from) {
  write('package.json', before.replace(`"version": "${from}"`, `"version": "${to}"`));
  setVersion(from, to);
  const date = new Date().toISOString().slice(0, 10);
  write('CHANGELOG.md', released(read('CHANGELOG.md'), to, date, told));
}
process.exitCode = status ?? 1;
