import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './files.ts';
import { isThereOrSkipped } from './missing.ts';

/** Where the rules and the dashboard are. */
export const MONITORING: string = `${ROOT}deploy/monitoring/`;
/** The alert rules, and the file of their tests. */
export const RULES: string = `${MONITORING}headgate.rules.yaml`;

/**
 * Whether promtool, Prometheus' own checker of rules, can be run here. In CI it must be there: a missing one is an error,
 * never a skipped test.
 */
export function promtoolAvailable(): boolean {
  const problem = 'Cannot check alert rules: promtool must be on the PATH (Debian package prometheus), got none';
  return isThereOrSkipped(spawnSync('promtool', ['--version']).status === 0, problem);
}

/** What promtool says, and whether it is content. */
export interface Verdict {
  readonly ok: boolean;
  readonly text: string;
}

/** Runs promtool in the folder of the rules. */
export function promtool(...args: readonly string[]): Verdict {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: MONITORING, encoding: 'utf8' });
  return { ok: status === 0, text: stdout + stderr };
}

/** Has promtool look at something that is written for it, as JSON, which is YAML as well. */
export function promtoolOn(content: object, ...args: readonly string[]): Verdict {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-promtool-'));
  try {
    const path = join(folder, 'content.yaml');
    writeFileSync(path, JSON.stringify(content));
    return promtool(...args, path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The series of a scrape, by their names with labels, in which `job` and `instance` are what Prometheus would add. */
export function seriesOf(text: string, job: string, instance: string): Map<string, string> {
  const series = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, name, labels = '', value = ''] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined) continue;
    const more = labels === '' ? '' : `, ${labels}`;
    series.set(`${name}{job="${job}", instance="${instance}"${more}}`, value);
  }
  return series;
}

/** A selector of an expression: a name, and the labels that stand in its braces. */
export interface Selector {
  readonly name: string;
  readonly labels: readonly string[];
}

const WORDS = new Set(['and', 'or', 'unless', 'offset', 'by', 'on', 'without', 'ignoring', 'bool']);

/** The metrics that an expression asks for. */
export function selectorsOf(expression: string): readonly Selector[] {
  const withoutTexts = expression.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""');
  // names in lists of labels, and units of durations, are no metrics
  const bare = withoutTexts.replaceAll(/\b(by|on|without|ignoring)\s*\([^)]*\)/g, '').replaceAll(/\[[^\]]*\]/g, '');
  const found = bare.matchAll(/(?<![\w.])([a-zA-Z_:][\w:]*)(\s*\()?(?:\{([^}]*)\})?/g);
  const selectors: Selector[] = [];
  for (const [, name = '', call, braces = ''] of found) {
    if (call !== undefined || WORDS.has(name)) continue;
    selectors.push({ name, labels: [...braces.matchAll(/(\w+)\s*[=!]/g)].map(([, label = '']) => label) });
  }
  return selectors;
}

/** The labels by which an expression sums. */
export function groupingsOf(expression: string): readonly string[] {
  const lists = [...expression.matchAll(/\bby\s*\(([^)]*)\)/g)];
  return lists.flatMap(([, list = '']) => list.split(',').map((label) => label.trim()));
}
