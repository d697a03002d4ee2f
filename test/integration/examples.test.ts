import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connect, type Connection } from '../support/connections.ts';
import { Examples, type ExampleServer } from '../support/example-process.ts';
import { ROOT } from '../support/files.ts';
import type { Line, LineProcess } from '../support/line-process.ts';
import { SseReader } from '../support/sse-reader.ts';

const WAIT_MS_MAX = 20_000;
const TEST_MS_MAX = 60_000;
/** Those who do not read are cut after 30 s, and then everybody could be served. */
const BEFORE_ANY_IS_CUT_MS = 28_000;
const ROWS = 115_000;
const SLOTS = 8;
const QUEUE = 50;

let examples: Examples;
const connections: Connection[] = [];
const programs: LineProcess[] = [];

beforeAll(() => {
  examples = new Examples();
});
afterAll(() => examples[Symbol.dispose]());
afterEach(async () => {
  for (const connection of connections.splice(0)) connection.leave();
  await Promise.all(programs.splice(0).map((program) => program.stop('SIGKILL')));
});

function open(server: ExampleServer): Connection {
  const connection = connect('http1', server.port);
  connections.push(connection);
  return connection;
}

function start(file: string, args: readonly string[]): LineProcess {
  const program = examples.run(file, args);
  programs.push(program);
  return program;
}

function said(program: LineProcess, what: string, matches: (line: Line) => boolean): Promise<Line> {
  return program.waitFor(what, matches, { msMax: WAIT_MS_MAX });
}

/** Waits until what a server says of itself is so. */
async function untilSays(server: ExampleServer, path: string, isSo: (numbers: Line) => boolean): Promise<void> {
  const byMs = performance.now() + WAIT_MS_MAX;
  for (let numbers = await server.json(path); !isSo(numbers); numbers = await server.json(path)) {
    if (performance.now() > byMs) throw new Error(`Cannot see it come: got ${JSON.stringify(numbers)}`);
    await turn();
  }
}

/** Asks for all, and counts what came. */
async function bytesOf(server: ExampleServer): Promise<number | 'refused'> {
  const response = await fetch(`${server.url}/export`);
  const { byteLength } = await response.arrayBuffer();
  if (response.status === 200) return byteLength;
  expect(response.status).toBe(503);
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  return 'refused';
}

describe.each(['node-http', 'express', 'fastify', 'hono', 'koa'])('the example of %s', (name) => {
  let server: ExampleServer;
  let bytes = 0;

  beforeAll(async () => {
    server = await examples.serve(`${name}/server.mjs`);
    bytes = Number(await bytesOf(server));
  });
  afterAll(() => server.stop());

  it('sends all of it', async () => {
    const response = await fetch(`${server.url}/export`);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    const text = await response.text();
    expect(JSON.parse(text)).toHaveLength(ROWS);
    expect(Buffer.byteLength(text)).toBe(bytes);
  });

  // fails when the example of Express, Hono or Koa has no error handling of its own: each logs a stack for each client
  it('writes nothing into its log when clients leave while the work for them is done', async () => {
    const goneOf = async (): Promise<number> => {
      const { ended } = await server.json('/');
      return (ended as Record<'client_gone', number>).client_gone;
    };
    const before = await goneOf();
    for (let left = 1; left <= 3; left++) {
      const connection = open(server);
      connection.ask({ path: '/export' });
      await untilSays(server, '/', ({ held }) => held === 1);
      connection.leave();
      await untilSays(server, '/', ({ held }) => held === 0);
    }
    expect(await goneOf()).toBe(before + 3);
    expect(server.stderr).toBe('');
  });

  // fails when the example ends the response itself instead of by `deliver`: then nobody lends a slot, and the ninth waits
  it(
    'serves others while readers that do not read hold what they have',
    async () => {
      for (let stalled = 0; stalled < SLOTS; stalled++) open(server).ask({ path: '/export', bytesMax: 0 });
      await untilSays(server, '/', ({ held, parked }) => Number(held) + Number(parked) === SLOTS);
      let answer = await bytesOf(server);
      // on a busy machine its wait may be over before the work for those who stall is done
      while (answer === 'refused') answer = await bytesOf(server);
      expect(answer).toBe(bytes);
      const { held, parked, ended } = await server.json('/');
      expect(Number(held) + Number(parked)).toBe(SLOTS);
      expect(ended).toMatchObject({ stalled: 0 });
      for (const connection of connections.splice(0)) connection.leave();
      await untilSays(server, '/', (now) => Number(now['held']) + Number(now['parked']) === 0);
    },
    TEST_MS_MAX,
  );

  // fails when `maxQueued` of the example is raised
  it(
    'refuses what neither fits nor may wait, and says when to come back',
    async () => {
      const answers = await Promise.all(Array.from({ length: SLOTS + QUEUE + 12 }, () => bytesOf(server)));
      const refused = answers.filter((answer) => answer === 'refused').length;
      expect(refused).toBeGreaterThan(0);
      // on a busy machine others are refused as well, whose wait was over
      const { shed } = await server.json('/');
      expect((shed as Record<'full', number>).full).toBeGreaterThan(0);
      expect(answers.filter((answer) => answer === bytes).length).toBe(answers.length - refused);
      expect(await server.json('/')).toMatchObject({ held: 0, waiting: 0, parked: 0 });
    },
    TEST_MS_MAX,
  );

  it(
    'finishes the copy on its way when it is told to stop',
    async () => {
      const connection = open(server);
      const reply = connection.ask({ path: '/export', bytesMax: 1 });
      await reply.begun();
      const stopped = server.stop();
      connection.resume(reply);
      expect(JSON.parse((await reply.whole()).body)).toHaveLength(ROWS);
      expect(await stopped).toBe(0);
    },
    TEST_MS_MAX,
  );
});

