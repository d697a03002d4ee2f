import { existsSync, readFileSync, statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { exportsOf } from './support/exports.ts';
import { projectFiles, ROOT } from './support/files.ts';
import { brokenLinksOf, proseOf, shellLinesOf } from './support/markdown.ts';

const FILE_BYTES_MAX = 1024 * 1024;
const COMPILE_MS_MAX = 60_000;
const CORE_ROOMS = ['admission', 'delivery', 'dataset', 'middleware'];

const files = projectFiles();
const read = (path: string): string => readFileSync(ROOT + path, 'utf8');
const texts = new Map(files.map((path) => [path, read(path)] as const).filter(([, text]) => !text.includes('\0')));
const pages = files.filter((path) => path.endsWith('.md'));
const sources = files.filter((path) => /^src\/.*\.ts$/.test(path));
const packageJson = JSON.parse(read('package.json')) as {
  scripts: Record<string, string>;
  bin: Record<string, string>;
  exports: Record<string, string | { default: string }>;
};

// Each is written in two parts, so that this file does not hold what it looks for.
const word = (...parts: readonly string[]): string => parts.join('');
const FORBIDDEN: Readonly<Record<string, RegExp>> = {
  'work that is left for later': new RegExp(`\\b(${word('TO', 'DO')}|${word('FIX', 'ME')}|${word('XX', 'X')})\\b`),
  'a path of one machine': new RegExp(
    `(?<![\\w.)}])/(${word('wo', 'rk')}|${word('ho', 'me')}|${word('ro', 'ot')}|${word('Us', 'ers')})/\\w`,
  ),
  'the host of a package registry': new RegExp(
    [
      ['registry.npm', 'js.org'],
      ['proxy.gol', 'ang.org'],
      ['sum.gol', 'ang.org'],
      ['pypi', '.org'],
      ['pythonhos', 'ted.org'],
      ['deb.deb', 'ian.org'],
    ]
      .map((parts) => word(...parts).replaceAll('.', '\\.'))
      .join('|'),
  ),
  'a merge that was not finished': /^(<{7}|>{7}) /m,
  'a rule that is switched off': new RegExp(
    `${word('@ts-', 'ignore')}|${word('@ts-', 'nocheck')}|${word('eslint-', 'disable')}|${word('oxlint-', 'disable')}|${word('biome-', 'ignore')}`,
  ),
  'a line that ends in CRLF': /\r\n/,
};

describe('every text file', () => {
  it.each(Object.entries(FORBIDDEN))('is free of %s', (_, pattern) => {
    expect([...texts].filter(([, text]) => pattern.test(text)).map(([path]) => path)).toEqual([]);
  });

  it('ends with one line feed', () => {
    const ill = [...texts].filter(([, text]) => text !== '' && (!text.endsWith('\n') || text.endsWith('\n\n')));
    expect(ill.map(([path]) => path)).toEqual([]);
  });

  it('is smaller than a mebibyte', () => {
    expect(files.filter((path) => statSync(ROOT + path).size > FILE_BYTES_MAX)).toEqual([]);
  });
});

describe('package-lock.json', () => {
  it('names no place that packages came from', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { resolved?: string }> };
    expect(Object.keys(packages).length).toBeGreaterThan(100);
    const placed = Object.entries(packages).filter(([, { resolved = '' }]) => resolved.includes('//'));
    expect(placed.map(([name]) => name)).toEqual([]);
  });
});

describe('package.json', () => {
  it('exports and runs only what the sources have', () => {
    const { bin, exports } = packageJson;
    const targets = [
      ...Object.values(bin),
      ...Object.values(exports).map((t) => (typeof t === 'string' ? t : t.default)),
    ];
    const paths = targets.map((target) => target.replace(/^(\.\/)?dist\/(.*)\.js$/, 'src/$2.ts'));
    expect(paths.filter((path) => !existsSync(ROOT + path))).toEqual([]);
  });
});

