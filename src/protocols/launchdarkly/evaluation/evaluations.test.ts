import { afterEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../../../test/support/conditions.ts';
import {
  beginEvaluationThread,
  dataOf,
  EVALUATION_TEST_CONFIG,
  flagOf,
  gone,
  itemOf,
  put,
  segmentOf,
} from '../../../../test/support/evaluation-kit.ts';
import { systemClock } from '../../../kernel/index.ts';
import { Evaluations } from './evaluations.ts';
import type {
  Evaluated,
  EvaluationRequest,
  EvaluationsOptions,
  EvaluationThread,
  FromThread,
  ToThread,
} from './types.ts';

vi.setConfig(EVALUATION_TEST_CONFIG);

const open: Evaluations[] = [];
afterEach(() => Promise.all(open.splice(0).map((evaluations) => evaluations.close())));

interface Setting {
  readonly evaluations: Evaluations;
  readonly failures: string[];
  readonly begun: () => number;
  readonly ask: (key: string, request?: Partial<EvaluationRequest>) => Promise<Evaluated>;
}

function setUp(options: Partial<EvaluationsOptions> = {}): Setting {
  const failures: string[] = [];
  let begun = 0;
  const evaluations = new Evaluations({
    clock: systemClock,
    threads: 1,
    cacheBytesMax: 1e6,
    onFailure: (error) => failures.push(String(error)),
    beginThread: () => {
      begun++;
      return beginEvaluationThread();
    },
    ...options,
  });
  open.push(evaluations);
  const ask: Setting['ask'] = (key, request = {}) => {
    const context = JSON.stringify({ key, kind: 'user' });
    return evaluations.evaluate({ environmentId: 'a', context, audience: 'server', withReasons: false, ...request });
  };
  return { evaluations, failures, begun: () => begun, ask };
}

const fieldsOf = ({ flags }: Evaluated): Record<string, string> =>
  Object.fromEntries(flags.map(({ key, fields }) => [key, fields]));
const ON = '"value":"on","variation":1';
const OFF = '"value":"off","variation":0';

/** A thread whose answers are kept back until it is opened. */
class Gate implements EvaluationThread {
  readonly kept: FromThread[] = [];
  readonly #thread = beginEvaluationThread();
  #listener: (message: FromThread) => void = () => {};
  #opened = false;

  post(message: ToThread): void {
    this.#thread.post(message);
  }

  onMessage(listener: (message: FromThread) => void): void {
    this.#listener = listener;
    this.#thread.onMessage((message) => {
      if (this.#opened || message.type === 'ready') listener(message);
      else this.kept.push(message);
    });
  }

  onEnd(listener: (cause: string) => void): void {
    this.#thread.onEnd(listener);
  }

  hold(busy: boolean): void {
    this.#thread.hold(busy);
  }

  end(): Promise<void> {
    return this.#thread.end();
  }

  open(): void {
    this.#opened = true;
    for (const message of this.kept.splice(0)) this.#listener(message);
  }
}

const rule = (segment: string): object => ({ clauses: [{ attribute: '', op: 'segmentMatch', values: [segment] }] });

