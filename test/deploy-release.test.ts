import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { programsAvailable, run } from './support/deploy-tools.ts';
import { ROOT } from './support/files.ts';

const MS_MAX = 60_000;
vi.setConfig({ testTimeout: MS_MAX, hookTimeout: MS_MAX });
const WORKFLOWS = '.github/workflows/';

interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly needs?: string | readonly string[];
  readonly environment?: string;
  readonly steps?: readonly { uses?: string; run?: string; with?: Readonly<Record<string, unknown>> }[];
}
interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflows = new Map(
  readdirSync(ROOT + WORKFLOWS).map((name) => [
    name,
    parse(readFileSync(`${ROOT}${WORKFLOWS}${name}`, 'utf8')) as Workflow,
  ]),
);
const release = workflows.get('release.yml')?.jobs ?? {};
const script = (path: string, args: readonly string[], cwd = ROOT): ReturnType<typeof spawnSync> & { text: string } => {
  const said = spawnSync(process.execPath, [`${ROOT}scripts/${path}`, ...args], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 1e8,
  });
  return { ...said, text: said.stdout + said.stderr };
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-release-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the workflows', () => {
  it.runIf(programsAvailable('actionlint'))('are as actionlint wants them', () => {
    expect(run('actionlint', ['-no-color'])).toMatchObject({ status: 0, text: '' });
    // it is alive: a job that there is not is told
    const wrong = 'on: push\njobs:\n  one:\n    needs: two\n    runs-on: ubuntu-24.04\n    steps:\n      - run: ls\n';
    expect(run('actionlint', ['-no-color', '-'], wrong)).toMatchObject({ status: 1 });
  });

  it('may only read, but for the jobs that have to do more', () => {
    expect([...workflows].map(([name, { permissions }]) => [name, permissions])).toEqual([
      ['ci.yml', { contents: 'read' }],
      ['release.yml', { contents: 'read' }],
    ]);
    const more = Object.entries(release).flatMap(([name, { permissions = {} }]) => {
      const writes = Object.keys(permissions).filter((what) => permissions[what] !== 'read');
      return writes.length === 0 ? [] : [[name, writes.toSorted()]];
    });
    expect(Object.fromEntries(more)).toEqual({
      propose: ['contents', 'pull-requests'],
      package: ['id-token'],
      image: ['id-token', 'packages'],
      release: ['contents'],
    });
  });

  it('name the full version of each action, and leave no credentials where other people’s code runs', () => {
    const steps = [...workflows.values()]
      .flatMap(({ jobs }) => Object.values(jobs))
      .flatMap(({ steps: own = [] }) => own);
    const uses = steps.flatMap(({ uses: action = '' }) => (action.startsWith('./') || action === '' ? [] : [action]));
    expect(uses.filter((action) => !/^[\w.-]+\/[\w./-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})$/.test(action))).toEqual([]);
    expect(uses.length).toBeGreaterThan(5);
    const checkouts = steps.filter(({ uses: action = '' }) => action.startsWith('actions/checkout@'));
    const kept = checkouts.filter((step) => step.with?.['persist-credentials'] !== false);
    // the one that pushes the proposal
    expect(kept).toHaveLength(1);
    expect(checkouts.length).toBeGreaterThan(kept.length);
  });

  it('release nothing that CI did not pass, with provenance, an audit, a list of parts and the licences', () => {
    expect([release['package'], release['image']].map((job) => [job?.needs, job?.environment])).toEqual([
      [['plan', 'ci'], 'release'],
      [['plan', 'ci'], 'release'],
    ]);
    const commands = (release['package']?.steps ?? []).map(({ run: command = '' }) => command).join('\n');
    for (const command of ['npm audit --omit=dev', 'npm sbom', 'npm run --silent licenses', '--provenance']) {
      expect(commands).toContain(command);
    }
    const build = release['image']?.steps?.find(({ uses = '' }) => uses.startsWith('docker/build-push-action@'));
    expect(build?.with).toMatchObject({ provenance: 'mode=max', sbom: true });
  });
});

