import { describe, expect, it } from 'vitest';
import { until } from '../../../../test/support/conditions.ts';
import { dataOf, flagOf, put } from '../../../../test/support/evaluation-kit.ts';
import type { DataSet } from '../../../dataset/index.ts';
import { FakeClock } from '../../../kernel/index.ts';
import { Pool, type Question } from './pool.ts';
import type { Answer, EvaluationThread, FromThread, ToThread } from './types.ts';

type Asked = Extract<ToThread, { readonly number: number }>;

/** A thread that does what a test says. */
class FakeThread implements EvaluationThread {
  readonly posted: ToThread[] = [];
  ended = false;
  held = false;
  #tell: (message: FromThread) => void = () => {};
  #die: (cause: string) => void = () => {};

  post(message: ToThread): void {
    this.posted.push(message);
  }

  onMessage(listener: (message: FromThread) => void): void {
    this.#tell = listener;
  }

  onEnd(listener: (cause: string) => void): void {
    this.#die = listener;
  }

  hold(busy: boolean): void {
    this.held = busy;
  }

  async end(): Promise<void> {
    this.ended = true;
  }

  ready(): void {
    this.#tell({ type: 'ready' });
  }

  die(cause = 'it ended with 1'): void {
    this.#die(cause);
  }

  get questions(): Asked[] {
    return this.posted.filter((message) => message.type === 'evaluate' || message.type === 'affected') as Asked[];
  }

  unreadable(): void {
    this.#tell({ type: 'unreadable', environmentId: 'a', kind: 'flags', key: 'f', cause: 'it' });
  }

  /** The environments of what it was asked, in order. */
  get order(): string {
    return this.questions.map(({ environmentId }) => environmentId).join('');
  }

  answer(keys: readonly string[] = []): void {
    this.#tell({ type: 'affected', number: this.questions.at(-1)!.number, keys });
  }
}

interface Setting {
  readonly pool: Pool;
  readonly clock: FakeClock;
  readonly threads: FakeThread[];
  readonly failures: string[];
}

function setUp(threads = 1): Setting {
  const clock = new FakeClock();
  const begun: FakeThread[] = [];
  const failures: string[] = [];
  const pool = new Pool({
    clock,
    threads,
    onFailure: (error) => failures.push(String(error)),
    beginThread: () => {
      const thread = new FakeThread();
      begun.push(thread);
      return thread;
    },
  });
  return { pool, clock, threads: begun, failures };
}

const question = (environmentId: string): Question => ({ type: 'affected', environmentId, changed: [] });

async function attached(pool: Pool, ...environmentIds: readonly string[]): Promise<DataSet[]> {
  const data = await Promise.all(environmentIds.map(() => dataOf([flagOf('f')])));
  for (const [at, environmentId] of environmentIds.entries()) pool.attach(environmentId, data[at]!);
  return data;
}

const asked = (thread: FakeThread | undefined, count: number): Promise<void> =>
  until(`${count} questions`, () => thread?.questions.length === count);

describe('the queue', () => {
  it('goes by turns between environments', async () => {
    const { pool, threads } = setUp();
    await attached(pool, 'a', 'b', 'c');
    const answers = ['a', 'a', 'a', 'b', 'b', 'c'].map((environmentId) => pool.ask(question(environmentId)));
    threads[0]!.ready();
    for (let count = 1; count <= 6; count++) {
      await asked(threads[0], count);
      threads[0]!.answer();
    }
    await Promise.all(answers);
    expect(threads[0]!.order).toBe('abcaba');
  });

  it('is worked on by every thread, each on one question at a time', async () => {
    const { pool, threads } = setUp(2);
    await attached(pool, 'a');
    const answers = [1, 2, 3].map(() => pool.ask(question('a')));
    for (const thread of threads) thread.ready();
    await Promise.all(threads.map((thread) => asked(thread, 1)));
    expect(pool.stats).toMatchObject({ threads: 2, running: 2, queued: 1 });
    expect(threads.map(({ held }) => held)).toEqual([true, true]);
    threads[1]!.answer();
    await asked(threads[1], 2);
    threads[0]!.answer();
    threads[1]!.answer();
    await Promise.all(answers);
    await until('nobody held', () => threads.every(({ held }) => !held));
    expect(pool.stats).toMatchObject({ running: 0, queued: 0 });
  });

  it('loses those who leave', async () => {
    const { pool } = setUp();
    await attached(pool, 'a');
    const leaving = new AbortController();
    const answer = pool.ask(question('a'), leaving.signal);
    leaving.abort(new Error('gone'));
    await expect(answer).rejects.toThrow('gone');
    expect(pool.stats.queued).toBe(0);
    await expect(pool.ask(question('a'), leaving.signal)).rejects.toThrow('gone');
  });
});

