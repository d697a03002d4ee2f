import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { HERD_KINDS, type HerdOptions, type HerdReport, herdOptions, runHerd } from '../../src/herd/index.ts';
import { type Clock, systemClock } from '../../src/kernel/index.ts';
import { browserAvailable, openBrowser } from '../support/dashboard-browser.mjs';
import { ROOT } from '../support/files.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { selfSigned } from '../support/tls.ts';

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

/** Goes at a quarter of the pace: the three seconds that Go's and PHP's give a poll are twelve, which a busy machine keeps. */
const slowClock: Clock = {
  now: () => systemClock.now() / 4,
  after: (delayMs, run) => systemClock.after(delayMs * 4, run),
};

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
    const lost = 18;
    const report = await runHerd(
      optionsOf(headgate.url, {
        parts: HERD_KINDS.map((kind) => ({ kind, weight: 1 })),
        clients: 54,
        everyMs: 250,
        dropAtMs: 1500,
        durationMs: 20_000,
        admin,
      }),
      {
        version: '1.0.0',
        signal: ending.signal,
        clock: slowClock,
        // everybody has asked again and again, and all streams are open again
        onProgress: ({ seconds, back }) => {
          if (seconds > 2.5 && back === lost) ending.abort();
        },
      },
    );
    expect(report.roles.steady).toMatchObject({ clients: 54, whole: 54, inTime: 54 });
    expect(report.asked.kinds).toEqual(Object.fromEntries(HERD_KINDS.map((kind) => [kind, 9])));
    const { returns } = report;
    expect([returns.lost, returns.back]).toEqual([lost, lost]);
    // of the first protocol Python's SDK needs everything again and Go's may, Node's is told what it holds already
    expect(returns).toMatchObject({ full: 6, changes: 3, current: 9 });
    // polls after the first bring nothing: their tag, their basis or their cursor says what they hold
    expect(report.answers.current).toBeGreaterThan(20);
    expect([report.refused, report.failures]).toEqual([{}, {}]);
    // the wire has heads and the framing of chunks besides the bodies; what was on its way to connections that were dropped
    // has left the server and reached nobody: a few events and polls
    const sent = report.server?.sentBytes ?? 0;
    expect(report.bytes).toBeGreaterThan(sent * 0.99);
    expect(report.bytes).toBeLessThan(sent * 1.02 + report.attempts * 600);
  });
});

