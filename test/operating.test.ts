import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../src/config/index.ts';
import { CATALOG } from '../src/observability/catalog.ts';
import { prometheusName } from '../src/observability/prometheus.ts';
import { projectFiles, ROOT } from './support/files.ts';
import { proseOf, shellLinesOf } from './support/markdown.ts';

const pages = projectFiles().filter(
  (path) => path.startsWith('docs/operating/') || path === 'deploy/monitoring/README.md',
);
const SECTIONS = ['server', 'limits', 'flags', 'decisions', 'store', 'admin', 'otlp', 'outbound', 'exit', 'log'];

/** What stands in the text of a page as code, and belongs to `pattern`. */
function named(page: string, pattern: RegExp): string[] {
  const quoted = [...proseOf(page).matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => text);
  return [...new Set(quoted.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name)))];
}

/** Whether our own file may have a setting, as its reader says. */
async function isSetting(path: string): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-operating-'));
  try {
    const file = join(folder, 'headgate.yaml');
    writeFileSync(file, JSON.stringify(path.split('.').reduceRight<unknown>((value, key) => ({ [key]: value }), 'x')));
    const machine = { memoryLimitBytes: 2 ** 29, lowWater: true };
    const { problems } = await loadConfig({ file, allowMissingFile: false, fromEnv: false, env: {}, machine });
    return !problems.some(({ message }) => message.startsWith('no setting is named'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('the pages for operators', () => {
  it('are there', () => {
    expect(pages.length).toBeGreaterThan(5);
  });

  // fails when the reader takes any key
  it('are compared with a reader that knows what it knows', async () => {
    expect([await isSetting('limits.slots'), await isSetting('limits.slot')]).toEqual([true, false]);
    expect([await isSetting('flags.log.bytes'), await isSetting('flags.log.byte')]).toEqual([true, false]);
  });

  it.each(pages)('name settings that there are: %s', async (page) => {
    const settings = named(page, new RegExp(`(?:^|\\s)((?:${SECTIONS.join('|')})(?:\\.[a-z]\\w*)+)(?![\\w.])`, 'g'));
    const files = /\.(yaml|md|json)$/;
    const missing: string[] = [];
    for (const path of settings) if (!files.test(path) && !(await isSetting(path))) missing.push(path);
    expect(missing).toEqual([]);
  });

  it.each(pages)('name metrics that there are: %s', (page) => {
    const known = CATALOG.map((definition) => prometheusName(definition));
    const metrics = named(page, /\b((?:headgate|launchdarkly_relay|cs|process)_[a-z_]+)(?!\w|\*)/g);
    expect(metrics.filter((name) => !known.includes(name) && !name.endsWith('_'))).toEqual([]);
  });

  it.each(pages)('name variables that are read: %s', (page) => {
    const sources = projectFiles().filter((path) => /^src\/.*\.ts$/.test(path) && !path.endsWith('.test.ts'));
    const code = sources.map((path) => readFileSync(ROOT + path, 'utf8')).join('\n');
    const commands = shellLinesOf(page).join('\n');
    const variables = [
      ...named(page, /\b(HEADGATE_[A-Z_0-9]+)\b/g),
      ...(commands.match(/\bHEADGATE_[A-Z_0-9]+(?==)/g) ?? []),
    ];
    expect(variables.filter((name) => !code.includes(name))).toEqual([]);
  });

  it.each(pages)('use options of the command that it has: %s', (page) => {
    const main = readFileSync(`${ROOT}src/cli/main.ts`, 'utf8');
    const used = shellLinesOf(page)
      .flatMap((line) => line.split(/[|;<>()]+/))
      .filter((command) => /(^|\s)headgate (serve|check-config)/.test(command))
      .flatMap((command) => command.match(/--[a-z-]+/g) ?? []);
    expect(used.filter((option) => !main.includes(`'${option}`))).toEqual([]);
  });
});
