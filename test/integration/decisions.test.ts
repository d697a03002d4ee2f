import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Decision, parseDuration } from '../../src/dataset/decisions/index.ts';
import { type Decisions, sha512, startDecisions } from '../support/decisions.ts';
import { ROOT } from '../support/files.ts';

/** One exchange with a real local API 1.7.8 (pkg/apiserver at a88b497b), recorded with curl. */
interface Trace {
  readonly name: string;
  readonly request: {
    readonly method: string;
    readonly target: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: string;
  };
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  };
}

const TRACES = JSON.parse(readFileSync(`${ROOT}test/fixtures/crowdsec/traces.json`, 'utf8')) as readonly Trace[];

/** Where HTTP says the same in another way: our answers have a length, theirs were chunked; a clock is a clock. */
const OF_THE_TRANSPORT = new Set(['connection', 'content-length', 'date', 'keep-alive', 'transfer-encoding']);

/** What we say otherwise, on purpose. */
const OTHERWISE: Readonly<Record<string, string>> = {
  '42-decisions-post': 'DELETE is not ours to answer',
  '51-stream-delta-again-2s-overlap': 'what was received is not repeated',
  '52-stream-delta-after-overlap': 'what was received is not repeated',
};

const DURATION = /"duration":"([^"]*)"\s*/g;

const durationsIn = (body: string): number[] =>
  [...body.matchAll(DURATION)].map(([, text = '']) => parseDuration(text) ?? Number.NaN);

function traced(name: string): Trace {
  const trace = TRACES.find((one) => one.name === name);
  if (trace === undefined) throw new Error(`Cannot find a trace: got ${name}`);
  return trace;
}

const atMs = ({ response }: Trace): number => Date.parse(response.headers['date'] ?? '');

/** The decisions that were in its database, read from what it answered. */
function decisionsIn(trace: Trace): readonly Decision[] {
  const { new: fresh } = JSON.parse(trace.response.body) as {
    new: (Omit<Decision, 'untilMs'> & { duration: string })[];
  };
  return fresh.map(({ duration, ...decision }) => ({
    ...decision,
    simulated: false,
    // half a second less than it says at most, since it rounds; the second is that of its clock
    untilMs: atMs(trace) + (parseDuration(duration) ?? Number.NaN),
  }));
}

let decisions: Decisions;
beforeAll(async () => {
  decisions = await startDecisions({ front: { keys: [{ name: 'b1', sha512: sha512('key-b1-0123456789abcdef') }] } });
});
afterAll(() => decisions.stop());

interface Said {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** An answer without what depends on the moment or on the transport. */
function timeless({ status, headers, body }: Said): Said {
  const kept = Object.entries(headers).filter(([name]) => !OF_THE_TRANSPORT.has(name));
  return { status, headers: Object.fromEntries(kept), body: body.replace(DURATION, '"duration":""') };
}

/** Asks again what was asked then, at the same time of day. */
async function replay(trace: Trace): Promise<Said> {
  const { request } = trace;
  decisions.wall.now = () => atMs(trace);
  const isZipped = request.headers['content-encoding'] === 'gzip';
  const body = request.body === undefined || !isZipped ? request.body : gzipSync(request.body);
  const connection = decisions.connect();
  const reply = connection.ask({
    method: request.method,
    path: request.target,
    headers: request.headers,
    ...(body === undefined ? {} : { body }),
  });
  await reply.whole();
  // as curl did after each
  connection.leave();
  await decisions.receipts();
  return reply;
}

/** By how much durations are off at most, in milliseconds. */
function driftMs(ours: Said, theirs: Said): number {
  const expected = durationsIn(theirs.body);
  return Math.max(
    0,
    ...durationsIn(ours.body).map((duration, at) => Math.abs(duration - (expected[at] ?? Number.NaN))),
  );
}

const named = (pattern: RegExp): [string, Trace][] =>
  TRACES.filter(({ name }) => pattern.test(name) && !Object.hasOwn(OTHERWISE, name)).map((trace) => [
    trace.name,
    trace,
  ]);

describe('answers as the local API answers', () => {
  describe('with nothing in it', () => {
    beforeAll(() => decisions.load([]));
    it.each(named(/^0/))('%s', async (_, trace) => {
      const reply = await replay(trace);
      expect(timeless(reply)).toEqual(timeless(trace.response));
      expect(driftMs(reply, trace.response)).toBeLessThanOrEqual(1000);
    });
  });

  describe('with ten decisions', () => {
    beforeAll(async () => {
      const all = new Map<number, Decision>();
      for (const name of ['12-stream-startup-dedup-false', '13-stream-startup-scopes-all']) {
        for (const decision of decisionsIn(traced(name))) all.set(decision.id, decision);
      }
      if (all.size !== 10) throw new Error(`Cannot fill the ledger: expected 10 decisions, got ${all.size}`);
      decisions.wall.now = () => atMs(traced('12-stream-startup-dedup-false'));
      await decisions.load(all.values());
    });
    it.each(named(/^[1234]/))('%s', async (_, trace) => {
      const reply = await replay(trace);
      expect(timeless(reply)).toEqual(timeless(trace.response));
      expect(driftMs(reply, trace.response)).toBeLessThanOrEqual(1000);
    });
  });

  describe('after one has come and one has gone', () => {
    beforeAll(async () => {
      const trace = traced('50-stream-delta-new-and-deleted');
      decisions.wall.now = () => atMs(trace);
      await decisions.patch(decisionsIn(trace), [2]);
    });
    it.each(named(/^[568]/))('%s', async (_, trace) => {
      const reply = await replay(trace);
      expect(timeless(reply)).toEqual(timeless(trace.response));
      expect(driftMs(reply, trace.response)).toBeLessThanOrEqual(1000);
    });
  });
});

describe('answers otherwise on purpose', () => {
  it('knows GET and HEAD of decisions', async () => {
    const reply = await decisions.ask('/v1/decisions', { method: 'POST', body: '{}' }).whole();
    expect([reply.status, reply.headers['allow'], reply.body]).toEqual([405, 'GET, HEAD', '']);
  });

  it('does not repeat what was received', async () => {
    const reply = await decisions.get('/v1/decisions/stream', { 'x-api-key': 'key-b1-0123456789abcdef' });
    expect(reply.body).toBe('{"new": [], "deleted": []}');
  });
});
