import { mkdtempSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { promtoolAvailable, promtoolOn, RULES, seriesOf } from '../support/promtool.ts';

/*
 * A herd against a small budget, seen as an operator would see it: what /metrics says before and after is what Prometheus
 * is given, and the alert rules are Headgate's own.
 */

const SDK_KEY = 'sdk-00000000-1111-2222-3333-444444444444';
const SLOTS = 2;
const QUEUE = 4;
const HERD = 40;
/** Far more than the buffers of a connection take, also without the low-water mark. */
const COPY_BYTES = 32 * 1024 * 1024;
const JOB = 'headgate';
const INSTANCE = 'relay-1:8031';
const WAIT_MS = 20_000;
/** Minutes of Prometheus' time at which the herd comes, and at which alerts are looked at. */
const HERD_AT = 3;
const BEFORE_AT = '2m';
const AFTER_AT = '5m';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

function flagsFile(): string {
  const flag = (at: number): object => ({ key: `flag-${at}`, version: 1, on: true, salt: 'x'.repeat(32 * 1024) });
  const flags = Object.fromEntries(
    Array.from({ length: COPY_BYTES / (32 * 1024) }, (_, at) => [`flag-${at}`, flag(at)]),
  );
  const path = join(mkdtempSync(join(tmpdir(), 'headgate-monitoring-')), 'flags.json');
  writeFileSync(path, JSON.stringify({ flags, segments: {} }));
  return path;
}

async function start(): Promise<{ headgate: Headgate; metrics: () => Promise<string> }> {
  const source = { type: 'file', name: 'production', paths: [flagsFile()], sdkKey: SDK_KEY };
  const headgate = await startHeadgate({
    config: {
      server: { drainDelay: 0, grace: 0 },
      flags: { sources: [source] },
      limits: { slots: SLOTS, queue: QUEUE, parking: false, wait: '300ms' },
    },
  });
  closing.push(() => headgate.stop());
  await headgate.waitForLog('environment loaded');
  const { port } = await headgate.waitForLog('admin listening');
  const metrics = async (): Promise<string> => (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
  return { headgate, metrics };
}

function valueIn(text: string, name: string): number {
  return Number(seriesOf(text, JOB, INSTANCE).get(name.replace('{', `{job="${JOB}", instance="${INSTANCE}", `)));
}

const held = `headgate_admission_held{job="${JOB}", instance="${INSTANCE}"}`;

/** Asks for a full copy and reads none of it. */
function stall(headgate: Headgate): Socket {
  const socket = connect(headgate.port, '127.0.0.1');
  socket.pause();
  socket.on('error', () => {});
  socket.write(`GET /sdk/flags HTTP/1.1\r\nhost: headgate\r\nauthorization: ${SDK_KEY}\r\n\r\n`);
  closing.push(() => socket.destroy());
  return socket;
}

/** What Prometheus would have: a scrape a minute, those of before until the herd comes, then those of after. */
function inputOf(before: string, after: string): { series: string; values: string }[] {
  const [earlier, later] = [seriesOf(before, JOB, INSTANCE), seriesOf(after, JOB, INSTANCE)];
  const minutes = Array.from({ length: 10 }, (_, at) => at);
  return [...new Set([...earlier.keys(), ...later.keys()])].map((series) => ({
    series,
    values: minutes.map((at) => (at < HERD_AT ? earlier : later).get(series) ?? '_').join(' '),
  }));
}

/** As promtool writes a ratio. */
function percent(ratio: number): string {
  return `${Number((ratio * 100).toPrecision(4))}%`;
}

describe.runIf(promtoolAvailable())('the alert on refusals', () => {
  // fails when the rule wants more than a herd refuses, and when metrics do not count refusals
  it('fires on a herd that is refused, and not before it', { timeout: 120_000 }, async () => {
    const { headgate, metrics } = await start();
    const before = await metrics();
    for (let at = 0; at < SLOTS; at++) stall(headgate);
    await vi.waitFor(async () => {
      expect(seriesOf(await metrics(), JOB, INSTANCE).get(held)).toBe(String(SLOTS));
    }, WAIT_MS);
    const asks = Array.from({ length: HERD }, async () => {
      const response = await fetch(`${headgate.url}/sdk/flags`, { headers: { authorization: SDK_KEY } });
      await response.arrayBuffer();
      return response.status;
    });
    expect(new Set(await Promise.all(asks))).toEqual(new Set([503]));
    const after = await metrics();

    const reasons = ['full', 'timeout', 'early'];
    const refused = reasons.map((reason) => valueIn(after, `headgate_admission_refused_total{reason="${reason}"}`));
    expect(refused.reduce((sum, count) => sum + count, 0)).toBe(HERD);

    const alert = {
      exp_labels: { severity: 'warning', job: JOB, instance: INSTANCE },
      exp_annotations: {
        summary: `Headgate ${INSTANCE} refuses ${percent(HERD / (HERD + SLOTS))} of those who need a full copy`,
        runbook: 'docs/operating/runbook.md#headgaterefusing',
      },
    };
    const others = ['HeadgateNoData', 'HeadgateCutting', 'HeadgateMemoryNearLimit', 'HeadgateRefusingMost'];
    const verdict = promtoolOn(
      {
        rule_files: [RULES],
        evaluation_interval: '30s',
        tests: [
          {
            interval: '1m',
            input_series: inputOf(before, after),
            alert_rule_test: [
              { eval_time: BEFORE_AT, alertname: 'HeadgateRefusing', exp_alerts: [] },
              { eval_time: AFTER_AT, alertname: 'HeadgateRefusing', exp_alerts: [alert] },
              ...others.map((alertname) => ({ eval_time: AFTER_AT, alertname, exp_alerts: [] })),
            ],
          },
        ],
      },
      'test',
      'rules',
    );
    expect(verdict).toMatchObject({ ok: true });
  });
});
