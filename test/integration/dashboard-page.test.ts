import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { State } from '../../dashboard/src/contract.ts';
import { type Browser, browserAvailable, openBrowser, type Page } from '../support/dashboard-browser.mjs';
import { readPage, untilInPage } from '../support/dashboard-reading.ts';
import { type DashboardStandIn, PAGE } from '../support/dashboard-stand-in.ts';
import { delivery, emptyBucket, environment, QUIET, source, timelineOf } from '../support/dashboard-state.ts';
import { DashboardVisit } from '../support/dashboard-visit.ts';

/* The page in a browser, told by a stand-in what no relay would tell on demand. */

const PAGE_BYTES_MAX = 150_000;
const TEST_MS_MAX = 60_000;
const PHONE = { width: 360, height: 740 };
const HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
/** Turns the writing direction of all that follows. */
const TURN = '\u202e';

/** A herd, with everything that the page can show. */
const HERD: State = {
  ...QUIET,
  budget: {
    ...QUIET.budget,
    held: 32,
    parked: 241,
    waiting: 3900,
    waitingOpen: 12,
    pinnedBytes: 60_000_000,
    longestWaitMs: 4200,
  },
  deliveries: {
    ...QUIET.deliveries,
    active: 273,
    parked: 241,
    kernelHeldBytes: 62_000_000,
    slowest: Array.from({ length: 20 }, (_, at) =>
      delivery({ address: `2001:db8:ffff:ffff:ffff:ffff:ffff:${at}`, parked: at < 9 }),
    ),
  },
  environments: [
    environment('Shop production', { streams: 731, behind: { current: 700, few: 28, many: 3 } }),
    environment('A project with a long name that goes on and on', { connection: 'INTERRUPTED' }),
    environment('Empty', { ready: false, connection: 'INITIALIZING', position: null, bytes: null, ageMs: null }),
  ],
  environmentsTotal: 3,
  decisions: {
    held: 48_213,
    tombstones: 120,
    bytes: 23_000_000,
    offset: 91_823,
    bouncers: 14,
    behind: { current: 13, few: 1, many: 0 },
    sources: [source('lapi', true), source('drop-list', false)],
  },
  trouble: [
    { atMs: QUIET.atMs, level: 'error', text: `upstream: ${'x'.repeat(300)}`, count: 3 },
    { atMs: QUIET.atMs - 90_000_000, level: 'warn', text: 'deliveries cut', count: 1 },
  ],
};

if (!existsSync(`${PAGE}/index.html`)) throw new Error(`Cannot test the page: run npm run build first, got no ${PAGE}`);

describe('the page as it is built', () => {
  const files = readdirSync(PAGE, { recursive: true, encoding: 'utf8' }).filter((name) =>
    statSync(`${PAGE}/${name}`).isFile(),
  );

  it('is small', () => {
    const sizes = files.map((name) => statSync(`${PAGE}/${name}`).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(PAGE_BYTES_MAX);
    expect(files.length).toBeGreaterThanOrEqual(3);
  });

  it('has nothing inline, and hashed names with relative paths', () => {
    const html = readFileSync(`${PAGE}/index.html`, 'utf8');
    expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
    const linked = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)]
      .map((match) => match[1] ?? '')
      .filter((url) => !url.startsWith('data:'));
    expect(linked.length).toBeGreaterThanOrEqual(2);
    for (const url of linked) expect(url).toMatch(/^\.\/assets\/[\w.]+-[\w-]{8}\.(js|css)$/);
    expect(files.filter((name) => name.endsWith('.map'))).toEqual([]);
  });
});

