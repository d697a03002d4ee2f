import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { CATALOG } from '../src/observability/catalog.ts';
import { prometheusName } from '../src/observability/prometheus.ts';
import { ROOT } from './support/files.ts';
import {
  groupingsOf,
  MONITORING,
  promtool,
  promtoolAvailable,
  promtoolOn,
  RULES,
  type Selector,
  selectorsOf,
} from './support/promtool.ts';

/** It begins a database for each of its tests. */
const PROMTOOL_MS_MAX = 60_000;

const rule = z.strictObject({
  record: z.string().optional(),
  alert: z.string().optional(),
  expr: z.string(),
  for: z.string().optional(),
  labels: z.strictObject({ severity: z.enum(['warning', 'critical']) }).optional(),
  annotations: z.strictObject({ summary: z.string(), runbook: z.string() }).optional(),
});
type Rule = z.infer<typeof rule>;

const rulesText = readFileSync(RULES, 'utf8');
const rules = z
  .strictObject({ groups: z.array(z.strictObject({ name: z.string(), rules: z.array(rule) })) })
  .parse(parse(rulesText))
  .groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);
const recorded = new Set(rules.flatMap(({ record }) => (record === undefined ? [] : [record])));

/** What Prometheus adds to every series. */
const ADDED = ['job', 'instance'];
/** Labels of each series, by its name in Prometheus. */
const known = new Map<string, readonly string[]>([['up', ADDED]]);
for (const definition of CATALOG) {
  const name = prometheusName(definition);
  const labels = [...ADDED, ...(definition.labels ?? []).map((label) => label.replaceAll('.', '_'))];
  if (definition.type !== 'histogram') known.set(name, labels);
  else for (const end of ['_bucket', '_sum', '_count']) known.set(name + end, [...labels, 'le']);
}
for (const record of recorded) known.set(record, ADDED);

/** What an expression asks for and nobody has. */
function strangersOf(expression: string): string[] {
  const selectors = selectorsOf(expression);
  const unknown = selectors.filter(({ name }) => !known.has(name)).map(({ name }) => name);
  const labelled = selectors.flatMap(({ name, labels }: Selector) =>
    labels.filter((label) => known.get(name)?.includes(label) === false).map((label) => `${name}{${label}}`),
  );
  const groupings = groupingsOf(expression).filter(
    (label) => !selectors.some(({ name }) => known.get(name)?.includes(label)),
  );
  return [...unknown, ...labelled, ...groupings];
}

describe('what an expression asks for', () => {
  // fails when a name in a function, behind an operator or in a selector is overlooked
  it('is found, and compared with what there is', () => {
    expect(
      strangersOf('sum by (job, colour) (rate(nonsense_total{reason="headgate_x"}[5m])) / up{shape=~"a"} > 0.5'),
    ).toEqual(['nonsense_total', 'up{shape}', 'colour']);
    expect(
      strangersOf('histogram_quantile(0.9, sum by (le) (rate(headgate_admission_wait_seconds_bucket[5m])))'),
    ).toEqual([]);
  });
});