describe('the list of licences', () => {
  it('has every package that is installed with this one, under licences that are allowed', () => {
    const { status, text } = script('licenses.mjs', []);
    const lines = text.trim().split('\n');
    expect([status, lines.filter((line) => !/^\S+ \d+\.\d+\.\d+\S* \S+$/.test(line))]).toEqual([0, []]);
    const names = lines.map((line) => line.split(' ')[0]);
    const { dependencies } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { dependencies: object };
    expect(names).toEqual(expect.arrayContaining([...Object.keys(dependencies), 'uplot', 'koffi']));
    expect(names.filter((name = '') => /^(vitest|typescript|vite|@biomejs\/.*)$/.test(name))).toEqual([]);
  });

  it('has their texts when asked', () => {
    const { text } = script('licenses.mjs', ['--texts']);
    expect(text).toMatch(/^fastify \S+ MIT\n\nMIT License\n/m);
  });

  // fails when isAllowed answers true
  it.each([
    ['GPL-3.0-only', 1],
    ['none', 1],
    ['(MIT OR GPL-3.0-only)', 0],
    ['MIT AND GPL-3.0-only', 1],
    ['MIT AND Apache-2.0 OR GPL-3.0-only', 0],
    // these two fail when parentheses are not looked at
    ['(MIT OR ISC) AND (GPL-3.0-only OR GPL-2.0-only)', 1],
    ['GPL-3.0-only AND (GPL-2.0-only OR MIT OR ISC)', 1],
  ])('holds a licence against what is allowed: %s', (license, expected) => {
    const entry = license === 'none' ? { version: '1.0.0' } : { version: '1.0.0', license };
    const packages = {
      '': {},
      'node_modules/some': entry,
      'node_modules/tool': { dev: true, license: 'GPL-3.0-only' },
    };
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify({ packages }));
    const { status, text } = script('licenses.mjs', [folder]);
    const refusal = `Cannot release with some 1.0.0: expected a licence that is allowed, got ${license}\n`;
    expect([status, text]).toEqual([expected, `some 1.0.0 ${license}\n${expected === 1 ? refusal : ''}`]);
  });

  it('fails where there is nothing to list', () => {
    writeFileSync(join(folder, 'package-lock.json'), '{ "packages": { "": {} } }');
    expect(script('licenses.mjs', [folder])).toMatchObject({ status: 1, text: expect.stringContaining('got none') });
  });
});

describe('the next version', () => {
  const FILES = [
    'package.json',
    'package-lock.json',
    'dashboard/package.json',
    'src/relay.ts',
    'CHANGELOG.md',
    'deploy/helm/headgate/Chart.yaml',
    '.changeset/config.json',
    '.changeset/README.md',
  ];
  const change = (name: string, size: string, text: string): void =>
    writeFileSync(join(folder, '.changeset', `${name}.md`), `---\n'headgate': ${size}\n---\n\n${text}\n`);
  const read = (path: string): string => readFileSync(join(folder, path), 'utf8');

  beforeEach(() => {
    for (const path of FILES) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      cpSync(ROOT + path, join(folder, path));
    }
    symlinkSync(`${ROOT}node_modules`, join(folder, 'node_modules'));
    const lines = [
      '# Changelog',
      '',
      '## [Unreleased]',
      '',
      '### Added',
      '',
      '- One.',
      '',
      '## [0.0.9] - 2026-01-01',
      '',
      '- Old.',
      '',
    ];
    writeFileSync(join(folder, 'CHANGELOG.md'), lines.join('\n'));
  });

  it('is set in every file that names one, and the changes are told', () => {
    const before = JSON.parse(read('package.json')) as { version: string };
    const [major, minor] = before.version.split('.').map(Number);
    change('fast-cats', 'minor', 'Two,\nwith a second line.');
    change('slow-dogs', 'patch', 'Three.');
    expect(script('changeset.mjs', ['version'], folder)).toMatchObject({ status: 0 });
    const next = `${major}.${(minor ?? 0) + 1}.0`;
    expect(JSON.parse(read('package.json'))).toEqual({ ...before, version: next });
    expect(JSON.parse(read('package-lock.json'))).toMatchObject({
      version: next,
      packages: { '': { version: next } },
    });
    expect(read('src/relay.ts')).toContain(`VERSION = '${next}'`);
    expect(parse(read('deploy/helm/headgate/Chart.yaml'))).toMatchObject({ version: next, appVersion: next });
    expect(readdirSync(join(folder, '.changeset')).toSorted()).toEqual(['README.md', 'config.json']);
    const date = new Date().toISOString().slice(0, 10);
    expect(read('CHANGELOG.md')).toBe(
      `# Changelog\n\n## [Unreleased]\n\n## [${next}] - ${date}\n\n### Added\n\n- One.\n- Two, with a second line.\n\n### Fixed\n\n- Three.\n\n## [0.0.9] - 2026-01-01\n\n- Old.\n`,
    );
  });

  it('is not set where nothing changed, and a command that only looks changes nothing', () => {
    const before = FILES.map(read);
    expect(script('changeset.mjs', ['version'], folder).status).toBe(0);
    expect(FILES.map(read)).toEqual(before);
    expect(existsSync(join(folder, 'CHANGELOG.md'))).toBe(true);
  });
});

describe('the reports of what is exported', () => {
  it('are of the entries that the package has', () => {
    const { exports } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { exports: Record<string, unknown> };
    const entries = Object.keys(exports).filter((name) => name !== './package.json');
    const files = entries.map((name) => `${name === '.' ? 'headgate' : name.slice(2).replaceAll('/', '-')}.api.md`);
    expect(readdirSync(`${ROOT}api`).toSorted()).toEqual(files.toSorted());
  });
});
