import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SingleFlight } from './index.ts';

interface Run {
  readonly signal: AbortSignal;
  readonly resolve: (value: string) => void;
  readonly reject: (error: Error) => void;
}

/** A start that is ended by hand; every run is listed. */
function byHand(): { runs: Run[]; start: (signal: AbortSignal) => Promise<string> } {
  const runs: Run[] = [];
  const start = (signal: AbortSignal): Promise<string> =>
    new Promise((resolve, reject) => runs.push({ signal, resolve, reject }));
  return { runs, start };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await Promise.resolve();
}

describe('a flight', () => {
  it('is one run for all who ask for the same key meanwhile, and begins at once', async () => {
    // fails when the flight is not listed
    const flights = new SingleFlight<string>();
    const { runs, start } = byHand();
    const both = [flights.run('k', start), flights.run('k', start)];
    expect([runs.length, flights.size]).toEqual([1, 1]);
    runs[0]?.resolve('pages');
    expect(await Promise.all(both)).toEqual(['pages', 'pages']);
    expect(flights.size).toBe(0);
  });

  it('is not shared under another key', async () => {
    // fails when the key is not looked at: one caller then gets another view’s data
    const flights = new SingleFlight<string>();
    const answers = [flights.run('a', async () => 'for a'), flights.run('b', async () => 'for b')];
    expect(await Promise.all(answers)).toEqual(['for a', 'for b']);
  });

  it('is not used again once it has settled', async () => {
    // fails when a settled flight is not forgotten
    const flights = new SingleFlight<number>();
    let runs = 0;
    expect(await flights.run('k', async () => ++runs)).toBe(1);
    expect(await flights.run('k', async () => ++runs)).toBe(2);
  });

  it('that fails, fails for all, and is not kept', async () => {
    // fails when only a resolved flight is forgotten
    const flights = new SingleFlight<string>();
    const { runs, start } = byHand();
    const both = [flights.run('k', start), flights.run('k', start)];
    runs[0]?.reject(new Error('no data'));
    for (const answer of both) await expect(answer).rejects.toThrow('no data');
    expect(await flights.run('k', async () => 'data')).toBe('data');
  });

  it('that cannot even begin is one that failed', async () => {
    // fails when start is called outside the async function: run throws, and nobody expects that
    const flights = new SingleFlight<string>();
    const answer = flights.run('k', () => {
      throw new Error('no start');
    });
    await expect(answer).rejects.toThrow('no start');
    expect(flights.size).toBe(0);
  });
});

describe('a caller that aborts', () => {
  it('is told its own reason, and disturbs nobody', async () => {
    // fails when leave aborts the run without looking whether others wait
    const flights = new SingleFlight<string>();
    const { runs, start } = byHand();
    const controller = new AbortController();
    const gone = flights.run('k', start, controller.signal);
    const stays = flights.run('k', start, new AbortController().signal);
    controller.abort(new Error('client gone'));
    await expect(gone).rejects.toThrow('client gone');
    expect(runs[0]?.signal.aborted).toBe(false);
    runs[0]?.resolve('pages');
    expect(await stays).toBe('pages');
  });

  it('ends the run when it was the last', async () => {
    // fails when callers are not counted down
    const flights = new SingleFlight<string>();
    const { runs, start } = byHand();
    const controllers = [new AbortController(), new AbortController()];
    const answers = controllers.map((controller) => flights.run('k', start, controller.signal));
    controllers[0]?.abort(new Error('first'));
    expect(runs[0]?.signal.aborted).toBe(false);
    controllers[1]?.abort(new Error('second'));
    expect(runs[0]?.signal.reason).toEqual(new Error('second'));
    await expect(answers[0]).rejects.toThrow('first');
    await expect(answers[1]).rejects.toThrow('second');
    runs[0]?.reject(new Error('nobody hears this'));
    await settled();
  });

  it('leaves the key to the next one at once, and its run does not take that one down', async () => {
    // fails when an abandoned flight stays listed, or when it forgets whatever flight the key has by then
    const flights = new SingleFlight<string>();
    const { runs, start } = byHand();
    const controller = new AbortController();
    const gone = flights.run('k', start, controller.signal);
    controller.abort(new Error('gone'));
    await expect(gone).rejects.toThrow('gone');
    const next = flights.run('k', start);
    expect(runs.length).toBe(2);
    runs[0]?.reject(new Error('stopped'));
    await settled();
    const joins = flights.run('k', start);
    expect(runs.length).toBe(2);
    runs[1]?.resolve('pages');
    expect(await Promise.all([next, joins])).toEqual(['pages', 'pages']);
  });

  it('before it asks, starts nothing', async () => {
    // fails when the signal is not looked at first
    const flights = new SingleFlight<string>();
    const { runs, start } = byHand();
    await expect(flights.run('k', start, AbortSignal.abort(new Error('late')))).rejects.toThrow('late');
    expect([runs.length, flights.size]).toEqual([0, 0]);
  });

  it('while its run begins, is heard', async () => {
    // fails when the signal is not looked at again after start: its event has gone by, and the run never ends
    const flights = new SingleFlight<string>();
    const controller = new AbortController();
    let signal: AbortSignal | undefined;
    const answer = flights.run(
      'k',
      (own) => {
        signal = own;
        controller.abort(new Error('meanwhile'));
        return new Promise(() => undefined);
      },
      controller.signal,
    );
    await expect(answer).rejects.toThrow('meanwhile');
    expect([signal?.aborted, flights.size]).toEqual([true, 0]);
  });

  it('after the run has ended, changes nothing', async () => {
    const flights = new SingleFlight<string>();
    const controller = new AbortController();
    expect(await flights.run('k', async () => 'pages', controller.signal)).toBe('pages');
    const { runs, start } = byHand();
    const next = flights.run('k', start);
    controller.abort();
    expect(runs[0]?.signal.aborted).toBe(false);
    runs[0]?.resolve('new');
    expect(await next).toBe('new');
  });

  it('leaves no listener on its signal, however the run ended', async () => {
    // fails when the listener is not removed when the flight lands
    const flights = new SingleFlight<string>();
    const controller = new AbortController();
    await flights.run('k', async () => 'pages', controller.signal);
    await expect(flights.run('k', async () => Promise.reject(new Error('no')), controller.signal)).rejects.toThrow(
      'no',
    );
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });
});

