import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { HERD_KINDS, type HerdOptions, type HerdReport, herdOptions, runHerd } from '../../src/herd/index.ts';
import { browserAvailable, openBrowser } from '../support/dashboard-browser.mjs';
import { ROOT } from '../support/files.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';

const SDK_KEY = 'sdk-00000000-1111-2222-3333-444444444444';
const BOUNCER_KEY = 'key-of-the-edge';
/** A server and a herd of hundreds, on a machine that may be busy. */
const TEST_MS_MAX = 120_000;
const MAIN = `${process.env['BENCH_DIST'] ?? `${ROOT}dist`}/cli/main.js`;

const folder = mkdtempSync(join(tmpdir(), 'headgate-herd-'));
const flagsPath = join(folder, 'flags.json');
const listPath = join(folder, 'drop.txt');
// more than both kernels hold for a reader that stands still, and no smaller when it is compressed
const flags = Array.from({ length: 500 }, (_, at) => {
  const key = `flag-${at}`;
  return [
    key,
    { key, version: 1, on: true, variations: [randomBytes(1500).toString('base64')], salt: 'payload-transferred' },
  ];
});
writeFileSync(flagsPath, JSON.stringify({ flags: Object.fromEntries(flags), segments: {} }));
writeFileSync(listPath, Array.from({ length: 10_000 }, (_, at) => `11.0.${at >> 8}.${at & 255}\n`).join(''));

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(limits: object = {}): Promise<{ readonly headgate: Headgate; readonly admin: string }> {
  const source = { type: 'file', name: 'production', paths: [flagsPath], sdkKey: SDK_KEY, envId: 'e1' };
  const headgate = await startHeadgate({
    config: {
      server: { drainDelay: 0, grace: '1s' },
      limits,
      store: 'none',
      flags: { sources: [source] },
      decisions: {
        sources: [{ type: 'file', name: 'drop', paths: [listPath] }],
        keys: [{ name: 'edge', key: BOUNCER_KEY }],
      },
    },
  });
  closing.push(() => headgate.stop());
  await headgate.waitForLog('environment loaded');
  await headgate.waitForLog('decisions loaded');
  const { port } = await headgate.waitForLog('admin listening');
  return { headgate, admin: `http://127.0.0.1:${String(port)}` };
}

function optionsOf(url: string, options: Partial<HerdOptions>): HerdOptions {
  return herdOptions(url, { keys: [SDK_KEY], bouncerKeys: [BOUNCER_KEY], ...options });
}

const { shares: NO_SHARES } = herdOptions('');
const ONE_KIND = { parts: [{ kind: 'fdv1', weight: 1 }] } as const;

