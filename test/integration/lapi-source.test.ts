import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Ledger } from '../../src/dataset/decisions/index.ts';
import { systemClock } from '../../src/kernel/index.ts';
import { type LapiReport, type LapiSource, openLapi } from '../../src/sources/index.ts';
import { until } from '../support/conditions.ts';
import { type ImportedDecision, Lapi, lapiAvailable } from '../support/lapi.ts';

const TEST_MS_MAX = 120_000;
const KEY = 'key-of-the-source';

/** One ban for each address from `network`.0.0.0 on. */
function bans(count: number, network: number): ImportedDecision[] {
  return Array.from({ length: count }, (_, index) => ({
    duration: '4h',
    scope: 'ip',
    type: 'ban',
    value: `${network}.${index >> 16}.${(index >> 8) & 255}.${index & 255}`,
  }));
}

describe.runIf(lapiAvailable())('a source in front of a real local API', () => {
  let lapi: Lapi;
  let source: LapiSource;
  const ledger = new Ledger();
  const told: string[] = [];
  const reports: LapiReport[] = [];

  beforeAll(async () => {
    lapi = await Lapi.start();
    await lapi.addBouncer('source', KEY);
    const note = (report: LapiReport): void => {
      reports.push(report);
      told.push(report.why);
    };
    source = openLapi({
      name: 'real',
      source: 0,
      url: lapi.url,
      key: KEY,
      intervalMs: 1000,
      resyncMs: 3_600_000,
      scopes: [],
      ledger,
      clock: systemClock,
      wallNow: Date.now,
      userAgent: 'headgate/0.0.0',
      listener: {
        loaded: note,
        resynced: note,
        failed: (error) => told.push(error.message),
        recovered: () => told.push('recovered'),
        doubtful: ({ held, got }) => told.push(`doubtful, ${got} of ${held}`),
      },
    });
  }, TEST_MS_MAX);

  afterAll(async () => {
    await source.stop();
    await lapi.stop();
  });

  const holds = (count: number): Promise<void> =>
    until(`${count} decisions`, () => source.status().decisions === count);
  const resync = async (): Promise<LapiReport> => {
    const before = reports.length;
    source.resync('a test');
    await until('a resync', () => reports.length > before);
    return reports.at(-1) as LapiReport;
  };

  it(
    'holds what it holds: at first, what is added, what is deleted',
    async () => {
      await lapi.import(bans(200, 10));
      source.start();
      await source.loaded;
      expect(told).toEqual(['start']);
      expect(source.status()).toMatchObject({ state: 'current', decisions: 200 });
      await lapi.add({ duration: '30m', scope: 'range', type: 'captcha', value: '192.0.2.0/24' });
      await holds(201);
      await lapi.delete('--type', 'captcha');
      await holds(200);
    },
    TEST_MS_MAX,
  );

  it(
    'finds nothing changed when everything is asked for again',
    async () => {
      const { offset } = ledger;
      expect(await resync()).toMatchObject({ decisions: 200, added: 0, removed: 0, refreshed: 0, unusable: 0 });
      expect(ledger.offset).toBe(offset);
    },
    TEST_MS_MAX,
  );

  it(
    'pulls a scope that is asked for, and every one',
    async () => {
      await lapi.add({ duration: '1h', scope: 'username', type: 'ban', value: 'bob' });
      await lapi.add({ duration: '1h', scope: 'session', type: 'ban', value: 's-1' });
      expect(await source.hold(['username'])).toBe(true);
      expect(source.status().decisions).toBe(201);
      expect(await source.holdWide()).toBe(true);
      expect(source.status()).toMatchObject({ decisions: 202, lastError: undefined });
      expect(source.status().scopes).toContain('session');
      expect(ledger.rows.simulated.subarray(0, ledger.rows.size)).not.toContain(1);
    },
    TEST_MS_MAX,
  );

  it(
    'holds all of a bulk import',
    async () => {
      const before = told.length;
      await lapi.import(bans(20_000, 11));
      await holds(20_202);
      await until('a resync after it', () => told.length > before);
      expect(told.slice(before)).toEqual(['a bulk import']);
    },
    TEST_MS_MAX,
  );

  it('knows its keys', async () => {
    expect(await source.checkKey(KEY)).toBe('good');
    expect(await source.checkKey('another')).toBe('refused');
  });

  it('passes requests on', async () => {
    const reply = await source.forward({
      method: 'POST',
      target: '/v1/watchers/login',
      headers: { 'content-type': 'application/json', 'user-agent': 'tool/1' },
      body: Buffer.from('{"machine_id":"nobody","password":"none"}'),
    });
    let body = '';
    for await (const piece of reply.body) body += Buffer.from(piece).toString();
    expect(reply.status).toBeGreaterThanOrEqual(401);
    expect(body).toContain('"message"');
  });

  it(
    'keeps what it holds while it is down, and goes on when it is back',
    async () => {
      await lapi.pause();
      await until('a failure', () => source.status().state === 'stale');
      expect(source.status().decisions).toBe(20_202);
      expect(await source.checkKey(KEY)).toBe('unreachable');
      await lapi.resume();
      await until('its return', () => source.status().state === 'current');
      expect(told.slice(-3, -1)).toEqual([expect.stringContaining('Cannot ask the local API real'), 'recovered']);
      expect(source.status().decisions).toBe(20_202);
    },
    TEST_MS_MAX,
  );

  it(
    'believes that all is deleted',
    async () => {
      await lapi.delete('--all');
      await holds(0);
      expect(told.filter((line) => line.startsWith('doubtful'))).toEqual([]);
    },
    TEST_MS_MAX,
  );
});
