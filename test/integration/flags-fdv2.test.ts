import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Position, formatPosition, parsePosition } from '../../src/dataset/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import { turns, until } from '../support/conditions.ts';
import type { Reply } from '../support/connections.ts';
import { type Flags, type FlagsOptions, flag, flagsOf, gone, put, segment, startFlags } from '../support/flags.ts';
import { contentsOf, Fdv2Client } from '../support/flags-model.ts';
import type { SseReader } from '../support/sse-reader.ts';

vi.setConfig({ testTimeout: 30_000 });

const NODE = { 'user-agent': 'NodeJSClient/9.13.7' };
const GO = { 'user-agent': 'GoClient/7.14.6' };
const PYTHON = { 'user-agent': 'PythonClient/9.20.0' };

interface Fdv2Event {
  readonly event: string;
  readonly data: {
    readonly payloads?: readonly { intentCode: string; reason: string; target: number; id: string }[];
  } & Record<string, unknown>;
}

let flags: Flags;

afterEach(async () => {
  await flags.stop();
});

async function start(options: FlagsOptions = {}): Promise<void> {
  flags = await startFlags(options);
  await flags.load([flag('a', 1), flag('b', 1), segment('s', 1)]);
}

/** The position of what is held now. */
function here(): Position {
  const { digest, clock } = flags.environment().data.snapshot();
  return { digest, clock, view: 'all' };
}

function basis(): string {
  return formatPosition(here());
}

function eventsOf(reply: Reply): readonly Fdv2Event[] {
  return (reply.json() as { events: readonly Fdv2Event[] }).events;
}

/** A poll in few words: `xfer-changes: put a 2, delete b 3`. */
function inWords(events: readonly Fdv2Event[]): string {
  const { intentCode = '?' } = events[0]?.data.payloads?.[0] ?? {};
  const changes = events.filter(({ event }) => event.endsWith('-object'));
  const words = changes.map(
    ({ event, data }) => `${event.split('-')[0]} ${String(data['key'])} ${String(data['version'])}`,
  );
  return words.length === 0 ? intentCode : `${intentCode}: ${words.join(', ')}`;
}

async function poll(query: string, headers: Record<string, string> = {}): Promise<string> {
  return inWords(eventsOf(await flags.get(`/sdk/poll${query}`, headers)));
}

/** The first answer on a stream, in the words of a poll: up to `payload-transferred`, or an intent that says `none`. */
async function stream(query: string, headers: Record<string, string> = {}): Promise<string> {
  const reader = await flags.stream(`/sdk/stream${query}`, headers);
  return firstOf(reader);
}

async function firstOf(reader: SseReader): Promise<string> {
  await reader.until('the first answer', () => {
    const first = reader.events[0];
    return first?.data.includes('"none"') === true || reader.names.includes('payload-transferred');
  });
  return inWords(reader.events.map(({ event = '', data }) => ({ event, data: JSON.parse(data) as Fdv2Event['data'] })));
}

const FULL = 'xfer-full: put a 1, put b 1, put s 1';

