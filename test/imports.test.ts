import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import extractOptions from 'dependency-cruiser/config-utl/extract-depcruise-options';
import extractTsConfig from 'dependency-cruiser/config-utl/extract-ts-config';
import { afterAll, describe, expect, it } from 'vitest';
import { projectFiles, ROOT } from './support/files.ts';

const CRUISE_MS_MAX = 60_000;

async function cruiseSources(baseDir: string): Promise<ICruiseResult> {
  const options = await extractOptions(join(ROOT, '.dependency-cruiser.cjs'));
  const tsConfig = extractTsConfig(join(ROOT, 'tsconfig.json'));
  const { output } = await cruise(['src'], { ...options, baseDir }, undefined, { tsConfig });
  if (typeof output === 'string') throw new Error(`Cannot check imports: expected a result object, got ${output}`);
  return output;
}

function violationsOf(result: ICruiseResult): string[] {
  return result.summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} -> ${to}`);
}

describe('imports', () => {
  it(
    'point one way, and every source file was looked at',
    async () => {
      const result = await cruiseSources(ROOT);
      expect(violationsOf(result)).toEqual([]);
      const seen = new Set(result.modules.map((module) => module.source));
      const sources = projectFiles().filter((path) => path.startsWith('src/') && path.endsWith('.ts'));
      expect(sources.length).toBeGreaterThan(10);
      expect(sources.filter((path) => !seen.has(path))).toEqual([]);
    },
    CRUISE_MS_MAX,
  );
});

// A rule whose pattern matches nothing passes for ever: each one here is shown a tree that breaks it.
describe('the import rules', () => {
  const planted = mkdtempSync(join(tmpdir(), 'headgate-imports-'));
  afterAll(() => rmSync(planted, { recursive: true, force: true }));

  const plant = (path: string, text: string): void => {
    mkdirSync(dirname(join(planted, path)), { recursive: true });
    writeFileSync(join(planted, path), text);
  };
  const exporting = (name: string): string => `export const ${name} = 1;\n`;
  const importing = (...paths: string[]): string => paths.map((path) => `import '${path}';\n`).join('');

  it(
    'find what breaks them',
    async () => {
      for (const room of ['admission', 'dataset', 'delivery', 'observability', 'server', 'stores', 'sources']) {
        plant(`src/${room}/index.ts`, exporting(room));
      }
      plant('src/admission/queue.ts', exporting('queue'));
      plant('src/cli/main.ts', exporting('main'));
      plant('src/protocols/one/index.ts', exporting('one'));
      plant('src/kernel/a.ts', importing('../admission/index.ts'));
      plant('src/kernel/b.ts', importing('./c.ts'));
      plant('src/kernel/c.ts', importing('./b.ts'));
      plant('src/admission/a.ts', importing('../delivery/index.ts', 'node:net'));
      plant('src/dataset/a.ts', importing('node:fs', 'node:zlib', 'node:crypto'));
      plant(
        'src/protocols/two/a.ts',
        importing('../one/index.ts', '../../server/index.ts', '../../admission/queue.ts'),
      );
      plant('src/server/a.ts', importing('../stores/index.ts', '../observability/index.ts', '../cli/main.ts'));
      plant('src/config/a.ts', importing('../admission/index.ts'));
      plant('src/herd/index.ts', exporting('herd'));
      plant('src/herd/a.ts', importing('../server/index.ts'));
      plant('src/relay/a.ts', importing('../herd/index.ts'));
      plant('src/server/b.ts', importing('./a.test.ts', './nowhere.ts', 'dev-only', 'unlisted'));
      plant('package.json', '{ "devDependencies": { "dev-only": "1.0.0" } }\n');
      plant('node_modules/dev-only/index.js', exporting('devOnly'));
      plant('node_modules/unlisted/index.js', exporting('unlisted'));
      plant('src/server/a.test.ts', exporting('test'));
      const found = violationsOf(await cruiseSources(planted));
      expect(found.toSorted()).toEqual(
        [
          'admission-does-no-io: src/admission/a.ts -> net',
          'config-is-leaf: src/config/a.ts -> src/admission/index.ts',
          'core-imports-kernel-only: src/admission/a.ts -> src/delivery/index.ts',
          'dataset-does-no-io: src/dataset/a.ts -> fs',
          'edges-import-core-only: src/protocols/two/a.ts -> src/server/index.ts',
          'enter-a-room-by-its-index: src/protocols/two/a.ts -> src/admission/queue.ts',
          'herd-imports-kernel-and-outbound-only: src/herd/a.ts -> src/server/index.ts',
          'kernel-imports-no-room: src/kernel/a.ts -> src/admission/index.ts',
          'no-circular: src/kernel/b.ts -> src/kernel/c.ts',
          'nobody-imports-cli: src/server/a.ts -> src/cli/main.ts',
          'not-to-unresolvable: src/server/b.ts -> ./nowhere.ts',
          'no-dev-dependency-in-src: src/server/b.ts -> node_modules/dev-only/index.js',
          'no-unlisted-dependency: src/server/b.ts -> node_modules/unlisted/index.js',
          'only-cli-imports-herd: src/relay/a.ts -> src/herd/index.ts',
          'only-relay-wires-observability: src/server/a.ts -> src/observability/index.ts',
          'protocols-do-not-know-each-other: src/protocols/two/a.ts -> src/protocols/one/index.ts',
          'server-does-not-know-stores-or-sources: src/server/a.ts -> src/stores/index.ts',
          'server-does-not-know-stores-or-sources: src/server/a.ts -> src/cli/main.ts',
          'server-does-not-know-stores-or-sources: src/server/a.ts -> src/observability/index.ts',
          'src-does-not-import-tests: src/server/b.ts -> src/server/a.test.ts',
        ].toSorted(),
      );
    },
    CRUISE_MS_MAX,
  );
});
