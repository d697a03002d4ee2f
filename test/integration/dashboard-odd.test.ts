import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Bucket } from '../../dashboard/src/contract.ts';
import { type Browser, browserAvailable, openBrowser } from '../support/dashboard-browser.mjs';
import { untilInPage } from '../support/dashboard-reading.ts';
import { emptyBucket, QUIET, timelineOf } from '../support/dashboard-state.ts';
import { DashboardVisit } from '../support/dashboard-visit.ts';

/* The page in a browser that is not as it usually is, with proxies between, and when nobody looks or somebody uses keys. */

const TEST_MS_MAX = 60_000;
const DENIED_STORAGE = `for (const name of ['localStorage', 'sessionStorage'])
  Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError'); } });`;

describe.runIf(browserAvailable())('the page in odd places', { timeout: TEST_MS_MAX }, () => {
  let browser: Browser;
  let visit: DashboardVisit;

  beforeAll(async () => {
    browser = await openBrowser();
  }, TEST_MS_MAX);
  afterAll(() => browser.close());
  beforeEach(async () => {
    visit = await DashboardVisit.begin(browser);
  });
  afterEach(() => visit.end());

  // Fails when fetch is left to say what it thinks of such a header: the page then takes it for a lost connection, for good.
  it('takes a token that no header can hold for a wrong one', async () => {
    visit.server.token = 'right';
    await visit.open();
    await visit.page.locator('#token').fill('“right”');
    await visit.page.locator('#token').press('Enter');
    await untilInPage(
      visit.page,
      "document.querySelector('#token-why').textContent.startsWith('That is not the token')",
    );
    await visit.page.reload();
    await visit.page.locator('#token').fill('right');
    await visit.page.locator('#token').press('Enter');
    await visit.isLive();
    expect(visit.server.asked.map(({ authorization }) => authorization)).toEqual([undefined, 'Bearer right']);
  });

  // Fails when storage is used without a guard: then the page stays at "Connecting".
  it('works in a browser that keeps nothing', async () => {
    visit.server.token = 'right';
    await visit.open({}, DENIED_STORAGE);
    await visit.page.locator('#token').fill('right');
    await visit.page.locator('#token').press('Enter');
    await visit.isLive();
    await visit.page.locator('#theme').click();
    expect(await visit.text('#theme')).toBe('Light');
    expect(visit.complaints.filter((line) => !line.includes('401'))).toEqual([]);
  });

  // Fails when the title waits for somebody to look: of a tab in the background nothing else is seen.
  it('says in its title that all is not well, also while nobody looks', async () => {
    await visit.open();
    await visit.isLive();
    await visit.page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })");
    visit.server.tell({ ...QUIET, atMs: QUIET.atMs + 1000, ready: false });
    await untilInPage(visit.page, "document.title === 'Not ready – Headgate'");
    expect(await visit.page.locator('#main').getAttribute('data-at')).toBe(String(QUIET.atMs));
  });

  // Fails when the cursor is kept as a place: the plots move on below it.
  it('stays at the moment that was chosen with keys, until it is over', async () => {
    const held = (at: number): Bucket => ({ ...emptyBucket(QUIET.atMs + at * 2000), held: at });
    visit.server.timeline = timelineOf(Array.from({ length: 450 }, (_, at) => held(at)));
    await visit.open();
    await visit.isLive();
    await visit.page.locator('#charts').press('Home');
    for (let presses = 0; presses < 3; presses++) await visit.page.locator('#charts').press('ArrowRight');
    expect(await visit.text('[data-line="held"]')).toBe('3');
    const chosen = await visit.text('#moment');
    for (const [at, expected] of [
      [451, '3'],
      [452, '3'],
      [455, '455'],
    ] as const) {
      for (let next = at - 1; next <= at; next++) visit.server.close(held(next));
      await visit.tell({ ...QUIET, atMs: QUIET.atMs + at * 2000 });
      expect(await visit.text('[data-line="held"]')).toBe(expected);
      expect(await visit.text('#moment')).toBe(expected === '3' ? chosen : 'last 2 s');
    }
  });

  // Fails when a sentence has only the room that it needs while nothing goes on.
  it('does not move its numbers on a phone when a herd comes', async () => {
    await visit.open({ viewport: { width: 360, height: 740 }, isMobile: true });
    await visit.isLive();
    const place = (): Promise<string> =>
      visit.page.evaluate(
        "JSON.stringify(['#figures', '#charts'].map((id) => document.querySelector(id).getBoundingClientRect().top))",
      );
    await visit.tell({ ...QUIET, atMs: QUIET.atMs + 1000 });
    const quiet = await place();
    const { budget } = QUIET;
    await visit.tell({
      ...QUIET,
      atMs: QUIET.atMs + 2000,
      budget: { ...budget, held: 32, waiting: 4000, longestWaitMs: 9900, refused: { ...budget.refused, full: 12_345 } },
      deliveries: { ...QUIET.deliveries, active: 1234 },
    });
    expect(await visit.text('#summary')).toMatch(/^A herd is here/);
    expect(await place()).toBe(quiet);
  });

  it('has a unit at each axis', async () => {
    await visit.open();
    await visit.isLive();
    expect(
      await visit.page.evaluate<string[]>(
        "[...document.querySelectorAll('.chart')].map((each) => [...each.querySelectorAll('.unit')].map((unit) => unit.textContent).join())",
      ),
    ).toEqual(['requests,', 'per second,', 'streams,bytes per second', 'ms,bytes']);
  });

  // Fails when whatever answers 200 is taken for the stream: the cause would then be "the server ended the stream".
  it('says that something else answers, and shows no markup of it', async () => {
    visit.server.instead = { status: 200, type: 'text/html', body: '<html>Sign in' };
    await visit.open();
    await untilInPage(
      visit.page,
      "document.querySelector('#lost-why').textContent.includes('expected text/event-stream, got text/html')",
    );
    visit.server.instead = { status: 502, type: 'text/html', body: '<html>Bad gateway' };
    await visit.page.locator('#retry').click();
    await untilInPage(
      visit.page,
      "document.querySelector('#lost-why').textContent.includes('the server answered 502.')",
    );
    expect(await visit.text('#lost-why')).not.toContain('html');
    visit.server.instead = undefined;
    await visit.page.locator('#retry').click();
    await visit.isLive();
  });
});