describe('data', () => {
  it('is given to a thread as a whole once, then by changes, then when it has nothing else to do', async () => {
    const { pool, threads } = setUp();
    const [data] = await attached(pool, 'a');
    data!.subscribe(() => pool.changed('a'));
    const answer = pool.ask(question('a'));
    threads[0]!.ready();
    await asked(threads[0], 1);
    // while it is busy it is left alone
    await data!.apply([put('flags', flagOf('g'))]);
    threads[0]!.answer();
    await answer;
    await until('the change', () => threads[0]!.posted.length === 7);
    const { digest, clock, offset } = data!.snapshot();
    expect(threads[0]!.posted.slice(4)).toEqual([
      { type: 'begin', environmentId: 'a', whole: false },
      {
        type: 'items',
        environmentId: 'a',
        kind: 'flags',
        keys: ['g'],
        versions: [1],
        texts: [JSON.stringify(flagOf('g'))],
      },
      { type: 'commit', environmentId: 'a', state: { digest, clock, offset } },
    ]);
    expect(threads[0]!.posted[0]).toEqual({ type: 'begin', environmentId: 'a', whole: true });
  });

  it('of an environment that goes is dropped, and who waits for it is told', async () => {
    const { pool, threads } = setUp();
    await attached(pool, 'a', 'b');
    const answers = [pool.ask(question('a')), pool.ask(question('a'))];
    threads[0]!.ready();
    await asked(threads[0], 1);
    pool.detach('a');
    await expect(answers[1]).rejects.toThrow('no such environment is held, got a');
    threads[0]!.answer(['f']);
    await answers[0];
    await until('the drop', () => threads[0]!.posted.at(-1)?.type === 'drop');
  });

  it('of an environment that goes while a thread is given it is dropped as well', async () => {
    const { pool, threads } = setUp();
    pool.attach('a', await dataOf(manyFlags()));
    const answer = pool.ask(question('a'));
    threads[0]!.ready();
    await until('the first items', () => threads[0]!.posted.length > 1);
    expect(threads[0]!.posted.at(-1)?.type).toBe('items');
    pool.detach('a');
    await expect(answer).rejects.toThrow('no such environment is held, got a');
    await until('the drop', () => threads[0]!.posted.at(-1)?.type === 'drop');
  });
});

/** So many that they are given in several turns of the loop. */
function manyFlags(): ReturnType<typeof flagOf>[] {
  return Array.from({ length: 4000 }, (_, at) => flagOf(`f${at}`, { tags: ['x'.repeat(2000)] }));
}