it('gives every caller the run it joined, or its own reason, in any interleaving', async () => {
  const steps = fc.array(
    fc.record({
      do: fc.constantFrom('run', 'run', 'run', 'abort', 'resolve', 'reject'),
      key: fc.constantFrom('a', 'b'),
      pick: fc.nat(),
    }),
    { maxLength: 60, size: 'max' },
  );
  await expect(fc.assert(fc.asyncProperty(steps, interleave))).resolves.toBeUndefined();
});

interface Caller {
  readonly controller: AbortController;
  readonly run: number;
  expected: string | undefined;
  told: string | undefined;
}

interface Step {
  readonly do: string;
  readonly key: string;
  readonly pick: number;
}

async function interleave(steps: readonly Step[]): Promise<void> {
  const flights = new SingleFlight<string>();
  const { runs, start } = byHand();
  const callers: Caller[] = [];
  /** The run that whoever asks for a key now joins. */
  const open = new Map<string, number>();

  const ask = (key: string): void => {
    const run = open.get(key) ?? runs.length;
    open.set(key, run);
    const caller: Caller = { controller: new AbortController(), run, expected: undefined, told: undefined };
    callers.push(caller);
    const told = (what: string): void => void (caller.told = what);
    flights.run(key, start, caller.controller.signal).then(told, (error: Error) => told(error.message));
  };
  const abort = (pick: number): void => {
    const waiting = callers.filter((caller) => caller.expected === undefined);
    const gone = waiting[pick % waiting.length];
    if (gone === undefined) return;
    gone.expected = 'aborted';
    gone.controller.abort(new Error('aborted'));
    const last = !waiting.some((caller) => caller !== gone && caller.run === gone.run);
    if (runs[gone.run]?.signal.aborted !== last) throw new Error(`run ${gone.run} is aborted: ${!last}`);
    for (const [key, run] of open) if (last && run === gone.run) open.delete(key);
  };
  const settle = (how: 'resolve' | 'reject', key: string): void => {
    const run = open.get(key) ?? -1;
    open.delete(key);
    for (const caller of callers) caller.expected ??= caller.run === run ? `${how} ${run}` : undefined;
    if (how === 'resolve') runs[run]?.resolve(`resolve ${run}`);
    else runs[run]?.reject(new Error(`reject ${run}`));
  };

  for (const step of steps) {
    if (step.do === 'run') ask(step.key);
    else if (step.do === 'abort') abort(step.pick);
    else settle(step.do === 'resolve' ? 'resolve' : 'reject', step.key);
    await settled();
    if (flights.size !== open.size) throw new Error(`${flights.size} flights, ${open.size} expected`);
  }
  const told = callers.map((caller) => caller.told);
  if (told.join() !== callers.map(({ expected }) => expected).join()) throw new Error(`told ${told.join()}`);
}