/** A server that answers everything so. */
async function serve(
  answer: (response: ServerResponse) => void,
): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((_, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

const sum = (counts: Readonly<Record<string, number>> | readonly number[]): number =>
  Object.values(counts).reduce((all, one) => all + one, 0);

describe('a herd at a relay', { timeout: TEST_MS_MAX }, () => {
  it('of 300 with 30 % that stand still is told as the server tells it', async () => {
    const { headgate, admin } = await start({ slots: 30, wait: { stream: '60s', decisions: '60s' }, slack: '2s' });
    const ending = new AbortController();
    const stalled = 90;
    const report = await runHerd(
      optionsOf(headgate.url, {
        parts: (['fdv1', 'fdv2', 'bouncer'] as const).map((kind) => ({ kind, weight: 1 })),
        // these wait as long as it takes: nothing but standing still is cut
        sdks: ['node'],
        clients: 300,
        shares: { ...NO_SHARES, stalled: 0.3 },
        durationMs: 60_000,
        reconnects: false,
        isPlain: true,
        admin,
      }),
      {
        version: '1.0.0',
        signal: ending.signal,
        onProgress: ({ served, steady, failed }) => {
          if (served === steady && failed >= stalled) ending.abort();
        },
      },
    );
    expect(report.ended).toBe('interrupted');
    expect(report.ok).toBe(true);
    expect(report.roles.steady).toEqual({ clients: 210, arrived: 210, whole: 210, inTime: 210, gone: 0 });
    expect(report.roles.stalled).toEqual({ clients: 90, arrived: 90, whole: 0, inTime: 0, gone: 90 });
    // fails when nobody asks whether those that stand still were cut
    expect(report.stalled).toMatchObject({ stood: 90, cut: 90 });
    expect(report.stalled.cutSeconds?.p50).toBeGreaterThan(1);
    const { server } = report;
    expect(server?.deliveries).toEqual({ completed: 210, stalled: 90 });
    expect([report.answers.full, report.endings.cut]).toEqual([210, 90]);
    expect([server?.admitted, report.attempts]).toEqual([300, 300]);
    expect([server?.refused, report.refused]).toEqual([{}, {}]);
    expect(server?.heldMax).toBeLessThanOrEqual(30);
    expect(server?.rssBytesMax).toBeGreaterThan(1e7);
    expect(sum(report.timeline.whole)).toBe(210);
    expect(sum(report.timeline.bytes)).toBe(report.bytes);
  });

  it('that is refused counts what the server counts, and comes back until it is served', async () => {
    const { headgate, admin } = await start({ slots: 1, queue: 2, earlyShed: false });
    const report = await runHerd(
      optionsOf(headgate.url, { ...ONE_KIND, sdks: ['go', 'node'], clients: 40, deadlineMs: 90_000, admin }),
      { version: '1.0.0' },
    );
    expect([report.ok, report.ended, report.roles.steady.whole]).toEqual([true, 'served', 40]);
    expect(report.refused['503']).toBeGreaterThan(0);
    expect(sum(report.server?.refused ?? {})).toBe(sum(report.refused));
    expect(sum(report.retryAfter)).toBe(sum(report.refused));
    expect(report.reconnects).toBe(sum(report.refused));
    expect(report.server?.deliveries).toEqual({ completed: 40 });
  });

  it('of every kind and SDK is served, polls that nothing is new, and comes back with what it holds', async () => {
    const { headgate, admin } = await start();
    const ending = new AbortController();
    const report = await runHerd(
      optionsOf(headgate.url, {
        parts: HERD_KINDS.map((kind) => ({ kind, weight: 1 })),
        clients: 54,
        everyMs: 1000,
        dropAtMs: 6000,
        durationMs: 60_000,
        admin,
      }),
      {
        version: '1.0.0',
        signal: ending.signal,
        // all streams are open again, 2 to 3 s after they were lost
        onProgress: ({ seconds, connected }) => {
          if (seconds > 10 && connected >= 18) ending.abort();
        },
      },
    );
    expect(report.roles.steady).toMatchObject({ clients: 54, whole: 54, inTime: 54 });
    expect(report.asked.kinds).toEqual(Object.fromEntries(HERD_KINDS.map((kind) => [kind, 9])));
    const { returns } = report;
    expect([returns.lost, returns.back]).toEqual([18, 18]);
    // of the first protocol Python's SDK needs everything again and Go's may, Node's is told what it holds already
    expect(returns).toMatchObject({ full: 6, changes: 3, current: 9 });
    // polls after the first bring nothing: their tag, their basis or their cursor says what they hold
    expect(report.answers.current).toBeGreaterThan(20);
    // on a busy machine the patience of Go's and PHP's may end, which is three seconds
    const failures = Object.keys(report.failures).filter((cause) => !cause.startsWith('timeout: '));
    expect([report.refused, failures]).toEqual([{}, []]);
    // the wire has heads and the framing of chunks besides the bodies
    const sent = report.server?.sentBytes ?? 0;
    expect(report.bytes).toBeGreaterThan(sent);
    expect(report.bytes).toBeLessThan(sent * 1.02 + report.attempts * 600);
  });
});

describe('a herd at a server that', { timeout: TEST_MS_MAX }, () => {
  const herd = (url: string, options: Partial<HerdOptions> = {}): Promise<HerdReport> =>
    runHerd(optionsOf(url, { ...ONE_KIND, clients: 20, deadlineMs: 1000, ...options }), { version: '1.0.0' });

  it('refuses all ends as not served', async () => {
    const { url } = await serve((response) => response.writeHead(503, { 'retry-after': '3' }).end('{}'));
    const report = await herd(url, { reconnects: false, deadlineMs: 60_000 });
    expect(report).toMatchObject({
      ok: false,
      ended: 'settled',
      attempts: 20,
      reconnects: 0,
      refused: { 503: 20 },
      retryAfter: { 3: 20 },
      roles: { steady: { clients: 20, arrived: 20, whole: 0, inTime: 0, gone: 20 } },
      wholeSeconds: null,
      server: null,
    });
  });

  it('never answers ends at the deadline', async () => {
    const { url } = await serve(() => undefined);
    const report = await herd(url, { arriveMs: 500 });
    expect(report).toMatchObject({ ok: false, ended: 'deadline', attempts: 20, refused: {}, failures: {} });
    expect(report.seconds).toBeGreaterThanOrEqual(1.5);
    expect(report.seconds).toBeLessThan(10);
  });

  it('never ends its answer ends when as much has come as is allowed', async () => {
    const piece = Buffer.alloc(65_536, 'x');
    const { url } = await serve((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const more = (): void => {
        while (!response.destroyed && response.write(piece));
        response.once('drain', more);
      };
      more();
    });
    const report = await herd(url, { bytesMax: 5_000_000, deadlineMs: 60_000 });
    expect([report.ended, report.ok]).toEqual(['bytes', false]);
    expect(report.bytes).toBeGreaterThanOrEqual(5_000_000);
  });

  it('sends it elsewhere is not obeyed', async () => {
    let asked = 0;
    const elsewhere = await serve((response) => {
      asked++;
      response.end('event: put\ndata: {}\n\n');
    });
    const { url } = await serve((response) => response.writeHead(302, { location: `${elsewhere.url}/all` }).end());
    const report = await herd(url);
    expect(report).toMatchObject({ ok: false, ended: 'settled', refused: { 302: 20 }, attempts: 20 });
    expect(asked).toBe(0);
  });

  it('cuts what it sends, or sends what is no answer, is told so', async () => {
    const cutting = await serve((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('event: put\ndata: {"half":', () => response.destroy());
    });
    const cut = await herd(cutting.url, { reconnects: false });
    expect([cut.endings.cut, cut.answers.full, cut.ok]).toEqual([20, 0, false]);
    const babbling = await serve((response) => response.socket?.end('SSH-2.0-x\r\n\r\n'));
    const broken = await herd(babbling.url, { reconnects: false });
    expect(broken.failures).toEqual({ 'broken: expected HTTP/1.1, got "SSH-2.0-x"': 20 });
  });

  it('is not there is told so', async () => {
    const { url, server } = await serve(() => undefined);
    await new Promise((resolve) => server.close(resolve));
    expect((await herd(url, { reconnects: false })).failures).toEqual({ 'unreachable: ECONNREFUSED': 20 });
  });

  // fails when the name is asked again for each connection
  it('has a name is asked at the address that was checked', async () => {
    const { url } = await serve((response) => response.end('event: put\ndata: {}\n\n'));
    const { port } = new URL(url);
    let asked = 0;
    const resolve = async (): Promise<readonly string[]> => {
      asked++;
      return ['127.0.0.1'];
    };
    const options = optionsOf(`http://relay.invalid:${port}`, { ...ONE_KIND, clients: 20, reconnects: false });
    const report = await runHerd(options, { version: '1.0.0', resolve });
    expect([report.ok, report.address, asked]).toEqual([true, '127.0.0.1', 1]);
    const remote = runHerd(options, { version: '1.0.0', resolve: async () => ['127.0.0.1', '192.0.2.1'] });
    await expect(remote).rejects.toThrow('--allow-remote');
  });

  it('reads slowly when it is to, and leaves when it is to', async () => {
    const body = `event: put\ndata: ${'x'.repeat(200_000)}\n\n`;
    const { url } = await serve((response) => response.writeHead(200, { 'content-length': body.length }).end(body));
    const shares = { ...NO_SHARES, slow: 0.5, slowBytesPerSecond: 200_000, leaving: 0.25, leavingAfterBytes: 100_000 };
    const report = await herd(url, { shares, durationMs: 4000, reconnects: false });
    const { steady, slow, leaving } = report.roles;
    expect([steady.whole, slow.whole, leaving.whole, leaving.gone]).toEqual([5, 10, 0, 5]);
    // 15 of 20 have the whole, those that are slow a second after the others
    const halfAt = report.timeline.whole.findIndex((count, at, all) => at > 3 && count > 0 && all.length > at);
    expect(halfAt * report.timeline.everyMs).toBeGreaterThanOrEqual(500);
  });
});

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the command; `onError` is given what it writes to its error output, as it comes. */
async function command(
  args: readonly string[],
  onError: (text: string, pid: number) => void = () => undefined,
): Promise<Ended> {
  const env = { ...process.env, HEADGATE_HERD_KEY: SDK_KEY, HEADGATE_HERD_BOUNCER_KEY: BOUNCER_KEY };
  const child = spawn(process.execPath, [MAIN, 'herd', ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stdout.on('data', (text) => {
    out += String(text);
  });
  child.stderr.on('data', (text) => {
    err += String(text);
    onError(err, child.pid ?? 0);
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, out, err };
}

describe('headgate herd', { timeout: TEST_MS_MAX }, () => {
  it('writes its reports, shows no key, and ends with 0 when everybody was served', async () => {
    const { headgate, admin } = await start();
    const [json, html] = [join(folder, 'herd.json'), join(folder, 'herd.html')];
    const args = [
      '--kind',
      'mix',
      '--clients',
      '60',
      '--stalled',
      '10%',
      '--admin',
      admin,
      '--json',
      json,
      '--html',
      html,
    ];
    const { code, out, err } = await command([headgate.url, ...args, '--deadline', '60s', '--max-bytes', '5GB']);
    expect([code, out.split('\n')[0]]).toEqual([0, 'All 54 steady clients had a full copy within 60.0 s.']);
    const report = JSON.parse(readFileSync(json, 'utf8')) as HerdReport;
    expect([report.schema, report.roles.steady.whole, report.server?.asked]).not.toContain(undefined);
    for (const text of [out, err, readFileSync(json, 'utf8'), readFileSync(html, 'utf8')]) {
      expect(text).not.toContain(SDK_KEY);
      expect(text).not.toContain(BOUNCER_KEY);
    }
    if (browserAvailable()) await lookAt(html);
  });

  it('ends with 1 when not, and at an interrupt with a report of what was', async () => {
    const { url } = await serve(() => undefined);
    const { code, out } = await command([url, '--clients', '5', '--deadline', '5m', '--json', '-'], (err, pid) => {
      if (err.includes('served')) process.kill(pid, 'SIGINT');
    });
    const report = JSON.parse(out) as HerdReport;
    expect([code, report.ended, report.roles.steady.arrived]).toEqual([1, 'interrupted', 5]);
  });

  it.each([
    ['a target of another machine', ['http://192.0.2.1/'], '--allow-remote'],
    ['more clients than it has', ['http://127.0.0.1:1', '--clients', '20001'], 'from 1 to 20000'],
    ['a share that is none', ['http://127.0.0.1:1', '--stalled', 'some'], '--stalled must be a share such as 30%'],
    ['a report that cannot be written', ['http://127.0.0.1:1', '--html', '/proc/none/x'], 'Cannot write a report'],
    [
      'an admin listener that does not answer',
      ['http://127.0.0.1:1', '--admin', 'http://127.0.0.1:1'],
      'Cannot use --admin',
    ],
    ['an option that is none', ['http://127.0.0.1:1', '--bogus'], 'unknown option'],
    ['nothing', [], 'missing required argument'],
  ])('ends with 2 when told %s', async (_, args, message) => {
    const { code, out, err } = await command(args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
  });
});

/** Opens the page as a person does: it asks nobody, complains of nothing, and shows its plots in both colour schemes. */
async function lookAt(html: string): Promise<void> {
  const browser = await openBrowser();
  try {
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await (await browser.newContext({ colorScheme, viewport: { width: 400, height: 800 } })).newPage();
      const asked: string[] = [];
      const said: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      page.on('console', (message) => said.push(message.text()));
      await page.goto(pathToFileURL(html).href);
      expect([asked, said]).toEqual([[pathToFileURL(html).href], []]);
      expect(await page.locator('.verdict').innerText()).toContain('All 54 steady clients');
      expect(await page.locator('figure svg').count()).toBe(4);
      const ground = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
      expect(ground).toBe(colorScheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(22, 24, 27)');
      expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(400);
    }
  } finally {
    await browser.close();
  }
}