describe('the code in docs/middleware.md', () => {
  const page = readFileSync(`${ROOT}docs/middleware.md`, 'utf8');
  const pieces = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code = '']) => code);
  const nameOf = (code: string): string => /headgate\/middleware\/(\w+)/.exec(code)?.[1] ?? 'none';

  it('is there for each framework', () => {
    expect(pieces.map(nameOf)).toEqual(['express', 'fastify', 'hono', 'koa', 'node']);
  });

  it.each(pieces.map((code) => [nameOf(code), code] as const))(
    'serves what it says, on %s',
    async (name, code) => {
      const file = `of-the-page/${name}.mjs`;
      // what the page leaves to the reader: what is sent, and on which port
      const around = [
        "const makeExport = async () => JSON.stringify({ all: 'of it' });",
        code.replace('8050', '0'),
        'const say = () => console.log(JSON.stringify(server.address()));',
        "if (server.listening) say(); else server.once('listening', say);",
      ];
      await mkdir(examples.path('of-the-page'), { recursive: true });
      await writeFile(examples.path(file), around.join('\n'));
      const server = await examples.serve(file);
      const response = await fetch(`${server.url}/export`);
      expect(response.headers.get('content-type')).toMatch(/^application\/json/);
      expect(await response.json()).toEqual({ all: 'of it' });
      await server.kill();
    },
    TEST_MS_MAX,
  );
});

describe('the job runner', () => {
  it(
    'lets a tenant with one job in between those of a tenant with many',
    async () => {
      const server = await examples.serve('limiter-only/server.mjs');
      const run = async (tenant: string): Promise<Line> =>
        (await (await fetch(`${server.url}/jobs/${tenant}`, { method: 'POST' })).json()) as Line;
      const large = Array.from({ length: 30 }, () => run('large'));
      await untilSays(server, '/', ({ waiting }) => Number(waiting) > 20);
      const { waitedMs } = await run('small');
      // fails when the target of a request is taken for a URL: this is none, and would end the process
      expect((await open(server).ask({ path: '//' }).whole()).status).toBe(200);
      const waits = (await Promise.all(large)).map((line) => Number(line['waitedMs']));
      // fails when the tenant is not given to the limiter: the last to come is then the last to be served
      expect(Number(waitedMs)).toBeLessThan(Math.max(...waits) / 2);
      expect(await server.json('/')).toMatchObject({ held: 0, waiting: 0, admitted: 31 });
      expect(await server.stop()).toBe(0);
    },
    TEST_MS_MAX,
  );
});

