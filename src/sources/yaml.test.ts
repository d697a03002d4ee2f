import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import fc from 'fast-check';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { parseJson } from '../../test/support/json.ts';
import { convertYaml } from './yaml-convert.ts';
import type * as Yaml from './yaml.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

function jsonOf(text: string): string {
  const result = convertYaml(Buffer.from(text));
  return result.ok ? Buffer.from(result.json).toString() : `${result.line}:${result.column}: ${result.cause}`;
}

describe('conversion', () => {
  it('gives the JSON value that the YAML was written from', () => {
    const value = fc.dictionary(fc.string(), fc.oneof(fc.jsonValue(), fc.dictionary(fc.string(), fc.jsonValue())));
    fc.assert(
      fc.property(value, (written) => {
        const json = JSON.stringify(written);
        // a key << is a merge unless it is quoted, which the writer does not know
        const quoted = json.includes('"<<"') ? ({ defaultKeyType: 'QUOTE_DOUBLE' } as const) : {};
        expect(parseJson(jsonOf(stringify(written, quoted)))).toEqual(parseJson(json));
      }),
      { numRuns: 50, examples: [[{ a: { '<<': 0 } }]] },
    );
  }, 30_000);

  it('puts the keys of the outer two levels where they stand in the YAML', () => {
    const yaml = 'flagValues:\n\n  # comment\n  9: x\n  a:\n    deep: 1\n\n  1: y\nflags: {}\nsegments: { s: {} }\n';
    expect(jsonOf(yaml)).toBe(
      '{"flagValues":{\n\n\n  "9":"x",\n  "a":{"deep":1},\n\n\n  "1":"y"},\n"flags":{},\n"segments":{"s":{}}}',
    );
  });

  it('resolves anchors and merge keys', () => {
    const yaml = 'base: &base {on: true, version: 1}\nflags:\n  a: *base\n  b:\n    <<: *base\n    version: 2\n';
    expect(JSON.parse(jsonOf(yaml))).toMatchObject({
      flags: { a: { on: true, version: 1 }, b: { on: true, version: 2 } },
    });
  });

  // fails when the check in #write is removed: a hundred aliases of one long list are a hundred lists
  it('bounds what aliases multiply', () => {
    const yaml = Buffer.from(`x: &x [${'1,'.repeat(100)}]\ny: [${'*x,'.repeat(50)}]\n`);
    expect(convertYaml(yaml, 20_000)).toMatchObject({ ok: true });
    expect(convertYaml(yaml, 5000)).toEqual({
      ok: false,
      cause: 'the file may have 5000 characters as JSON, got more',
      line: 2,
      column: 1,
    });
  });

  it('keeps __proto__ as a key', () => {
    expect(jsonOf('flags: {__proto__: {on: true}}').replaceAll(/\s/g, '')).toBe('{"flags":{"__proto__":{"on":true}}}');
  });

  it('takes time in proportion to the size: no key is compared with all others', () => {
    const yaml = (keys: number): string =>
      `flagValues:\n${Array.from({ length: keys }, (_, i) => `  k${i}: 1\n`).join('')}`;
    const cpuMs = (keys: number): number => {
      const begin = process.cpuUsage();
      jsonOf(yaml(keys));
      return process.cpuUsage(begin).user / 1000;
    };
    cpuMs(1000);
    // 16 times the keys; 256 times the comparisons, had there been any
    expect(cpuMs(16_000) / cpuMs(1000)).toBeLessThan(100);
  }, 30_000);
});

/** What the compiler makes of the room and the kernel, as in the package: only there is the file of the thread. */
describe('the thread, compiled', () => {
  let folder: string;
  let yamlToJson: typeof Yaml.yamlToJson;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'headgate-yaml-'));
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    const kernel = readdirSync(join(ROOT, 'src/kernel'))
      .filter((name) => !name.endsWith('.test.ts'))
      .map((name) => `kernel/${name.replace(/\.ts$/, '')}`);
    for (const name of [...kernel, 'sources/yaml', 'sources/yaml-convert', 'sources/yaml-worker'])
      compile(folder, name);
    ({ yamlToJson } = (await import(pathToFileURL(join(folder, 'sources/yaml.js')).href)) as typeof Yaml);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('converts, while this thread is free', async () => {
    const lines = Array.from({ length: 2000 }, (_, i) => `  flag-${i}: {x: [1, 2], y: text}\n`);
    const yaml = Buffer.from(`flagValues:\n${lines.join('')}`);
    let turns = 0;
    let busy = true;
    const turn = (): void => {
      turns += 1;
      if (busy) setImmediate(turn);
    };
    setImmediate(turn);
    const json = await yamlToJson('a.yaml', yaml);
    busy = false;
    expect(Object.keys((JSON.parse(json.toString()) as { flagValues: object }).flagValues)).toHaveLength(2000);
    // fails when the conversion is done here: the loop does not turn then
    expect(turns).toBeGreaterThan(10);
  }, 30_000);

  it('names file, line and column', async () => {
    await expect(yamlToJson('a.yaml', Buffer.from('a: [1\nb: 2'))).rejects.toMatchObject({
      code: 'HG_SOURCE',
      message: expect.stringMatching(/^Cannot read a\.yaml:2:1: /) as string,
    });
  });

  it.each([
    ['throw new Error("no memory")', 'no memory'],
    ['process.exit(3)', 'the thread that reads it ended with 3'],
  ])('fails alone: %s', async (code, cause) => {
    writeFileSync(join(folder, 'sources/yaml-worker.js'), code);
    await expect(yamlToJson('a.yaml', Buffer.from('a: 1'))).rejects.toMatchObject({
      code: 'HG_SOURCE',
      message: `Cannot read a.yaml: ${cause}`,
    });
  });
});

function compile(folder: string, name: string): void {
  const source = readFileSync(join(ROOT, 'src', `${name}.ts`), 'utf8');
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.ESNext,
      rewriteRelativeImportExtensions: true,
      verbatimModuleSyntax: true,
    },
  });
  const path = join(folder, `${name}.js`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, outputText);
}