describe.each([
  ['poll', poll],
  ['stream', stream],
])('FDv2, by %s', (_how, ask) => {
  it('tells who is up to date so, by basis and by Last-Event-ID', async () => {
    await start();
    expect(await ask(`?basis=${basis()}`)).toBe('none');
    expect(await ask('', { 'last-event-id': basis() })).toBe('none');
  });

  it('sends everything to who names nothing', async () => {
    await start();
    expect(await ask('')).toBe(FULL);
  });

  it('sends the changes since a position that the log knows, the last of each key, deletions included', async () => {
    await start();
    const old = basis();
    await flags.apply([put(flag('a', 2))]);
    const middle = basis();
    await flags.apply([put(flag('a', 3)), gone('flags', 'b', 2)]);
    await flags.apply([put(segment('t', 1))]);
    expect(await ask(`?basis=${old}`)).toBe('xfer-changes: put a 3, delete b 2, put t 1');
    expect(await ask('', { 'last-event-id': old })).toBe('xfer-changes: put a 3, delete b 2, put t 1');
    await flags.apply([put(flag('a', 4))]);
    expect(await ask(`?basis=${middle}`)).toBe('xfer-changes: delete b 2, put t 1, put a 4');
  });

  // fails when claimOf looks at `basis` first
  it('believes Last-Event-ID before basis', async () => {
    await start();
    const old = basis();
    await flags.apply([put(flag('a', 2))]);
    expect(await ask(`?basis=${old}`, { 'last-event-id': basis() })).toBe('none');
    expect(await ask(`?basis=${basis()}`, { 'last-event-id': old })).toBe('xfer-changes: put a 2');
    // what it named last is unknown here: its older basis is not where it is
    expect(await ask(`?basis=${basis()}`, { 'last-event-id': 'somebody-else' })).toMatch(/^xfer-full/);
  });

  it.each([
    ['of another service', '(p:5A46PZ79FQ9D08YYKT79DECDNV:461)'],
    ['empty', ''],
    ['without a clock', 'AAAA.all'],
    ['with a NUL', '%00'],
    ['too long', 'x'.repeat(4000)],
    ['twice as many dots', 'a.1.all.a.1.all'],
  ])('sends everything to who names a position that is none: %s', async (_what, malformed) => {
    await start();
    expect(await ask(`?basis=${malformed}`)).toBe(FULL);
  });

  it('sends everything to who names a digest that the log does not know', async () => {
    await start();
    const unknown = formatPosition({ ...here(), digest: 'A'.repeat(43), clock: 0 });
    expect(await ask(`?basis=${unknown}`)).toBe(FULL);
  });

  // fails when claimOf does not compare the view
  it('sends everything to who names a position of another view, though it be of the same digest', async () => {
    await start();
    const legacy = formatPosition({ ...here(), view: 'flags' });
    expect(await ask(`?basis=${legacy}`)).toBe(FULL);
    expect(await ask('', { 'last-event-id': legacy })).toBe(FULL);
  });

  it('sends what came and went again to a client that may have seen it', async () => {
    await start();
    const old = basis();
    await flags.apply([put(flag('c', 5))]);
    const between = basis();
    await flags.apply([gone('flags', 'c', 6)]);
    // the same content as at first: whoever holds exactly that is up to date
    expect(await ask(`?basis=${old}`)).toBe('none');
    expect(await ask(`?basis=${between}`)).toBe('xfer-changes: delete c 6');
    // Node's basis is that of its start: it may hold c
    expect(await ask(`?basis=${old}`, NODE)).toBe('xfer-changes: delete c 6');
    // its Last-Event-ID is never old
    expect(await ask(`?basis=${old}`, { ...NODE, 'last-event-id': basis() })).toBe('none');
    await flags.apply([put(flag('a', 2))]);
    expect(await ask(`?basis=${old}`, NODE)).toBe('xfer-changes: delete c 6, put a 2');
  });

  it('tells a client with a frozen basis that it is up to date when nothing was touched since', async () => {
    await start();
    expect(await ask(`?basis=${basis()}`, NODE)).toBe('none');
    await flags.apply([put(flag('a', 2))]);
    const later = basis();
    expect(await ask(`?basis=${later}`, NODE)).toBe('none');
  });

  // fails when a rollback is put into the log like any other change
  it('sends everything to who comes back from before a version that did not rise', async () => {
    await start();
    const old = basis();
    await flags.apply([put(flag('a', 3))]);
    const high = basis();
    await flags.apply([put(flag('a', 2))]);
    for (const position of [old, high]) expect(await ask(`?basis=${position}`)).toMatch(/^xfer-full: put a 2/);
    expect(await ask(`?basis=${basis()}`)).toBe('none');
  });

  it('sends everything to who comes back from where the log no longer reaches', async () => {
    await start({ front: { logBatchesMax: 2 } });
    const old = basis();
    for (let version = 2; version <= 3; version++) await flags.apply([put(flag('a', version))]);
    expect(await ask(`?basis=${old}`)).toBe('xfer-changes: put a 3');
    await flags.apply([put(flag('a', 4))]);
    expect(await ask(`?basis=${old}`)).toMatch(/^xfer-full: put a 4/);
  });

  it('serves a catch-up of many bytes with a slot, as one payload', async () => {
    await start();
    const old = basis();
    await flags.apply(flagsOf(400 * 1024).map(put));
    const admitted = flags.limiter.stats().admitted;
    expect((await ask(`?basis=${old}`)).split(', ')).toHaveLength(13);
    expect(flags.limiter.stats().admitted).toBe(admitted + 1);
    await until('the slot', () => flags.limiter.held === 0);
  });
});