describe('threads', () => {
  it('are begun by the first request, and not by data or contexts', async () => {
    const { evaluations, begun, ask } = setUp({ threads: 2 });
    const data = await dataOf([flagOf('f')]);
    evaluations.attach('a', data);
    await data.apply([put('flags', flagOf('f', { version: 2 }))]);
    evaluations.parseContext('{"key":"me"}');
    expect(begun()).toBe(0);
    expect(fieldsOf(await ask('me'))).toEqual({ f: ON });
    expect(begun()).toBe(2);
  });

  it('are not needed where there is no compiled file for them', async () => {
    const evaluations = new Evaluations({ clock: systemClock, threads: 1, cacheBytesMax: 1e6, onFailure: () => {} });
    open.push(evaluations);
    const data = await dataOf([flagOf('f')]);
    evaluations.attach('a', data);
    const request = { environmentId: 'a', context: '{"key":"me","kind":"user"}', audience: 'server' } as const;
    expect(fieldsOf(await evaluations.evaluate({ ...request, withReasons: false }))).toEqual({ f: ON });
    await data.apply([put('flags', flagOf('f', { version: 2, on: false }))]);
    const later = await evaluations.evaluate({ ...request, withReasons: true });
    expect(fieldsOf(later)).toEqual({ f: `${OFF},"reason":{"kind":"OFF"}` });
  });

  it('say which state their answers are of', async () => {
    const { evaluations, ask } = setUp();
    const data = await dataOf([flagOf('f')]);
    evaluations.attach('a', data);
    for (let version = 2; version < 6; version++) {
      await data.apply([put('flags', flagOf('f', { version, on: version % 2 === 0 }))]);
      const { flags, digest, clock, offset } = await ask('me');
      expect({ digest, clock, offset }).toMatchObject({
        digest: data.snapshot().digest,
        clock: data.snapshot().clock,
        offset: data.snapshot().offset,
      });
      expect(flags).toEqual([
        {
          key: 'f',
          version,
          fields: version % 2 === 0 ? ON : OFF,
          versionAt: ON.length - (version % 2 === 0 ? 0 : -1),
          extra: '',
        },
      ]);
    }
  });

  it('take a flag away, and everything when the log is broken', async () => {
    const { evaluations, ask } = setUp();
    const data = await dataOf([flagOf('f', { version: 5 }), flagOf('g', { version: 5 })]);
    evaluations.attach('a', data);
    expect(Object.keys(fieldsOf(await ask('me')))).toEqual(['f', 'g']);
    await data.apply([gone('flags', 'g', 6), put('flags', flagOf('b'))]);
    expect(Object.keys(fieldsOf(await ask('me')))).toEqual(['b', 'f']);
    const outcome = await data.replace([itemOf('flags', flagOf('f', { version: 1, on: false }))]);
    expect(outcome.result).toBe('reset');
    expect(fieldsOf(await ask('me'))).toEqual({ f: OFF });
  });

  it('evaluate at the state of when it is their turn, and not of when it was asked', async () => {
    const { evaluations, ask } = setUp();
    const data = await dataOf([flagOf('f')]);
    evaluations.attach('a', data);
    // the first one starts the thread: the others wait in the queue while the flag changes
    const asked = ['a', 'b', 'c'].map((key) => ask(key));
    await data.apply([put('flags', flagOf('f', { version: 2, on: false }))]);
    const { digest } = data.snapshot();
    for (const answer of await Promise.all(asked)) {
      expect(answer.digest).toBe(digest);
      expect(fieldsOf(answer)).toEqual({ f: OFF });
    }
  });

  it('know data that are attached under a name from those that were', async () => {
    const { evaluations, ask } = setUp();
    evaluations.attach('a', await dataOf([flagOf('f')]));
    expect(fieldsOf(await ask('me'))).toEqual({ f: ON });
    evaluations.detach('a');
    await expect(ask('me')).rejects.toThrow('Cannot evaluate flags: no such environment is held, got a');
    evaluations.attach('a', await dataOf([flagOf('f', { on: false })]));
    expect(fieldsOf(await ask('me'))).toEqual({ f: OFF });
  });

  it('tell once of an item that cannot be read, which counts as absent', async () => {
    const { evaluations, failures, ask } = setUp({ threads: 2 });
    const data = await dataOf([flagOf('f')]);
    await data.apply([
      { kind: 'flags', key: 'x', version: 1, item: { kind: 'flags', key: 'x', version: 1, text: '[1' } },
    ]);
    evaluations.attach('a', data);
    await Promise.all(['a', 'b', 'c', 'd'].map((key) => ask(key)));
    expect(fieldsOf(await ask('me'))).toEqual({ f: ON });
    expect(failures).toEqual([expect.stringContaining('Cannot evaluate "x" of flags in a')]);
    expect(evaluations.stats().itemFailures).toBe(1);
  });

  it('refuse what is no context, and go on', async () => {
    const { evaluations, ask } = setUp();
    evaluations.attach('a', await dataOf([flagOf('f')]));
    await expect(ask('me', { context: '{"kind":"kind","key":"a"}' })).rejects.toThrow('Cannot evaluate flags: ');
    expect(fieldsOf(await ask('me'))).toEqual({ f: ON });
    expect(evaluations.stats().threadFailures).toBe(0);
  });
});

describe('keys', () => {
  const hidden = { clientSideAvailability: { usingEnvironmentId: false, usingMobileKey: false } };

  it('narrow the answer down, and what is not seen is absent', async () => {
    const { evaluations, ask } = setUp();
    evaluations.attach('a', await dataOf([flagOf('f'), flagOf('g'), flagOf('h', hidden)]));
    const request = { audience: 'mobile', keys: ['h', 'f', 'nothing', 'f'] } as const;
    const { flags, absent } = await ask('me', request);
    expect(flags.map(({ key }) => key)).toEqual(['f']);
    expect(absent).toEqual(['h', 'nothing']);
    // with all flags known, a thread is not asked for some of them
    await ask('me', { audience: 'mobile' });
    const { evaluations: before } = evaluations.stats();
    const some = await ask('me', { audience: 'mobile', keys: ['g', 'h'] });
    expect(some.flags.map(({ key }) => key)).toEqual(['g']);
    expect(some.absent).toEqual(['h']);
    expect(evaluations.stats().evaluations).toBe(before);
  });
});

