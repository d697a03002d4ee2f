import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import type { Decision } from '../../src/dataset/decisions/index.ts';
import type { Transport } from '../../src/delivery/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import { delivered } from '../../src/protocols/crowdsec/index.ts';
import { until } from '../support/conditions.ts';
import type { Reply } from '../support/connections.ts';
import { BOUNCER, type Decisions, type DecisionsOptions, startDecisions } from '../support/decisions.ts';

const STREAM = '/v1/decisions/stream';
const FULL = `${STREAM}?startup=true`;
const EMPTY = '{"new": [], "deleted": []}';
const TRANSPORTS: readonly Transport[] = ['http1', 'https1', 'h2c', 'h2'];
/** About 9 MB of a full copy: above what both kernels and Node hold for a reader that takes nothing. */
const MANY = 4500;
const LONG = { scenario: 'x'.repeat(2000) };

const stops: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function start(options: DecisionsOptions = {}): Promise<Decisions> {
  const decisions = await startDecisions(options);
  stops.push(() => decisions.stop());
  return decisions;
}

function many(decisions: Decisions, count: number, more: Partial<Decision> = {}): Decision[] {
  return Array.from({ length: count }, (_, at) => decisions.decision(at + 1, `10.0.${at >> 8}.${at & 255}`, more));
}

function outcomes(): { readonly outcome: string; readonly bouncer: string }[] {
  const facts: { outcome: string; bouncer: string }[] = [];
  stops.push(delivered.listen(({ outcome, bouncer }) => facts.push({ outcome, bouncer })));
  return facts;
}

const idsIn = (reply: Reply): number[] => (reply.json() as { new: { id: number }[] }).new.map(({ id }) => id);

describe.each(TRANSPORTS)('over %s', (transport) => {
  it('a bouncer gets everything, what is new, and nothing, on one connection', async () => {
    const decisions = await start({ transport });
    await decisions.load([decisions.decision(1, '192.0.2.1')]);
    const connection = decisions.connect();
    expect(idsIn(await decisions.get(FULL, {}, connection))).toEqual([1]);
    await decisions.patch([decisions.decision(2, '192.0.2.2')]);
    await decisions.receipts();
    expect(idsIn(await decisions.get(STREAM, {}, connection))).toEqual([2]);
    await decisions.receipts();
    expect((await decisions.get(STREAM, {}, connection)).body).toBe(EMPTY);
    expect(decisions.failures).toEqual([]);
  });

  // fails when a reply that was cut moves the cursor
  it('a bouncer that leaves in the middle gets everything again', async () => {
    const decisions = await start({ transport });
    await decisions.load(many(decisions, MANY, LONG));
    const facts = outcomes();
    const connection = decisions.connect();
    const reply = decisions.ask(FULL, { bytesMax: 100_000 }, connection);
    await reply.until('some of the body', () => reply.bytes >= 100_000);
    connection.leave();
    await until('the end of the delivery', () => facts.length === 1);
    await decisions.receipts();
    expect(facts).toEqual([{ outcome: 'client_gone', bouncer: BOUNCER }]);
    expect(idsIn(await decisions.get(STREAM)).length).toBe(MANY);
    await until('a free slot', () => decisions.limiter.held === 0);
  });

  // fails when a cut is ended as if it were whole
  it('a bouncer that reads nothing is cut, and nothing that it got can be taken for all', async () => {
    const decisions = await start({ transport, clock: new FakeClock(), limits: { maxConcurrent: 1 } });
    await decisions.load(many(decisions, MANY, LONG));
    const facts = outcomes();
    const reply = decisions.ask(FULL, { bytesMax: 100_000 });
    await reply.until('some of the body', () => reply.bytes >= 100_000);
    for (let second = 0; second < 60 && facts.length === 0; second++) await decisions.pass(1000);
    expect(facts).toEqual([{ outcome: 'stalled', bouncer: BOUNCER }]);
    expect(decisions.limiter.held).toBe(0);
    expect(reply.over).not.toBe('whole');
    const again = decisions.ask(STREAM);
    await until('the answer after it', () => again.over !== undefined);
    expect(idsIn(again).length).toBe(MANY);
  });
});