describe('a herd of bouncers', { timeout: TEST_MS_MAX }, () => {
  // fails when every answer that ended counts as a full copy
  it('has everything once, and is told what changed from then on', async () => {
    const { headgate } = await start();
    const options = {
      parts: [{ kind: 'bouncer', weight: 1 }],
      clients: 12,
      everyMs: 500,
      durationMs: 2000,
    } as const;
    const { answers, failures, roles } = await runHerd(optionsOf(headgate.url, options), {
      version: '1.0.0',
      clock: slowClock,
    });
    expect([roles.steady.whole, failures, answers.full, answers.changes]).toEqual([12, {}, 12, 0]);
    expect(answers.current).toBeGreaterThanOrEqual(12);
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

  // fails when TLS is asked with an empty write whether the connection was reset: it keeps that to itself
  it('resets those that stand still is told so over TLS as well', async () => {
    const below: Socket[] = [];
    const server = createTlsServer(selfSigned(), (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(Buffer.alloc(1_000_000, 'x'));
    });
    server.on('connection', (socket: Socket) => below.push(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing.push(() => server.close());
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const ending = new AbortController();
    const shares = { ...NO_SHARES, stalled: 1, stalledAfterBytes: 20_000 };
    const report = await runHerd(
      optionsOf(url, { ...ONE_KIND, clients: 10, shares, isInsecure: true, durationMs: 60_000, reconnects: false }),
      {
        version: '1.0.0',
        signal: ending.signal,
        onProgress: ({ bytes, failed }) => {
          if (bytes >= 200_000) for (const socket of below.splice(0)) socket.resetAndDestroy();
          if (failed === 10) ending.abort();
        },
      },
    );
    expect([report.ended, report.stalled.stood, report.stalled.cut]).toEqual(['interrupted', 10, 10]);
    expect(report.failures).toEqual({ 'cut: ECONNRESET': 10 });
    // one that stands still reads no more than the record in which it stopped
    expect(report.bytes).toBeLessThanOrEqual(10 * (20_000 + 16_384));
  });

  // fails when what it says is quoted as it came
  it('sends back what it was sent is quoted without the key', async () => {
    const answer = (line: string): ((response: ServerResponse) => void) => {
      return ({ socket }) => socket?.end(`${line}\r\ncontent-length: 0\r\n\r\n`);
    };
    const echoing = await serve(answer(SDK_KEY));
    expect((await herd(echoing.url, { reconnects: false })).failures).toEqual({
      'broken: expected HTTP/1.1, got "(key)"': 20,
    });
    const telling = await serve(answer(`HTTP/1.1 503 No\r\nretry-after: ${SDK_KEY}`));
    expect((await herd(telling.url, { reconnects: false })).retryAfter).toEqual({ '(key)': 20 });
  });

  // fails when a lost connection is one with a request on it
  it('is polled has every connection lost, those between two polls as well', async () => {
    const { url, server } = await serve((response) => response.end('{}'));
    let connections = 0;
    server.on('connection', () => connections++);
    const parts = [{ kind: 'fdv1-poll', weight: 1 }] as const;
    const polls = { parts, sdks: ['python'], clients: 10, everyMs: 1000, dropAtMs: 500, durationMs: 1800 };
    const report = await herd(url, polls);
    expect([report.answers.full, connections, report.failures]).toEqual([20, 20, {}]);
  });

  // fails when those that have not come yet come all the same
  it('nobody wants any more is not asked', async () => {
    const { url, server } = await serve((response) => response.end('{}'));
    let connections = 0;
    server.on('connection', () => connections++);
    const report = await runHerd(optionsOf(url, { ...ONE_KIND, clients: 20 }), {
      version: '1.0.0',
      signal: AbortSignal.abort(),
    });
    expect([report.ended, report.attempts, report.roles.steady.arrived, connections]).toEqual(['interrupted', 0, 0, 0]);
  });

  // fails when only the 99th percentile of the delays counts
  it('is not what held it up is not blamed', async () => {
    const { url } = await serve((response) => response.end('{}'));
    let isBlocked = false;
    const report = await runHerd(
      optionsOf(url, { parts: [{ kind: 'php', weight: 1 }], clients: 20, durationMs: 4000 }),
      {
        version: '1.0.0',
        onProgress: () => {
          const untilMs = performance.now() + (isBlocked ? 0 : 500);
          isBlocked = true;
          while (performance.now() < untilMs);
        },
      },
    );
    expect([report.tool.wasBusy, report.tool.loopDelayMs.max >= 400]).toEqual([true, true]);
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

  // fails when a report that cannot be written, or an output that nobody reads, ends it like a fault of its own
  it.skipIf(process.platform !== 'linux')(
    'ends with 3 when a report could not be written, and says which',
    async () => {
      const { url } = await serve((response) => response.end('{}'));
      const html = join(folder, 'beside.html');
      const args = [url, '--kind', 'fdv1-poll', '--clients', '3', '--quiet', '--json', '/dev/full', '--html', html];
      const { code, out, err } = await command(args);
      expect([code, out.split('\n')[0]]).toEqual([3, 'All 3 steady clients had a full copy within 60.0 s.']);
      expect(err).toBe('Cannot write a report: ENOSPC: no space left on device, write, got /dev/full\n');
      expect(readFileSync(html, 'utf8')).toContain('All 3 steady clients');
    },
  );

  it('ends with what became of the herd when nobody reads its output', async () => {
    const { url } = await serve((response) => response.end('{}'));
    const env = { ...process.env, HEADGATE_HERD_KEY: SDK_KEY };
    const args = [MAIN, 'herd', url, '--kind', 'fdv1-poll', '--clients', '3'];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.destroy();
    child.stderr.destroy();
    expect(await new Promise((resolve) => child.once('close', resolve))).toBe(0);
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