describe('the alert rules', () => {
  it('ask for metrics and labels that there are', () => {
    expect(alerts.length).toBeGreaterThan(10);
    expect(rules.flatMap(({ expr }) => strangersOf(expr))).toEqual([]);
  });

  it('have each a severity, a summary and a place in the runbook', () => {
    const page = readFileSync(`${ROOT}docs/operating/runbook.md`, 'utf8');
    const headings = [...page.matchAll(/^## (Headgate\w+)$/gm)].map(([, heading = '']) => heading);
    expect(headings.toSorted()).toEqual(alerts.map(({ alert = '' }) => alert).toSorted());
    for (const { alert = '', labels, annotations } of alerts) {
      const runbook = `docs/operating/runbook.md#${alert.toLowerCase()}`;
      expect({ alert, labels, annotations }).toMatchObject({
        labels: { severity: expect.any(String) },
        annotations: { runbook },
      });
    }
  });

  it('say why each waits as long as it does', () => {
    const lines = rulesText.split('\n');
    const unsaid = lines.filter((line, at) => line.includes('- alert:') && !lines[at - 1]?.trim().startsWith('# '));
    expect(unsaid).toEqual([]);
  });

  it('are each seen to fire and to be quiet', () => {
    const asserted = z
      .object({
        tests: z.array(
          z.object({
            alert_rule_test: z.array(z.object({ alertname: z.string(), exp_alerts: z.array(z.unknown()) })),
          }),
        ),
      })
      .parse(parse(readFileSync(`${MONITORING}headgate.rules.test.yaml`, 'utf8')))
      .tests.flatMap((test) => test.alert_rule_test);
    const names = (fires: boolean): string[] => [
      ...new Set(asserted.filter((one) => one.exp_alerts.length > 0 === fires).map(({ alertname }) => alertname)),
    ];
    const wanted = alerts.map(({ alert = '' }) => alert).toSorted();
    expect(names(true).toSorted()).toEqual(wanted);
    expect(names(false).toSorted()).toEqual(wanted);
  });
});

describe.runIf(promtoolAvailable())('promtool', { timeout: PROMTOOL_MS_MAX }, () => {
  it('takes the rules', () => {
    expect(promtool('check', 'rules', '--lint=all', '--lint-fatal', 'headgate.rules.yaml')).toMatchObject({ ok: true });
  });

  it('sees each alert fire and be quiet', () => {
    expect(promtool('test', 'rules', 'headgate.rules.test.yaml')).toMatchObject({ ok: true });
  });
});

const source = z.strictObject({ type: z.literal('prometheus'), uid: z.literal('${datasource}') });
const target = z.strictObject({
  refId: z.string().regex(/^[A-Z]$/),
  datasource: source,
  expr: z.string(),
  legendFormat: z.string(),
  instant: z.boolean().optional(),
  range: z.boolean().optional(),
  format: z.literal('table').optional(),
});
const place = z.strictObject({
  x: z.int().min(0).max(23),
  y: z.int().min(0),
  w: z.int().min(1).max(24),
  h: z.int().min(1),
});
const panel = z.strictObject({
  id: z.int().positive(),
  type: z.enum(['timeseries', 'gauge', 'table']),
  title: z.string().min(1),
  description: z.string().min(1),
  datasource: source,
  gridPos: place,
  fieldConfig: z.strictObject({
    defaults: z.looseObject({ unit: z.enum(['short', 'percentunit', 'ops', 's', 'Bps', 'bytes']), min: z.number() }),
    overrides: z.array(z.never()),
  }),
  options: z.looseObject({}),
  targets: z.array(target).min(1),
  transformations: z.array(z.strictObject({ id: z.string(), options: z.looseObject({}) })).optional(),
});
const row = z.strictObject({
  id: z.int().positive(),
  type: z.literal('row'),
  title: z.string().min(1),
  collapsed: z.literal(false),
  gridPos: place,
  panels: z.array(z.never()),
});
const variable = z.looseObject({
  name: z.enum(['datasource', 'job', 'instance']),
  type: z.enum(['datasource', 'query']),
  query: z.union([z.literal('prometheus'), z.strictObject({ query: z.string(), refId: z.string() })]),
  datasource: source.optional(),
  current: z.strictObject({}),
});
const dashboard = z.strictObject({
  title: z.string(),
  uid: z.literal('headgate'),
  description: z.string(),
  tags: z.array(z.string()),
  schemaVersion: z.int().min(36),
  version: z.int(),
  editable: z.boolean(),
  timezone: z.string(),
  refresh: z.string(),
  time: z.strictObject({ from: z.string(), to: z.string() }),
  templating: z.strictObject({ list: z.array(variable) }),
  annotations: z.strictObject({ list: z.array(z.never()) }),
  panels: z.array(z.union([row, panel])),
});

describe('the Grafana dashboard', () => {
  const text = readFileSync(`${MONITORING}grafana-dashboard.json`, 'utf8');
  const { panels, templating } = dashboard.parse(JSON.parse(text));
  const shown = panels.flatMap((each) => (each.type === 'row' ? [] : [each]));
  const expressions = shown.flatMap(({ targets }) => targets.map(({ expr }) => expr));

  it('asks for metrics and labels that there are', () => {
    expect(expressions.length).toBeGreaterThan(20);
    expect(expressions.flatMap((expr) => strangersOf(expr))).toEqual([]);
  });

  it('shows only the jobs, the instances and the source that are chosen', () => {
    expect(templating.list.map(({ name }) => name)).toEqual(['datasource', 'job', 'instance']);
    const selectors = expressions.flatMap((expr) => selectorsOf(expr).map((selector) => ({ expr, selector })));
    const open = selectors.filter(({ selector: { labels } }) => !ADDED.every((label) => labels.includes(label)));
    expect(open.map(({ expr }) => expr)).toEqual([]);
    expect(text).not.toMatch(/"uid": "(?!\$\{datasource\}|headgate")/);
  });

  it('has each number once, and no panel upon another', () => {
    const ids = panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
      expect(x + w).toBeLessThanOrEqual(24);
      return Array.from({ length: w * h }, (_, at) => `${x + (at % w)}/${y + Math.floor(at / w)}`);
    });
    expect(new Set(cells).size).toBe(cells.length);
    const twice = shown.filter(({ targets }) => new Set(targets.map(({ refId }) => refId)).size < targets.length);
    expect(twice.map(({ title }) => title)).toEqual([]);
  });

  it('goes from the budget to the event loop', () => {
    expect(panels.flatMap((each) => (each.type === 'row' ? [each.title] : []))).toEqual([
      'Budget',
      'Herd',
      'Refusals and cuts',
      'Environments',
      'Sources of decisions',
      'Memory',
      'Event loop',
    ]);
  });

  describe.runIf(promtoolAvailable())('and promtool', { timeout: PROMTOOL_MS_MAX }, () => {
    const asRules = (all: readonly string[]): object => ({
      groups: [{ name: 'panels', rules: all.map((expr, at): Rule => ({ record: `panel:${at}`, expr })) }],
    });

    it('can be read by Prometheus, expression by expression', () => {
      const filled = expressions.map((expr) => expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$\w+/g, '.*'));
      expect(promtoolOn(asRules(filled), 'check', 'rules', '--lint=none')).toMatchObject({ ok: true });
    });

    // proves that the test above can fail
    it('notices an expression that cannot be read', () => {
      expect(promtoolOn(asRules(['sum by (rate(x[5m])']), 'check', 'rules', '--lint=none').ok).toBe(false);
    });
  });
});