describe('a test', () => {
  it('is never left out or run alone', () => {
    const tests = [...texts].filter(([path]) => path.endsWith('.test.ts'));
    expect(tests.length).toBeGreaterThan(5);
    const pattern = /\b(?:it|test|describe)(?:\.\w+)*\.(?:only|skip|todo|fails)\(/;
    expect(tests.filter(([, text]) => pattern.test(text)).map(([path]) => path)).toEqual([]);
  });
});

describe('what a room exports', () => {
  const indexes = sources.filter((path) => /^src\/([^/]+\/|protocols\/[^/]+\/)?index\.ts$/.test(path));

  it(
    'has a doc comment, and an example where it is a function or a class',
    () => {
      const exported = exportsOf(indexes);
      expect(exported.length).toBeGreaterThan(20);
      const ill = exported.filter(({ documented, callable, hasExample }) => !documented || (callable && !hasExample));
      expect(ill.map(({ place, documented }) => `${place} has no ${documented ? 'example' : 'doc comment'}`)).toEqual(
        [],
      );
    },
    COMPILE_MS_MAX,
  );
});

describe.each(CORE_ROOMS)('the SPEC.md of %s', (room) => {
  const path = `src/${room}/SPEC.md`;
  const spec = existsSync(ROOT + path) ? proseOf(path) : '';
  const inRoom = sources.filter((source) => source.startsWith(`src/${room}/`));
  const code = inRoom.map(read).join('\n');
  const quoted = [...spec.matchAll(/`([^`\n]+)`/g)].map((match) => match[1] ?? '');

  it('is there and names the tests that prove it', () => {
    expect(quoted.filter((text) => text.endsWith('.test.ts'))).not.toEqual([]);
  });

  it('refers to files that exist', () => {
    const named = quoted.filter((text) => /^[\w./-]+\.(ts|md|json)$/.test(text));
    const missing = named.filter(
      (name) => ![`src/${room}/${name}`, `src/${name}`, name].some((at) => existsSync(ROOT + at)),
    );
    expect(missing).toEqual([]);
  });

  it('refers to names that its code has', () => {
    const names = quoted.filter((text) => /^(\w+\.)?#?[A-Za-z]\w*(\(\))?$/.test(text) && !text.endsWith('.ts'));
    const missing = names.filter((name) => !code.includes(name.replace(/^\w+\.|\(\)$/g, '')));
    expect(missing).toEqual([]);
  });

  it('quotes the titles of tests as they are', () => {
    const lines = spec.split('\n').filter((line) => line.startsWith('|') || line.includes('.test.ts'));
    const titles = lines.flatMap((line) => [...line.matchAll(/["“]([^"”]{3,})["”]/g)].map((match) => match[1] ?? ''));
    const tests = inRoom.filter((source) => source.endsWith('.test.ts')).map(read);
    // a quote inside of a title is written with a backslash in the source
    const all = tests.join('\n').replaceAll('\\', '');
    expect(titles.filter((title) => !all.includes(title))).toEqual([]);
  });
});

describe('the pages', () => {
  it('link only to what is there', () => {
    expect(pages.length).toBeGreaterThan(5);
    const broken = pages.flatMap((page) => brokenLinksOf(page).map((target) => `${page} -> ${target}`));
    expect(broken).toEqual([]);
  });

  it('name only commands that exist', () => {
    const inRoot = ['README.md', 'CONTRIBUTING.md'].flatMap((page) => shellLinesOf(page));
    const scripts = [...Object.keys(packageJson.scripts), 'ci', 'install', 'pack'];
    const missing = inRoot
      .flatMap((line) => line.split(/ && | \| |; /))
      .filter((command) => {
        const [program = '', first = '', second = ''] = command.trim().split(/\s+/);
        if (program === 'npm') return !scripts.includes(first === 'run' ? second : first);
        if (program === 'node' || program === 'bash') return /^[\w.]/.test(first) && !existsAfterBuild(first);
        if (program.startsWith('./') || program.startsWith('.ci/')) return !existsSync(ROOT + program);
        return false;
      });
    expect(inRoot).not.toEqual([]);
    expect(missing).toEqual([]);
  });

  /** `dist/x.js` exists when `src/x.ts` does. */
  function existsAfterBuild(path: string): boolean {
    return existsSync(ROOT + path.replace(/^(\.\/)?dist\/(.*)\.js$/, 'src/$2.ts'));
  }
});

describe('the decisions', () => {
  const records = files.filter((path) => /^docs\/decisions\/\d{4}-[a-z0-9-]+\.md$/.test(path)).toSorted();

  it('are numbered without a gap', () => {
    const numbers = records.map((path) => Number(path.slice('docs/decisions/'.length).slice(0, 4)));
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    expect(numbers.length).toBeGreaterThan(5);
  });

  it('say whether they hold', () => {
    expect(records.filter((path) => !/^Status: (accepted|rejected|superseded by \[\d{4}\])/m.test(read(path)))).toEqual(
      [],
    );
  });
});