describe('a client that seems ahead of us', () => {
  function ahead(): string {
    return formatPosition({ ...here(), digest: 'B'.repeat(42) + 'A', clock: here().clock + 100 });
  }

  // a poll's client may give all of it three seconds
  it.each([
    ['/sdk/poll', 1000],
    ['/sdk/stream', 5000],
  ])('waits for our source on %s, %d ms at most', async (path, waitMsMax) => {
    const clock = new FakeClock();
    await start({ clock });
    const armed = clock.armed;
    const reply = flags.ask(`${path}?basis=${ahead()}`);
    await until('it waits', () => clock.armed > armed);
    clock.advance(waitMsMax - 1);
    await turns(20);
    expect(reply.status).toBe(0);
    clock.advance(1);
    await reply.begun();
    await reply.until(
      'a full copy',
      () => reply.body.includes('xfer-full') && reply.body.includes('payload-transferred'),
    );
    await until('the slot', () => flags.limiter.held === 0);
  });

  // fails when nextChange does not subscribe
  it.each(['/sdk/poll', '/sdk/stream'])('is woken by the change that it waits for, on %s', async (path) => {
    const clock = new FakeClock();
    await start({ clock });
    const before = basis();
    // where another replica is already
    await flags.apply([put(flag('a', 2)), put(flag('b', 7))]);
    const there = basis();
    await flags.stop();
    await start({ clock });
    expect(basis()).toBe(before);
    const armed = clock.armed;
    const reply = flags.ask(`${path}?basis=${there}`);
    await until('it waits', () => clock.armed > armed);
    // not yet there: it waits on
    await flags.apply([put(flag('a', 2))]);
    await turns(20);
    expect(reply.status).toBe(0);
    await flags.apply([put(flag('b', 7))]);
    await reply.until('that it is up to date', () => reply.body.includes('"none"'));
    expect(clock.now()).toBe(0);
  });

  it('takes nothing with it when it leaves', async () => {
    const clock = new FakeClock();
    await start({ clock });
    const armed = clock.armed;
    const connection = flags.connect();
    flags.ask(`/sdk/stream?basis=${ahead()}`, {}, connection);
    await until('it waits', () => clock.armed > armed);
    connection.leave();
    await turns(20);
    await flags.pass(6000);
    expect(flags.limiter.stats()).toMatchObject({ held: 0, waiting: 0, admitted: 0 });
    expect(flags.environment().streams).toBe(0);
    expect(flags.failures).toEqual([]);
  });
});