describe('the relay for flags', () => {
  it(
    'gives a flag to an SDK, and its next value when the file changes',
    async () => {
      const server = await examples.serve('flags-relay/server.mjs');
      const client = start('flags-relay/client.mjs', [server.url]);
      await said(client, 'the first value', (line) => line['new-checkout'] === true);
      const path = examples.path('flags-relay/flags.json');
      const text = await readFile(path, 'utf8');
      const changed = text.replace('"fallthrough": { "variation": 0 }', '"fallthrough": { "variation": 1 }');
      expect(changed).not.toBe(text);
      await writeFile(path, changed);
      await said(client, 'the next value', (line) => line['new-checkout'] === false);
      expect(await server.stop()).toBe(0);
    },
    TEST_MS_MAX,
  );
});

describe('the decisions', () => {
  it(
    'reach a bouncer, and so does what is added and taken away',
    async () => {
      const server = await examples.serve('decisions/server.mjs');
      const bouncer = start('decisions/bouncer.mjs', [server.url]);
      const bans = (...values: readonly string[]): Promise<Line> =>
        said(bouncer, `bans of ${values.join(' ')}`, (line) =>
          isDeepStrictEqual(Object.values(line).toSorted(byName), values),
        );
      await bans('ban 192.0.2.7', 'ban 198.51.100.0/24');
      const path = examples.path('decisions/bans.csv');
      const text = await readFile(path, 'utf8');
      await writeFile(path, `${text.replace(/^192.*\n/m, '')}203.0.113.9,captcha,fast crawler\n`);
      await bans('ban 198.51.100.0/24', 'captcha 203.0.113.9');
      const headers = { 'x-api-key': 'key-of-the-example' };
      const found = await (await fetch(`${server.url}/v1/decisions?ip=198.51.100.9`, { headers })).json();
      expect(found).toMatchObject([{ value: '198.51.100.0/24', type: 'ban' }]);
      expect(await server.stop()).toBe(0);
    },
    TEST_MS_MAX,
  );
});