describe('a thread that dies', () => {
  it('is replaced, fed again, and its question asked once more', async () => {
    const { pool, threads, failures } = setUp();
    await attached(pool, 'a');
    const first = pool.ask(question('a'));
    threads[0]!.ready();
    await asked(threads[0], 1);
    threads[0]!.answer();
    await first;
    const second = pool.ask(question('a'));
    await asked(threads[0], 2);
    threads[0]!.die('out of memory');
    // it had worked, so that nothing is waited for
    expect(threads).toHaveLength(2);
    threads[1]!.ready();
    await asked(threads[1], 1);
    expect(threads[1]!.posted[0]).toEqual({ type: 'begin', environmentId: 'a', whole: true });
    threads[1]!.answer(['f']);
    expect(await second).toMatchObject({ keys: ['f'] } satisfies Partial<Answer>);
    expect(failures).toEqual([expect.stringContaining('a thread ended: out of memory')]);
    expect(pool.stats.threadFailures).toBe(1);
  });

  it('twice over the same question ends the question', async () => {
    const { pool, threads, clock } = setUp();
    await attached(pool, 'a');
    const answer = pool.ask(question('a'));
    // heard before it comes, since nobody else does
    answer.catch(() => {});
    threads[0]!.ready();
    await asked(threads[0], 1);
    threads[0]!.die();
    clock.advance(1000);
    threads[1]!.ready();
    await asked(threads[1], 1);
    threads[1]!.die('killed by it');
    await expect(answer).rejects.toThrow('its thread ended twice: killed by it');
    expect(pool.stats.queued).toBe(0);
  });

  it('at its start is begun again after a while that grows, and nobody waits for that', async () => {
    const { pool, threads, clock } = setUp();
    await attached(pool, 'a');
    const waiting = pool.ask(question('a'));
    threads[0]!.die('no such module');
    await expect(waiting).rejects.toThrow('no thread can be started, got no such module');
    await expect(pool.ask(question('a'))).rejects.toThrow('no thread can be started, got no such module');
    clock.advance(999);
    expect(threads).toHaveLength(1);
    clock.advance(1);
    expect(threads).toHaveLength(2);
    threads[1]!.die();
    clock.advance(1999);
    expect(threads).toHaveLength(2);
    clock.advance(1);
    threads[2]!.ready();
    const answer = pool.ask(question('a'));
    await asked(threads[2], 1);
    threads[2]!.answer();
    await answer;
    // after it has worked the while is short again
    threads[2]!.die();
    threads[3]!.die();
    clock.advance(1000);
    expect(threads).toHaveLength(5);
  });

  it('is what becomes of one that gives no answer', async () => {
    const { pool, threads, clock } = setUp();
    await attached(pool, 'a');
    const answer = pool.ask(question('a'));
    threads[0]!.ready();
    await asked(threads[0], 1);
    clock.advance(30_000);
    expect(threads[0]!.ended).toBe(true);
    // what it says now is heard by nobody
    threads[0]!.answer(['late']);
    threads[0]!.unreadable();
    expect(pool.stats.itemFailures).toBe(0);
    clock.advance(1000);
    threads[1]!.ready();
    await asked(threads[1], 1);
    threads[1]!.answer(['f']);
    expect(await answer).toMatchObject({ keys: ['f'] });
  });

  it('is not given another one when it found no end of a context', async () => {
    const { pool, threads, clock } = setUp();
    await attached(pool, 'a');
    const evaluation = { context: '{}', audience: 'client', withReasons: false } as const;
    const endless = { type: 'evaluate', environmentId: 'a', keys: undefined, memberships: undefined } as const;
    const answers = [pool.ask({ ...endless, ...evaluation }), pool.ask(question('a'))];
    threads[0]!.ready();
    await asked(threads[0], 1);
    clock.advance(30_000);
    await expect(answers[0]).rejects.toThrow('its thread ended: it gave no answer for 30000 ms');
    clock.advance(1000);
    threads[1]!.ready();
    await asked(threads[1], 1);
    expect(threads[1]!.questions[0]?.type).toBe('affected');
    threads[1]!.answer(['f']);
    expect(await answers[1]).toMatchObject({ keys: ['f'] });
  });
});

describe('closing', () => {
  it('tells everybody, ends the threads, and begins no more', async () => {
    const { pool, threads, clock } = setUp();
    await attached(pool, 'a');
    const answers = [pool.ask(question('a')), pool.ask(question('a'))];
    threads[0]!.ready();
    await asked(threads[0], 1);
    const told = answers.map((answer) => expect(answer).rejects.toThrow('the evaluator is closed'));
    await pool.close();
    await Promise.all(told);
    expect(threads[0]!.ended).toBe(true);
    await expect(pool.ask(question('a'))).rejects.toThrow('the evaluator is closed');
    clock.advance(60_000);
    expect(threads).toHaveLength(1);
  });
});