describe('results', () => {
  it('are shared by those who ask for the same, and kept', async () => {
    const { evaluations, ask } = setUp();
    evaluations.attach('a', await dataOf([flagOf('f')]));
    await Promise.all([ask('me'), ask('me'), ask('me'), ask('you')]);
    expect(evaluations.stats().evaluations).toBe(2);
    await ask('me');
    expect(evaluations.stats()).toMatchObject({ evaluations: 2, cacheHits: 1, cacheEntries: 2 });
  });

  it('are not shared where anything differs that decides them', async () => {
    const { evaluations, ask } = setUp();
    const hidden = flagOf('h', { clientSide: false, trackEvents: true });
    const yours = { variations: ['off', 'on', 'yours'], targets: [{ variation: 2, values: ['another'] }] };
    const data = await dataOf([flagOf('f', { clientSide: true, ...yours }), hidden]);
    evaluations.attach('a', data);
    evaluations.attach('b', await dataOf([flagOf('f', { on: false })]));
    const asked: Partial<EvaluationRequest>[] = [
      {},
      { audience: 'client' },
      { audience: 'mobile', withReasons: true },
      { audience: 'client', withReasons: true },
      { context: '{"key":"another","kind":"user"}' },
      { environmentId: 'b' },
      { keys: ['f'] },
    ];
    const told = async (): Promise<readonly unknown[]> =>
      Promise.all(asked.map(async (request) => fieldsOf(await ask('me', request))));
    const reason = ',"reason":{"kind":"FALLTHROUGH"}';
    const tracked = `${ON},"trackEvents":true`;
    const all = [
      { f: ON, h: tracked },
      { f: ON },
      { f: ON + reason, h: tracked + reason },
      { f: ON + reason },
      { f: `"value":"yours","variation":2`, h: tracked },
      { f: OFF },
      { f: ON },
    ];
    expect(await told()).toEqual(all);
    expect(await told()).toEqual(all);
    expect(evaluations.stats().cacheHits).toBe(asked.length);
    await data.apply([put('flags', flagOf('f', { version: 2, on: false, clientSide: true }))]);
    expect((await told())[1]).toEqual({ f: OFF });
  });

  it('that are on their way are not shared with those who come when the data have changed', async () => {
    const gate = new Gate();
    const { evaluations, ask } = setUp({ beginThread: () => gate });
    const data = await dataOf([flagOf('f')]);
    evaluations.attach('a', data);
    const early = ask('me');
    await until('an answer on its way', () => gate.kept.length === 1);
    await data.apply([put('flags', flagOf('f', { version: 2, on: false }))]);
    const late = ask('me');
    gate.open();
    expect(fieldsOf(await early)).toEqual({ f: ON });
    expect(fieldsOf(await late)).toEqual({ f: OFF });
    // and what came late is kept for the state that it belongs to
    expect(fieldsOf(await ask('me'))).toEqual({ f: OFF });
    expect(evaluations.stats()).toMatchObject({ evaluations: 2, cacheHits: 1 });
  });

  it('are given up when nobody waits for them', async () => {
    const { evaluations, ask } = setUp();
    evaluations.attach('a', await dataOf([flagOf('f')]));
    const leaving = new AbortController();
    const asked = [ask('me'), ask('gone', { signal: leaving.signal }), ask('you')];
    leaving.abort(new Error('the client left'));
    await expect(asked[1]).rejects.toThrow('the client left');
    await Promise.all([asked[0], asked[2]]);
    expect(evaluations.stats()).toMatchObject({ evaluations: 2, queued: 0 });
  });
});

describe('what changes may affect', () => {
  it('is everything that leads to it', async () => {
    const { evaluations } = setUp();
    const flags = [
      flagOf('base'),
      flagOf('above', { prerequisites: [{ key: 'base', variation: 1 }] }),
      flagOf('top', { prerequisites: [{ key: 'above', variation: 1 }] }),
      flagOf('uses', { rules: [{ id: 'r', variation: 1, ...rule('outer') }] }),
      flagOf('uses-too', { prerequisites: [{ key: 'uses', variation: 1 }] }),
      flagOf('alone'),
    ];
    const segments = [segmentOf('inner'), segmentOf('outer', { rules: [rule('inner')] })];
    const data = await dataOf(flags, segments);
    evaluations.attach('a', data);
    const affected = (kind: 'flags' | 'segments', key: string): Promise<readonly string[]> =>
      evaluations.affected('a', [gone(kind, key, 9)]);
    expect(await affected('flags', 'alone')).toEqual(['alone']);
    expect(await affected('flags', 'base')).toEqual(['above', 'base', 'top']);
    expect(await affected('segments', 'inner')).toEqual(['uses', 'uses-too']);
    expect(await affected('flags', 'new')).toEqual(['new']);
    // a dependency that just came counts
    await data.apply([put('segments', segmentOf('inner', { version: 2, rules: [rule('deepest')] }))]);
    expect(await affected('segments', 'deepest')).toEqual(['uses', 'uses-too']);
  });

  it('ends, also where flags and segments lead to themselves', async () => {
    const { evaluations } = setUp();
    const flags = [
      flagOf('a', { prerequisites: [{ key: 'b', variation: 1 }] }),
      flagOf('b', { prerequisites: [{ key: 'a', variation: 1 }], rules: [{ id: 'r', variation: 1, ...rule('s') }] }),
    ];
    evaluations.attach('a', await dataOf(flags, [segmentOf('s', { rules: [rule('s')] })]));
    expect(await evaluations.affected('a', [gone('segments', 's', 2)])).toEqual(['a', 'b']);
  });
});

describe('options', () => {
  it('are checked', () => {
    expect(() => setUp({ threads: 0 })).toThrow('Cannot evaluate flags: threads must be at least 1, got 0');
    expect(() => setUp({ cacheBytesMax: -1 })).toThrow('cacheBytesMax must be at least 0, got -1');
  });
});