describe('a snapshot and its changes', () => {
  const ITEMS = 100_000;
  const PATH = '/prices';
  const PROGRAM = 'examples/snapshot-and-changes/server.mjs';
  const tutorial = readFileSync(`${ROOT}docs/tutorial.md`, 'utf8');
  const program = readFileSync(ROOT + PROGRAM, 'utf8');
  let server: ExampleServer;

  beforeAll(async () => {
    server = await examples.serve('snapshot-and-changes/server.mjs');
  });
  afterAll(() => server.stop());

  function follow(lastEventId?: string): SseReader {
    const headers = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
    return new SseReader(open(server).ask({ path: PATH, headers }));
  }

  async function put(key: string, price: object): Promise<number> {
    const body = JSON.stringify(price);
    return (await fetch(`${server.url}${PATH}/${key}`, { method: 'PUT', body })).status;
  }

  /** Follows until the copy has ended, and says how many bytes it has. Comes back when it is refused. */
  async function copied(): Promise<number> {
    const reply = open(server).ask({ path: PATH });
    const isWhole = (): boolean => reply.parts.at(-1)?.subarray(-2).toString() === '\n\n';
    await reply.until('the end of a copy', () => isWhole() || reply.over !== undefined);
    return isWhole() ? reply.bytes : copied();
  }

  it('is the code of the tutorial, in its order, and under 60 lines', () => {
    const pieces = [...tutorial.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code = '']) => code);
    expect(pieces.join('\n')).toBe(program);
    const lines = program.split('\n').filter((line) => line.trim() !== '' && !line.trim().startsWith('//'));
    expect(lines.length).toBeLessThan(60);
    expect(tutorial).toContain(`in ${lines.length} lines of code`);
  });

  it(
    'sends all, then every change to everybody, and to one who comes back what was missed',
    async () => {
      const [one, other] = [follow(), follow()];
      const copy = await one.event(1);
      expect(copy.event).toBe('copy');
      expect(Object.keys(copy.json as object)).toHaveLength(ITEMS);
      // what the tutorial shows is what is there
      expect(tutorial).toContain(`id: ${copy.id}`);
      await other.event(1);

      expect(await put('item-7', { name: 'Item 7', cents: 5 })).toBe(204);
      const changes = await Promise.all([one.event(2), other.event(2)]);
      for (const { event, json } of changes) {
        expect(event).toBe('changes');
        expect(json).toEqual({ 'item-7': { name: 'Item 7', cents: 5, version: 2 } });
      }
      expect(tutorial).toContain(`id: ${changes[0].id}`);

      expect(await put('item-8', { cents: 6 })).toBe(204);
      expect((await one.event(3)).json).toEqual({ 'item-8': { cents: 6, version: 2 } });
      const back = follow(copy.id);
      const missed = await back.event(1);
      expect(missed.event).toBe('changes');
      expect(Object.keys(missed.json as object).toSorted()).toEqual(['item-7', 'item-8']);
      // what it holds is current: it gets no event before the next change
      const current = follow(missed.id);
      await current.reply.begun();
      // fails when `live.add` is given another place than `prices.log.next`: the next change is lost, or the last repeated
      for (const [at, key] of ['item-9', 'item-10'].entries()) {
        expect(await put(key, { cents: at })).toBe(204);
        const next = await Promise.all([one.event(4 + at), back.event(2 + at), current.event(1 + at)]);
        for (const { json } of next) expect(json).toEqual({ [key]: { cents: at, version: 2 } });
      }
    },
    TEST_MS_MAX,
  );

  // fails when `live.add` is given another place than `pin.snapshot.offset`: changes are lost, or repeated
  it(
    'sends what changed while a copy was on its way behind that copy, once',
    async () => {
      await put('item-1', { cents: 1 });
      const connection = open(server);
      const reply = connection.ask({ path: PATH, bytesMax: 1 });
      const reader = new SseReader(reply);
      await reply.begun();
      for (const key of ['item-2', 'item-3']) expect(await put(key, { cents: 2 })).toBe(204);
      connection.resume(reply);
      const copy = (await reader.event(1)).json as Readonly<Record<string, unknown>>;
      expect(copy).toMatchObject({ 'item-1': { cents: 1 }, 'item-2': { name: 'Item 2' } });
      expect((await reader.event(2)).json).toEqual({ 'item-2': { cents: 2, version: 2 } });
      expect((await reader.event(3)).json).toEqual({ 'item-3': { cents: 2, version: 2 } });
    },
    TEST_MS_MAX,
  );

  it('gives a full copy for a position that it does not know, and refuses what is no JSON', async () => {
    expect((await follow('nonsense').event(1)).event).toBe('copy');
    expect(await fetch(`${server.url}${PATH}/x`, { method: 'PUT', body: '{' }).then(({ status }) => status)).toBe(400);
    expect(await fetch(`${server.url}/elsewhere`).then(({ status }) => status)).toBe(404);
  });

  // fails when `parking` is not given to `deliver`: those who do not read hold every slot, and the others wait in vain
  it(
    'stays small under a herd of which many do not read, and serves the others',
    async () => {
      const STALLED = 64;
      const HEALTHY = 40;
      const before = rssPeakMib(server.pid);
      for (let at = 0; at < STALLED; at++) open(server).ask({ path: PATH, bytesMax: 0 });
      const sizes = await Promise.all(Array.from({ length: HEALTHY }, copied));
      expect(new Set(sizes).size).toBe(1);
      expect(sizes[0]).toBeGreaterThan(5e6);
      // a copy for each of the clients would be 104 times 6 MB
      expect(rssPeakMib(server.pid) - before).toBeLessThan(100);
    },
    BEFORE_ANY_IS_CUT_MS,
  );

  it(
    'closes its streams in good order when it is told to stop',
    async () => {
      const reader = follow();
      await reader.event(1);
      const stopped = server.stop();
      expect((await reader.reply.ended()).over).toBe('whole');
      for (const connection of connections.splice(0)) connection.leave();
      expect(await stopped).toBe(0);
    },
    TEST_MS_MAX,
  );
});

function byName(a: unknown, b: unknown): number {
  return String(a) < String(b) ? -1 : 1;
}

/** The most that a process had resident; 0 where the system does not say. */
function rssPeakMib(pid: number): number {
  if (process.platform !== 'linux') return 0;
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
