import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Browser, browserAvailable, type Context, openBrowser, type Page } from '../support/dashboard-browser.mjs';
import {
  bytesIn,
  MetricsReading,
  numberIn,
  type Reading,
  readPage,
  readPageSince,
  untilInPage,
} from '../support/dashboard-reading.ts';
import { ROOT } from '../support/files.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { LineProcess } from '../support/line-process.ts';

/*
 * The page in a browser, during a herd: what stands on it is what /metrics says.
 *
 * DASHBOARD_IMAGES=docs/images writes the pictures of the docs there.
 */

const SDK_KEY = 'sdk-00000000-1111-2222-3333-444444444444';
const TOKEN = 'token-of-the-admin-listener';
const CLIENTS = 1000;
const STALLED = 300;
const WHOLE = CLIENTS - STALLED;
const SLOTS = 32;
const QUEUE = 500;
const FLAGS = 4000;
/** More than the kernels on both sides take for a reader that does not read. */
const FLAG_BYTES = 1500;
const FLAGS_PER_CHANGED = 40;
const TEST_MS_MAX = 180_000;
const DECISIONS = 5000;
const WAIT_MS = 60_000;
const IMAGE_BYTES_MAX = 350_000;
const PHONE = { width: 360, height: 740 };
const DESKTOP = { width: 1280, height: 1900 };
const images = process.env['DASHBOARD_IMAGES'];

const folder = mkdtempSync(join(tmpdir(), 'headgate-dashboard-'));
const flagsPath = join(folder, 'flags.json');
const stagingPath = join(folder, 'staging.json');
const listPath = join(folder, 'drop-list.txt');

/** Flags with much text. A later version differs in a flag of every page, and is a small change all the same. */
function writeFlags(later: number): void {
  const flags = Array.from({ length: FLAGS }, (_, at) => {
    const version = at % FLAGS_PER_CHANGED === 0 ? later : 1;
    const salt = Array.from({ length: FLAG_BYTES / 8 }, (__, part) =>
      ((at * 7919 + part * 104_729 + version) % 0xffff_ffff).toString(16).padStart(8, '0'),
    ).join('');
    return [`flag-${at}`, { key: `flag-${at}`, version, on: true, salt }];
  });
  writeFileSync(flagsPath, JSON.stringify({ flags: Object.fromEntries(flags), segments: {} }));
}

const CONFIG = {
  server: { drainDelay: 0, grace: '1s' },
  admin: { token: TOKEN },
  limits: { mode: 'auto', slots: SLOTS, queue: QUEUE, parked: 280, slack: '6s', wait: { stream: '60s' } },
  flags: {
    sources: [
      { type: 'file', name: 'Shop production', paths: [flagsPath], sdkKey: SDK_KEY, envId: '507f1f77bcf86cd799439011' },
      {
        type: 'file',
        name: 'Shop staging',
        paths: [stagingPath],
        sdkKey: `${SDK_KEY}5`,
        envId: '507f1f77bcf86cd799439012',
      },
    ],
  },
  decisions: {
    sources: [{ type: 'file', name: 'drop-list', paths: [listPath] }],
    keys: [{ name: 'edge', key: 'key-of-the-edge' }],
  },
  store: 'none',
};