describe('what a poll says beside its body', () => {
  it('has a Content-Length on HTTP/1.0, small or large', async () => {
    await start();
    const old = basis();
    const asHttp10 = (path: string): Promise<Reply> => flags.ask(path, { version: '1.0' }).whole();
    for (const path of ['/sdk/poll', `/sdk/poll?basis=${old}`, '/sdk/latest-all', '/sdk/flags']) {
      const reply = await asHttp10(path);
      expect(reply.headers).toMatchObject({ 'content-length': String(reply.bytes) });
      expect(reply.headers).not.toHaveProperty('transfer-encoding');
    }
  });

  it('is the same in gzip, once it is inflated', async () => {
    await start();
    await flags.apply(flagsOf(300 * 1024).map(put));
    for (const path of ['/sdk/poll', '/sdk/latest-all', '/sdk/flags']) {
      const plain = await flags.get(path);
      const zipped = await flags.get(path, { 'accept-encoding': 'gzip' });
      expect(zipped.headers).toMatchObject({ 'content-encoding': 'gzip', 'content-length': String(zipped.bytes) });
      expect(zipped.bytes).toBeLessThan(plain.bytes / 2);
      expect(gunzipSync(zipped.buffer).equals(plain.buffer)).toBe(true);
      expect(zipped.headers['etag']).toBe(plain.headers['etag']);
    }
  });

  it('is not compressed where compression is off, nor for who does not accept it', async () => {
    await start({ front: { compression: false } });
    const reply = await flags.get('/sdk/poll', { 'accept-encoding': 'gzip' });
    expect(reply.headers).not.toHaveProperty('content-encoding');
    expect(reply.headers).not.toHaveProperty('vary');
  });

  it.each(['/sdk/poll', '/sdk/latest-all', '/sdk/flags'])('answers 304 to its own tag: %s', async (path) => {
    await start({ limits: { maxConcurrent: 1 } });
    const { headers } = await flags.get(path);
    const tag = headers['etag'] ?? '';
    const { admitted } = flags.limiter.stats();
    const again = await flags.get(path, { 'if-none-match': tag, 'accept-encoding': 'gzip' });
    expect({ status: again.status, bytes: again.bytes }).toEqual({ status: 304, bytes: 0 });
    // known before any work
    expect(flags.limiter.stats().admitted).toBe(admitted);
    await flags.apply([put(flag('a', 2))]);
    expect((await flags.get(path, { 'if-none-match': tag })).status).toBe(200);
  });

  it('carries no tag on errors, and a Cache-Control on full copies only', async () => {
    await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    const old = basis();
    await flags.apply([put(flag('a', 2))]);
    expect((await flags.get('/sdk/poll')).headers['cache-control']).toBe('max-age=0, stale-if-error=86400');
    expect((await flags.get(`/sdk/poll?basis=${old}`)).headers).not.toHaveProperty('cache-control');
    const slot = flags.limiter.tryAcquire();
    for (const path of ['/sdk/poll', '/sdk/latest-all', '/sdk/flags', '/sdk/stream', '/all']) {
      const reply = await flags.get(path, { 'if-none-match': 'relay-x' });
      expect(reply.status).toBe(503);
      expect(reply.headers).not.toHaveProperty('etag');
      expect(reply.headers).not.toHaveProperty('cache-control');
    }
    if (slot.admitted) slot.slot.release();
  });

  it('keeps target and version below 2^31, however high the versions are', async () => {
    flags = await startFlags();
    await flags.load([flag('a', 2 ** 40), flag('b', 2 ** 31)]);
    let last = 0;
    for (let version = 2 ** 40 + 1; version < 2 ** 40 + 4; version++) {
      await flags.apply([put(flag('a', version))]);
      const events = eventsOf(await flags.get('/sdk/poll'));
      const target = events[0]?.data.payloads?.[0]?.target ?? 0;
      expect(target).toBe(events.at(-1)?.data['version']);
      expect(target).toBeGreaterThan(last);
      expect(target).toBeLessThan(2 ** 31);
      last = target;
    }
  });
});

describe('a basis that is frozen', () => {
  // fails when a frozen basis is taken for "current" on the strength of its digest alone
  it('proves nothing once the log has forgotten what came and went since', async () => {
    await start({ front: { logBatchesMax: 1 } });
    const old = basis();
    await flags.apply([put(flag('c', 5))]);
    await flags.apply([gone('flags', 'c', 6)]);
    expect(basis().split('.')[0]).toBe(old.split('.')[0]);
    expect(await poll(`?basis=${old}`, NODE)).toBe(FULL);
    await flags.apply([put(flag('a', 2))]);
    await flags.apply([put(flag('c', 7))]);
    await flags.apply([gone('flags', 'c', 8)]);
    expect(await poll(`?basis=${old}`, NODE)).toMatch(/^xfer-full/);
  });
});