describe.runIf(browserAvailable())('the page', { timeout: TEST_MS_MAX }, () => {
  let browser: Browser;
  let visit: DashboardVisit;
  let server: DashboardStandIn;
  let page: Page;

  beforeAll(async () => {
    browser = await openBrowser();
  }, TEST_MS_MAX);
  afterAll(() => browser.close());

  beforeEach(async () => {
    visit = await DashboardVisit.begin(browser);
    server = visit.server;
  });
  afterEach(() => visit.end());

  async function open(options: Parameters<Browser['newContext']>[0] = {}): Promise<void> {
    page = await visit.open(options);
  }

  const isLive = (): Promise<void> => visit.isLive();
  const text = (selector: string): Promise<string> => visit.text(selector);
  const tell = (state: State): Promise<void> => visit.tell(state);

  it('asks for a token, says when it is wrong, and keeps it in the tab', async () => {
    server.token = 'right';
    await open();
    await page.locator('#token').fill('wrong');
    await page.locator('#token').press('Enter');
    await untilInPage(page, "document.querySelector('#token-why').textContent.startsWith('That is not the token')");
    await page.locator('#token').press('Escape');
    expect(await page.locator('#token').isVisible()).toBe(true);
    await page.locator('#token').fill('right');
    await page.locator('#token').press('Enter');
    await isLive();
    expect(server.asked.map(({ authorization }) => authorization)).toEqual([undefined, 'Bearer wrong', 'Bearer right']);
    await page.reload();
    await isLive();
    expect(server.asked.at(-1)?.authorization).toBe('Bearer right');
    const kept = await page.evaluate<string>('JSON.stringify([location.href, { ...localStorage }, document.cookie])');
    expect(kept).not.toContain('right');
    expect(visit.complaints.filter((line) => !line.includes('401'))).toEqual([]);
  });

  // Fails when a text of the server is written as markup: then there is an image, and the policy complains of its handler.
  it('writes what the server says as text', async () => {
    server.state = { ...QUIET, version: HOSTILE };
    await open();
    await isLive();
    await tell({
      ...HERD,
      atMs: QUIET.atMs + 1000,
      version: HOSTILE,
      environments: [environment(HOSTILE, { connection: HOSTILE, position: HOSTILE })],
      deliveries: { ...HERD.deliveries, slowest: [delivery({ name: HOSTILE, route: HOSTILE, address: HOSTILE })] },
      trouble: [{ atMs: QUIET.atMs, level: 'error', text: `${TURN}${HOSTILE}`, count: 1 }],
    });
    expect(await page.evaluate<number>("document.querySelectorAll('img, body script').length")).toBe(0);
    // fails when a text of the server may turn what stands after it
    expect(await text('#trouble')).toContain(`\ufffd${HOSTILE}`);
    expect((await readPage(page)).environments[0]?.['Name']).toBe(HOSTILE);
    expect(await page.title()).not.toMatch(/^[12]$/);
    expect(visit.complaints).toEqual([]);
    expect(visit.requested.filter((url) => !url.startsWith(`${server.url}/`) && !url.startsWith('data:'))).toEqual([]);
  });

  // Fails when a bound of src/rows.ts is removed.
  it('stays small, whatever it is told', async () => {
    await open();
    await isLive();
    await tell({
      ...HERD,
      atMs: QUIET.atMs + 1000,
      environments: Array.from({ length: 3000 }, (_, at) => environment(`env-${at}`)),
      environmentsTotal: 3000,
      deliveries: { ...HERD.deliveries, slowest: Array.from({ length: 3000 }, () => delivery()) },
      decisions: { ...HERD.decisions!, sources: Array.from({ length: 3000 }, (_, at) => source(`s-${at}`, true)) },
      trouble: Array.from({ length: 3000 }, () => ({ atMs: 0, level: 'warn' as const, text: 'again', count: 1 })),
    });
    expect(await page.evaluate<number>("document.querySelectorAll('*').length")).toBeLessThan(6000);
    expect(await text('#environments-note')).toBe('200 of 3,000');
    await tell({ ...QUIET, atMs: QUIET.atMs + 2000 });
    expect(await page.evaluate<number>("document.querySelectorAll('*').length")).toBeLessThan(600);
  });

  it('says that the connection is lost, and comes back by itself', async () => {
    server.timeline = timelineOf([emptyBucket(QUIET.atMs - 2000), { ...emptyBucket(QUIET.atMs), held: 7 }]);
    await open();
    await isLive();
    expect(await text('[data-line="held"]')).toBe('7');
    await server.stop();
    await page.locator('#lost').waitFor({ state: 'visible' });
    expect(await text('#state-word')).toBe('Not known');
    await untilInPage(page, "document.querySelector('#lost-why').textContent.includes('cannot be reached')");
    server.timeline = timelineOf([{ ...emptyBucket(QUIET.atMs + 4000), held: 9 }]);
    await server.start();
    await page.locator('#lost').waitFor({ state: 'hidden' });
    expect(await text('#announce')).toBe('The connection to Headgate is back.');
    await untilInPage(page, "document.querySelector('#state-word').textContent === 'Ready and healthy'");
    expect(await text('[data-line="held"]')).toBe('9');
    expect(await page.title()).toBe('Headgate');
  });

  // Fails when nobody watches for silence: a connection may die without a word.
  it('takes silence for a lost connection', async () => {
    await open();
    await isLive();
    await untilInPage(page, "document.querySelector('#lost-why').textContent.includes('nothing came for 6 s')");
    expect(await text('#lost-what')).toMatch(/^The connection is lost. What is shown is [67] s old.$/);
  });

  it('says why it is refused', async () => {
    server.isFull = true;
    await open();
    await untilInPage(
      page,
      "document.querySelector('#lost-why').textContent.includes('the server answered 503: 16 watch already')",
    );
    expect(await text('#lost-what')).toBe('Headgate cannot be asked.');
    server.isFull = false;
    await page.locator('#retry').click();
    await isLive();
  });

  it('is loaded anew, once, when another version answers', async () => {
    await open();
    await isLive();
    const loads = (): number => visit.requested.filter((url) => url === `${server.url}/`).length;
    expect(loads()).toBe(1);
    await tell({ ...QUIET, atMs: QUIET.atMs + 1000, version: '0.2.0' });
    await untilInPage(page, "document.querySelector('#version').textContent === 'Version 0.2.0'");
    await isLive();
    expect(loads()).toBe(2);
  });

  it('draws new buckets as they come', async () => {
    await open();
    await isLive();
    expect(await text('#moment')).toBe('no numbers yet');
    server.close({ ...emptyBucket(QUIET.atMs + 2000), waiting: 1234, refused: 6 });
    await tell({ ...QUIET, atMs: QUIET.atMs + 2000 });
    expect([await text('[data-line="waiting"]'), await text('[data-line="refused"]'), await text('#moment')]).toEqual([
      '1,234',
      '3.0',
      'last 2 s',
    ]);
    expect((await readPage(page)).figures['refused-minute']?.[0]).toBe('6');
  });

  it('tells changes of the state aloud, and no numbers', async () => {
    await open();
    await isLive();
    await tell({ ...QUIET, atMs: QUIET.atMs + 1000 });
    expect(await text('#announce')).toBe('Ready and healthy');
    await page.evaluate(`(() => {
      window.changes = 0;
      new MutationObserver(() => window.changes++).observe(document.querySelector('#announce'), { childList: true, characterData: true, subtree: true });
    })()`);
    await tell({ ...QUIET, atMs: QUIET.atMs + 2000, budget: { ...QUIET.budget, held: 3, waiting: 8 } });
    expect(await page.evaluate<number>('window.changes')).toBe(0);
    await tell({ ...QUIET, atMs: QUIET.atMs + 3000, stopping: true, ready: false });
    expect(await text('#announce')).toBe('Stopping; nobody new is admitted');
    expect(
      await page.evaluate<string>("[...document.querySelectorAll('[aria-live]')].map(({ id }) => id).join()"),
    ).toBe('announce');
  });

  // Fails when deliveries have no room of a fixed height.
  it('does not move what stands below while deliveries come and go', async () => {
    server.state = { ...QUIET, environments: [environment('Shop')], environmentsTotal: 1 };
    await open();
    await isLive();
    const place = (): Promise<string> =>
      page.evaluate(
        "JSON.stringify(['#charts', '#causes', '#environments'].map((id) => document.querySelector(id).getBoundingClientRect().top))",
      );
    await tell({ ...server.state, atMs: QUIET.atMs + 1000 });
    const quiet = await place();
    await tell({ ...server.state, atMs: QUIET.atMs + 2000, budget: HERD.budget, deliveries: HERD.deliveries });
    expect(await place()).toBe(quiet);
  });

  it.each(['light', 'dark'] as const)('is as the system is: %s, with enough contrast', async (colorScheme) => {
    server.state = HERD;
    await open({ colorScheme });
    await isLive();
    await tell({ ...HERD, atMs: HERD.atMs + 1000 });
    expect(await page.evaluate<string>('getComputedStyle(document.documentElement).colorScheme')).toBe(colorScheme);
    expect(await page.evaluate<string[]>(LOW_CONTRAST)).toEqual([]);
  });

  it('keeps the colours that were chosen', async () => {
    await open({ colorScheme: 'light' });
    await isLive();
    const scheme = (): Promise<string> => page.evaluate('getComputedStyle(document.documentElement).colorScheme');
    await page.locator('#theme').click();
    await page.locator('#theme').click();
    expect([await text('#theme'), await scheme()]).toEqual(['Dark', 'dark']);
    await page.reload();
    await isLive();
    expect([await text('#theme'), await scheme()]).toEqual(['Dark', 'dark']);
    await page.locator('#theme').click();
    expect([await text('#theme'), await scheme()]).toEqual(['Auto', 'light']);
  });

  it('fits on a phone', async () => {
    server.state = HERD;
    await open({ viewport: PHONE, isMobile: true, hasTouch: true });
    await isLive();
    await tell({ ...HERD, atMs: HERD.atMs + 1000 });
    expect(await page.evaluate<number[]>('[document.documentElement.scrollWidth, innerWidth]')).toEqual([360, 360]);
    const outside = await page.evaluate<string[]>(`[...document.querySelectorAll('main *')]
      .filter((each) => each.getBoundingClientRect().right > 361 && each.closest('.u-wrap') === null)
      .map((each) => each.className || each.id)`);
    expect(outside).toEqual([]);
  });

  it('can be used with keys and read aloud', async () => {
    server.state = HERD;
    await open({ reducedMotion: 'reduce' });
    await isLive();
    const count = (selector: string): Promise<number> => page.locator(selector).count();
    expect(await Promise.all(['h1', 'main', 'body > header', 'body > footer', 'html[lang]'].map(count))).toEqual([
      1, 1, 1, 1, 1,
    ]);
    const unnamed = await page.evaluate<
      string[]
    >(`[...document.querySelectorAll('section, [role=region], [role=meter], [role=slider], table, button, input, dialog')]
      .filter((each) => each.checkVisibility() && !each.textContent.trim() && !each.hasAttribute('aria-label') && !each.hasAttribute('aria-labelledby') && !each.labels?.length)
      .map((each) => each.outerHTML.slice(0, 80))`);
    expect(unnamed).toEqual([]);
    const stops: string[] = [];
    for (let presses = 0; presses < 8; presses++) {
      await page.keyboard.press('Tab');
      stops.push(
        await page.evaluate<string>(`(() => {
          const { id, className, dataset } = document.activeElement;
          const outline = getComputedStyle(document.activeElement).outlineStyle;
          return [id || className || dataset.minutes, outline === 'none' ? 'unseen' : 'seen'].join(' ');
        })()`),
      );
    }
    expect(stops.slice(0, 7)).toEqual(
      ['skip', 'theme', '5', '15', '60', 'charts', 'deliveries-scroll'].map((stop) => `${stop} seen`),
    );
    expect(await page.evaluate<string>("getComputedStyle(document.querySelector('.bar')).transitionDuration")).toBe(
      '0s',
    );
  });

  it('shows a position in full when it is asked to', async () => {
    server.state = { ...QUIET, environments: [environment('Shop')], environmentsTotal: 1 };
    await open();
    await isLive();
    const position = page.locator('.position');
    expect([await position.innerText(), await position.getAttribute('title')]).toEqual([
      'k3Jx9f2mQpL0…',
      'k3Jx9f2mQpL0aZ.17231.server',
    ]);
    await position.focus();
    await position.press('Enter');
    expect([await position.innerText(), await position.getAttribute('aria-expanded')]).toEqual([
      'k3Jx9f2mQpL0aZ.17231.server',
      'true',
    ]);
  });
});

/** Texts with less contrast than WCAG 2.2 asks for (1.4.3, level AA), as the page is drawn. */
const LOW_CONTRAST = `(() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = channels(colour).map((each) => each / 255).map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const opaque = (colour) => (channels(colour)[3] ?? 1) > 0;
  const behind = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (opaque(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
    const style = getComputedStyle(element);
    if (!hasText || !element.checkVisibility() || !opaque(style.color)) continue;
    const [a, b] = [luminance(style.color), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) low.push([element.className || element.id || element.tagName, element.textContent, ratio.toFixed(2)].join(' '));
  }
  return low;
})()`;