describe.runIf(browserAvailable())('the page during a herd', { timeout: TEST_MS_MAX }, () => {
  let browser: Browser;
  let headgate: Headgate;
  let adminUrl = '';
  let page: Page;
  let context: Context;
  let readers: LineProcess | undefined;
  /** Where requests of the page went, and what its console said. */
  const requested: string[] = [];
  const complaints: string[] = [];

  beforeAll(async () => {
    writeFlags(1);
    writeFileSync(stagingPath, JSON.stringify({ flags: { one: { key: 'one', version: 1, on: true } }, segments: {} }));
    writeFileSync(listPath, Array.from({ length: DECISIONS }, (_, at) => `198.18.${at >> 8}.${at & 255}\n`).join(''));
    browser = await openBrowser();
    headgate = await startHeadgate({ config: CONFIG });
    const { port } = await headgate.waitForLog('admin listening');
    adminUrl = `http://127.0.0.1:${String(port)}`;
    await headgate.waitForLog('environment loaded');
    await headgate.waitForLog('decisions loaded');
  }, TEST_MS_MAX);

  afterAll(async () => {
    await readers?.stop('stdin');
    await browser.close();
    await headgate.stop();
    rmSync(folder, { recursive: true });
  }, TEST_MS_MAX);

  afterEach(async () => {
    await context.close();
  });

  async function open(options: Parameters<Browser['newContext']>[0] = {}): Promise<Page> {
    requested.length = 0;
    complaints.length = 0;
    context = await browser.newContext({ viewport: DESKTOP, ...options });
    page = await context.newPage();
    page.on('request', (request) => requested.push(request.url()));
    page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(adminUrl);
    await page.locator('#token').fill(TOKEN);
    await page.locator('#token').press('Enter');
    await untilInPage(page, "document.querySelector('#link').textContent === 'live'");
    return page;
  }

  async function metrics(): Promise<MetricsReading> {
    const response = await fetch(`${adminUrl}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
    expect(response.status).toBe(200);
    return new MetricsReading(await response.text());
  }

  async function picture(name: string, path: string): Promise<void> {
    mkdirSync(path, { recursive: true });
    const file = join(path, `dashboard-${name}.png`);
    await page.screenshot({ path: file });
    expect(statSync(file).size).toBeLessThan(IMAGE_BYTES_MAX);
  }

  it('shows a relay that has nothing to do', async () => {
    const pull = await fetch(`${headgate.url}/v1/decisions/stream?startup=true`, {
      headers: { 'x-api-key': 'key-of-the-edge' },
    });
    expect([pull.status, (await pull.text()).length > DECISIONS]).toEqual([200, true]);
    await open();
    const reading = await readPageSince(page, Date.now());
    expect(reading.word).toBe('Ready and healthy');
    expect(reading.figures['held']).toEqual(['0', `of ${SLOTS}`]);
    expect(reading.figures['waiting']).toEqual(['0', `of ${QUEUE}`]);
    expect(reading.environments).toMatchObject([
      { Name: 'Shop production', State: 'ready', Items: '4,000', Streams: '0', Behind: 'no clients' },
      { Name: 'Shop staging', State: 'ready', Items: '1', Streams: '0', Behind: 'no clients' },
    ]);
    expect(reading.sources).toMatchObject([{ Source: 'drop-list', State: 'works', Decisions: '5,000' }]);
    expect(reading.figures['decisions-bouncers']).toEqual(['1', 'all current']);
    expect(await page.locator('#deliveries-empty').isVisible()).toBe(true);
    expect(await page.locator('#trouble-empty').isVisible()).toBe(true);
  });

  it('says the same as the metrics, while a thousand clients come and 300 of them do not read', async () => {
    await open();
    const args = [headgate.port, '/all', SDK_KEY, CLIENTS, STALLED].map(String);
    readers = new LineProcess({
      command: process.execPath,
      args: [`${ROOT}test/support/dashboard-readers.mjs`, ...args],
    });
    await untilInPage(page, "document.querySelectorAll('#deliveries > tr').length >= 5");

    const seen = { waiting: 0, parked: 0, progress: false, pinned: 0 };
    let isChanged = false;
    for (;;) {
      const before = await metrics();
      const reading = await readPageSince(page, Date.now());
      const after = await metrics();
      comparedInMotion(reading, before, after);
      seen.waiting = Math.max(seen.waiting, numberIn(reading.figures['waiting']?.[0]));
      seen.parked = Math.max(seen.parked, numberIn(reading.figures['parked']?.[0]));
      seen.pinned = Math.max(seen.pinned, bytesIn(reading.figures['pinned']?.[0])[0]);
      seen.progress ||= reading.deliveries.some(({ Progress: text }) => / of /.test(text ?? ''));
      // new data, while others are still being sent the old: only deliveries keep its pages from now on
      if (!isChanged && seen.parked > 50) {
        isChanged = true;
        writeFlags(2);
      }
      const isMiddle = seen.pinned > 0 && seen.parked > 150 && numberIn(reading.figures['waiting']?.[0]) < QUEUE - 100;
      if (isMiddle && images !== undefined) await pictures(images);
      const ended = after.sum('headgate_deliveries_total', { front: 'flags' });
      if (ended >= CLIENTS && after.sum('headgate_deliveries_active') === 0) break;
    }
    expect(seen.waiting).toBeGreaterThan(100);
    expect(seen.parked).toBeGreaterThan(100);
    expect(seen.pinned).toBeGreaterThan(100_000);
    expect(seen.progress).toBe(true);
    await comparedAtRest();
    expect(complaints.filter((text) => !text.includes('401'))).toEqual([]);
    expect(requested.filter((url) => !url.startsWith(`${adminUrl}/`))).toEqual([]);
  });

  let arePictured = false;
  async function pictures(path: string): Promise<void> {
    if (arePictured) return;
    arePictured = true;
    await page.evaluate("localStorage.setItem('headgate-colours', 'light')");

    await picture('light', path);
    await page.locator('#theme').click();
    await page.locator('#theme').click();
    await picture('dark', path);
    await page.setViewportSize(PHONE);
    await picture('phone', path);
    await page.setViewportSize(DESKTOP);
  }

  /** What only rises is on the page what it was between the two times that the metrics were asked. */
  function comparedInMotion(reading: Reading, before: MetricsReading, after: MetricsReading): void {
    const compare = (shown: number, name: string, labels?: Record<string, string>): void => {
      expect(shown, `${name} ${JSON.stringify(labels)}`).toBeGreaterThanOrEqual(before.sum(name, labels));
      expect(shown, `${name} ${JSON.stringify(labels)}`).toBeLessThanOrEqual(after.sum(name, labels));
    };
    compare(numberIn(reading.figures['admitted-rate']?.[1]), 'headgate_admission_admitted_total');
    const parks = reading.figures['parked']?.[1]?.replace(/^of [\d,]+, /, '');
    compare(numberIn(parks), 'headgate_deliveries_parks_total');
    for (const reason of ['full', 'timeout', 'early', 'aborted', 'closed'])
      compare(numberIn(reading.causes[reason]?.[1]), 'headgate_admission_refused_total', { reason });
    for (const outcome of ['completed', 'client_gone', 'stalled', 'capped', 'error', 'shutdown'])
      compare(numberIn(reading.causes[outcome]?.[1]), 'headgate_deliveries_total', { outcome });
    expect(numberIn(reading.figures['held']?.[0])).toBeLessThanOrEqual(SLOTS);
    expect(numberIn(reading.figures['waiting']?.[0])).toBeLessThanOrEqual(QUEUE);
    const rates = reading.deliveries.map(({ Rate: text }) => bytesIn(text)[1]);
    expect(rates).toEqual(rates.toSorted((a, b) => a - b));
  }

  /** Nothing moves any more: everything is the same. */
  async function comparedAtRest(): Promise<void> {
    const at = await vi.waitFor(async () => {
      const now = await metrics();
      expect(now.sum('headgate_admission_held') + now.sum('headgate_admission_waiting')).toBe(0);
      return now;
    }, WAIT_MS);
    const { figures, causes, environments, sources } = await readPageSince(page, Date.now());
    const sum = (name: string, labels?: Record<string, string>): number => at.sum(name, labels);
    expect(numberIn(figures['held']?.[0])).toBe(0);
    expect(numberIn(figures['held']?.[1])).toBe(sum('headgate_admission_slots_max'));
    expect(numberIn(figures['parked']?.[0])).toBe(sum('headgate_admission_parked'));
    expect(numberIn(figures['admitted-rate']?.[1])).toBe(sum('headgate_admission_admitted_total'));
    expect(numberIn(causes['completed']?.[1])).toBe(sum('headgate_deliveries_total', { outcome: 'completed' }));
    expect(numberIn(causes['stalled']?.[1])).toBe(sum('headgate_deliveries_total', { outcome: 'stalled' }));
    expect(sum('headgate_deliveries_total', { front: 'flags', outcome: 'completed' })).toBe(WHOLE);
    expect(sum('headgate_deliveries_total', { outcome: 'stalled' })).toBe(STALLED);
    const refused = ['full', 'timeout', 'early', 'closed'].map((reason) => numberIn(causes[reason]?.[1]));
    expect(refused.reduce((all, one) => all + one)).toBe(numberIn(figures['refused-minute']?.[1]));
    expect(refused[0]).toBe(sum('headgate_admission_refused_total', { reason: 'full' }));
    expect(refused[0]).toBeGreaterThan(0);
    expect(numberIn(environments[0]?.['Streams'])).toBe(sum('headgate_streams', { tenant: 'Shop production' }));
    expect(numberIn(environments[0]?.['Items'])).toBe(sum('headgate_environment_items', { tenant: 'Shop production' }));
    expect(environments[0]?.['Behind']).toBe('all current');
    expect(numberIn(figures['decisions-held']?.[0])).toBe(sum('headgate_decisions'));
    expect(numberIn(figures['decisions-offset']?.[0])).toBe(sum('headgate_decisions_offset'));
    expect(numberIn(sources[0]?.['Decisions'])).toBe(sum('headgate_source_decisions'));
    const within = (text: string | undefined, value: number): void => {
      const [least, most] = bytesIn(text);
      expect(value).toBeGreaterThanOrEqual(least);
      expect(value).toBeLessThanOrEqual(most);
    };
    within(figures['pinned']?.[0], sum('headgate_admission_pinned_bytes'));
    within(figures['sent']?.[0], sum('headgate_sent_bytes_total'));
    within(figures['saved-catch-up']?.[0], sum('headgate_saved_bytes_total'));
    within(figures['saved-compression']?.[0], sum('headgate_compression_saved_bytes_total'));
    const [least, most] = bytesIn(figures['rss']?.[0]);
    expect(sum('process_resident_memory_bytes')).toBeGreaterThan(least * 0.8);
    expect(sum('process_resident_memory_bytes')).toBeLessThan(most * 1.2);
  }

  it('shows the herd in its timeline afterwards, where the cursor stands', async () => {
    await open();
    await page.locator('#charts').focus();
    await page.locator('#charts').press('Home');
    await untilInPage(page, "document.querySelector('#moment').textContent.startsWith('at ')");
    const most = await page.evaluate<number>(`(() => {
      const charts = document.querySelector('#charts');
      const value = () => Number(charts.querySelector('[data-line="waiting"]').textContent.replaceAll(',', ''));
      let most = 0;
      for (let steps = Number(charts.getAttribute('aria-valuemax')); steps > 0; steps--) {
        charts.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
        most = Math.max(most, value());
      }
      return most;
    })()`);
    expect(most).toBeGreaterThan(100);
    expect(await page.locator('#charts').getAttribute('aria-valuetext')).toMatch(
      /^at \d\d:\d\d:\d\d: held \d+, waiting \d+, parked \d+/,
    );
    await page.locator('#charts').press('Escape');
    await untilInPage(page, "document.querySelector('#moment').textContent === 'last 2 s'");
  });

  it('says aloud that the connection is lost, how old its numbers are, and that a stop is under way before', async () => {
    await open();
    const stopped = headgate.stop();
    await untilInPage(page, "document.querySelector('#lost').hidden === false", WAIT_MS);
    await stopped;
    expect(await page.locator('#lost-what').innerText()).toMatch(
      /^The connection is lost. What is shown is \d+ s old.$/,
    );
    expect((await readPage(page)).word).toBe('Not known');
    expect(await page.title()).toBe('Connection lost – Headgate');
    expect(await page.locator('#announce').innerText()).toBe(
      'The connection to Headgate is lost. What is shown is old.',
    );
  });
});