describe('coming back to FDv1 with Last-Event-ID', () => {
  /** What a stream that comes back is sent first. */
  async function back(
    lastEventId: string | undefined,
    headers: Record<string, string>,
    path = '/all',
  ): Promise<string> {
    const named = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
    const reader = await flags.stream(path, { ...headers, ...named });
    const { event, json } = await reader.event(1);
    const { path: at, data, version } = json as { path?: string; data?: { version: number }; version?: number };
    return event === 'put' ? 'put' : `${String(event)} ${String(at)} ${String(data?.version ?? version)}`;
  }

  it.each([
    { sdk: 'Node', headers: NODE, safe: 'patch /flags/a 2', all: 'patch /flags/a 2' },
    { sdk: 'Go', headers: GO, safe: 'put', all: 'patch /flags/a 2' },
    { sdk: 'Python', headers: PYTHON, safe: 'put', all: 'put' },
    { sdk: 'an unknown SDK', headers: { 'user-agent': 'RustClient/2.0' }, safe: 'put', all: 'put' },
    { sdk: 'no name', headers: {}, safe: 'put', all: 'put' },
  ])('gives $sdk what leaves it right', async ({ headers, safe, all }) => {
    for (const [catchUp, expected] of [
      ['safe', safe],
      ['all', all],
      ['off', 'put'],
    ] as const) {
      await start({ front: { catchUp } });
      const old = basis();
      await flags.apply([put(flag('a', 2))]);
      expect(await back(old, headers)).toBe(expected);
      // a new instance of the SDK names nothing
      expect(await back(undefined, headers)).toBe('put');
      await flags.stop();
    }
    await start();
  });

  it('sends several changes, and deletions', async () => {
    await start();
    const first = await flags.stream('/all', NODE);
    const { id } = await first.event(1);
    await flags.apply([put(flag('a', 2)), gone('flags', 'b', 3)]);
    await flags.apply([put(segment('s', 2))]);
    const reader = await flags.stream('/all', { ...NODE, 'last-event-id': id ?? '' });
    expect((await reader.event(3)).json).toMatchObject({ path: '/segments/s', data: { version: 2 } });
    expect(reader.names).toEqual(['patch', 'delete', 'patch']);
    // only the last one completes the state
    expect(reader.events.map((event) => event.id !== undefined)).toEqual([false, false, true]);
    await flags.apply([put(flag('a', 3))]);
    expect((await reader.event(4)).json).toMatchObject({ path: '/flags/a', data: { version: 3 } });
  });

  it('tells a stream that is up to date so with an item that it has, as FDv1 has no word for it', async () => {
    await start();
    expect(await back(basis(), NODE)).toBe('patch /flags/a 1');
    const legacy = formatPosition({ ...here(), view: 'flags' });
    expect(await back(legacy, NODE, '/flags')).toBe('patch /a 1');
    expect(flags.limiter.stats().admitted).toBe(0);
  });

  it('does the same when nothing that this stream shows has changed', async () => {
    await start();
    const legacy = formatPosition({ ...here(), view: 'flags' });
    await flags.apply([put(segment('s', 2))]);
    expect(await back(legacy, NODE, '/flags')).toBe('patch /a 1');
  });

  it('sends a put to who comes from the other stream', async () => {
    await start();
    expect(await back(basis(), NODE, '/flags')).toBe('put');
  });

  it('has nothing to say of an environment that is empty, and follows all the same', async () => {
    flags = await startFlags();
    await flags.load([]);
    const reader = await flags.stream('/all', { ...NODE, 'last-event-id': basis() });
    await flags.following(1);
    await flags.apply([put(flag('a', 1))]);
    expect((await reader.event(1)).json).toMatchObject({ path: '/flags/a' });
  });
});

describe('a stream of the second protocol', () => {
  it('leads from a full copy through changes, a reset and a return to what is held', async () => {
    await start();
    const client = new Fdv2Client();
    let current: SseReader | undefined;
    const follow = async (query: string, headers: Record<string, string> = {}): Promise<SseReader> => {
      const reader = await flags.stream(`/sdk/stream${query}`, headers);
      let taken = 0;
      const take = (): void => {
        for (; taken < reader.events.length && reader === current; taken++) client.take(reader.events[taken]!);
      };
      current = reader;
      reader.onChange(take);
      take();
      return reader;
    };
    const isHere = (reader: SseReader): Promise<void> => reader.until('what is held', () => client.state === basis());
    const reader = await follow('');
    await isHere(reader);
    await flags.apply([put(flag('a', 2)), gone('segments', 's', 4)]);
    await isHere(reader);
    await flags.apply([put(flag('a', 1))]);
    await isHere(reader);
    expect(client.fulls).toBe(2);
    current = undefined;
    client.reconnect();
    await flags.apply([put(flag('c', 1))]);
    const again = await follow(`?basis=${client.state}`, GO);
    await isHere(again);
    expect(client.fulls).toBe(2);
    expect(client.contents).toEqual(contentsOf(flags.environment().data.snapshot()));
    expect(client.violations).toEqual([]);
  });

  it('gives out only positions that can be used without encoding', async () => {
    await start();
    const reader = await flags.stream('/sdk/stream');
    const { id, json } = await reader.event(5);
    expect(parsePosition(id ?? '')).toEqual(here());
    expect((json as { state: string }).state).toBe(id);
    expect(encodeURIComponent(id ?? '')).toBe(id);
  });
});