describe('a copy', () => {
  it('has its length, and fewer bytes where the bouncer takes gzip', async () => {
    const decisions = await start({ clock: new FakeClock() });
    await decisions.load(many(decisions, 2000));
    const connection = decisions.connect();
    const identity = await decisions.get(FULL, {}, connection);
    expect(Number(identity.headers['content-length'])).toBe(identity.bytes);
    const zipped = await decisions.get(FULL, { 'accept-encoding': 'gzip' }, connection);
    expect(zipped.headers).toMatchObject({ 'content-encoding': 'gzip', 'content-type': 'application/json' });
    expect(zipped.bytes).toBeLessThan(identity.bytes / 3);
    expect(gunzipSync(zipped.buffer).toString()).toBe(identity.body);
    await decisions.patch([], [1]);
    const delta = await decisions.get(STREAM, { 'accept-encoding': 'gzip' }, connection);
    expect([delta.headers['content-encoding'], delta.bytes < 1000]).toEqual([undefined, true]);
  });

  it('of a middling size is compressed as well, where it needs no slot', async () => {
    const decisions = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    await decisions.load([]);
    const connection = decisions.connect();
    await decisions.get(FULL, {}, connection);
    await decisions.receipts();
    await decisions.patch(many(decisions, 900));
    await until('a free slot', () => decisions.limiter.held === 0);
    const answer = decisions.limiter.tryAcquire();
    const zipped = await decisions.get(STREAM, { 'accept-encoding': 'gzip' }, connection);
    expect(answer.admitted).toBe(true);
    expect(zipped.headers['content-encoding']).toBe('gzip');
    expect((JSON.parse(gunzipSync(zipped.buffer).toString()) as { new: unknown[] }).new.length).toBe(900);
    if (answer.admitted) answer.slot.release();
  });

  it('is as it is for HTTP/1.0, whose end would else be that of the connection', async () => {
    const decisions = await start();
    await decisions.load(many(decisions, 2000));
    const reply = await decisions.ask(FULL, { version: '1.0', headers: { 'accept-encoding': 'gzip' } }).whole();
    expect([reply.headers['content-encoding'], reply.headers['transfer-encoding']]).toEqual([undefined, undefined]);
    expect(Number(reply.headers['content-length'])).toBe(reply.bytes);
    expect(idsIn(reply).length).toBe(2000);
  });

  it('is received by a bouncer that closes its connection after it', async () => {
    const decisions = await start();
    await decisions.load(many(decisions, 2000));
    const connection = decisions.connect();
    await decisions.get(FULL, { connection: 'close' }, connection);
    await until('the end of the connection', () => connection.closed);
    await decisions.receipts();
    expect((await decisions.get(STREAM, { connection: 'close' })).body).toBe(EMPTY);
  });

  it('comes to every one of a herd, a few at a time', async () => {
    const decisions = await start({ limits: { maxConcurrent: 2 } });
    await decisions.load(many(decisions, 5000));
    const replies = Array.from({ length: 100 }, (_, at) =>
      decisions.ask(FULL, { headers: at % 2 === 0 ? {} : { 'accept-encoding': 'gzip' } }),
    );
    await Promise.all(replies.map((reply) => reply.whole()));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    const sizes = new Set(
      replies.filter(({ headers }) => headers['content-encoding'] === undefined).map(({ bytes }) => bytes),
    );
    expect(sizes.size).toBe(1);
    await until('the end of all deliveries', () => decisions.limiter.held === 0);
    expect(decisions.views.pinnedBytes).toBe(0);
    expect(decisions.failures).toEqual([]);
  });
});

describe('paths', () => {
  it.each([
    ['GET', '/health', 200, '{"status":"up"}'],
    ['DELETE', '/v1/decisions', 405, ''],
    ['GET', '/v1/usage-metrics', 405, ''],
    ['GET', '/v1/alerts', 404, ''],
    ['GET', '/v1/decisions/', 301, ''],
  ])('answer as those of the local API: %s %s', async (method, path, status, body) => {
    const decisions = await start();
    await decisions.load([]);
    const reply = await decisions.ask(path, { method }).whole();
    expect([reply.status, reply.body]).toEqual([status, body]);
  });
});
