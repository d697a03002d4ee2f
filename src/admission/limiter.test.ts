import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { type Clock, FakeClock } from '../kernel/index.ts';
import { type AcquireRequest, type Answer, Limiter, type LimiterOptions, type Slot } from './index.ts';

function make(options: Partial<LimiterOptions> = {}): { limiter: Limiter; clock: FakeClock } {
  const clock = new FakeClock();
  const limiter = new Limiter({ name: 'test', maxConcurrent: 1, maxQueued: 10, waitMsMax: 1000, clock, ...options });
  return { limiter, clock };
}

function slotOf(answer: Answer): Slot {
  if (!answer.admitted) throw new Error(`refused: ${answer.reason}`);
  return answer.slot;
}

function take(limiter: Limiter, request?: AcquireRequest): Slot {
  return slotOf(limiter.tryAcquire(request));
}

/** Asks, and notes the name of whoever is answered, in order. */
function ask(limiter: Limiter, names: string[], name: string, request?: AcquireRequest): Promise<Answer> {
  return limiter.acquire(request).then((answer) => {
    names.push(answer.admitted ? name : `${name} ${answer.reason}`);
    return answer;
  });
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await Promise.resolve();
}

describe('a free slot', () => {
  it('is taken before acquire returns, and no timer is started', async () => {
    // fails when #answerAtOnce is taken out of acquire: the caller is then queued behind a timer
    const { limiter, clock } = make();
    const answer = limiter.acquire();
    expect(limiter.held).toBe(1);
    expect(limiter.waiting).toBe(0);
    expect(clock.armed).toBe(0);
    expect(slotOf(await answer).waitedMs).toBe(0);
  });

  it('is given even to a caller that may not wait at all', async () => {
    // fails when the wait of 0 is refused before the free slot is tried
    const { limiter } = make({ waitMsMax: 0 });
    expect((await limiter.acquire()).admitted).toBe(true);
    expect(await limiter.acquire()).toEqual({ admitted: false, reason: 'timeout', early: false, waitedMs: 0 });
  });

  it('wins over a deadline that has passed but has not been acted on', async () => {
    // fails when #expire does not hand over first: the gauge dropped, nobody said so, and the caller is timed out
    let gauge = 100;
    const { limiter, clock } = make({ maxConcurrent: 2, maxPinnedBytes: 50, pinnedBytes: () => gauge });
    take(limiter);
    const waiting = limiter.acquire();
    gauge = 0;
    clock.advance(1000);
    expect(slotOf(await waiting).waitedMs).toBe(1000);
  });

  it('goes to whoever waits, not to a newcomer, when the gauge dropped and nobody said so', async () => {
    // fails when #answerAtOnce does not hand over first: both then wait, although a slot is free
    let gauge = 100;
    const { limiter } = make({ maxConcurrent: 2, maxPinnedBytes: 50, pinnedBytes: () => gauge });
    take(limiter);
    const names: string[] = [];
    void ask(limiter, names, 'first');
    gauge = 0;
    void ask(limiter, names, 'newcomer');
    expect([limiter.held, limiter.waiting]).toEqual([2, 1]);
    await settled();
    expect(names).toEqual(['first']);
  });
});

describe('the bounds', () => {
  it('hold at most maxConcurrent, queue at most maxQueued, and refuse the rest as full', async () => {
    const { limiter } = make({ maxConcurrent: 2, maxQueued: 3 });
    const names: string[] = [];
    for (let caller = 0; caller < 7; caller++) void ask(limiter, names, String(caller));
    expect([limiter.held, limiter.waiting]).toEqual([2, 3]);
    await settled();
    expect(names).toEqual(['0', '1', '5 full', '6 full']);
  });

  it('count a caller once while its slot is handed over', async () => {
    // fails when `waiting` is lowered only after the caller was told: the newcomer then finds the queue full
    const { limiter } = make({ maxQueued: 1 });
    const held = take(limiter);
    const names: string[] = [];
    void ask(limiter, names, 'queued');
    held.release();
    expect([limiter.held, limiter.waiting]).toEqual([1, 0]);
    void ask(limiter, names, 'newcomer');
    expect([limiter.held, limiter.waiting]).toEqual([1, 1]);
    await settled();
    expect(names).toEqual(['queued']);
  });

  it('are not worn down by refusals', async () => {
    // fails when `waiting` is raised before the queue is found full and not lowered again
    const { limiter } = make({ maxQueued: 1 });
    const held = take(limiter);
    const queued = limiter.acquire();
    for (let caller = 0; caller < 100; caller++) expect((await limiter.acquire()).admitted).toBe(false);
    expect(limiter.waiting).toBe(1);
    held.release();
    slotOf(await queued).release();
    expect(limiter.held).toBe(0);
    take(limiter);
    void limiter.acquire();
    expect([limiter.held, limiter.waiting]).toEqual([1, 1]);
  });

  it('leave out streams that are open already: they wait outside maxQueued, for as long as it takes', async () => {
    // fails when outsideQueueBound is ignored in acquire (full), in #waitMsMaxOf (timeout) or in the count
    const { limiter, clock } = make({ maxQueued: 1, waitMsMax: 10 });
    const held = take(limiter);
    const counted = limiter.acquire();
    const open = [1, 2, 3].map(() => limiter.acquire({ outsideQueueBound: true, waitMsMax: 1 }));
    expect(limiter.stats()).toMatchObject({ waiting: 1, waitingOpen: 3 });
    expect([limiter.waiting, limiter.waitingOpen]).toEqual([1, 3]);
    clock.advance(1_000_000);
    expect(await counted).toMatchObject({ admitted: false, reason: 'timeout', waitedMs: 10 });
    expect(limiter.stats()).toMatchObject({ waiting: 0, waitingOpen: 3 });
    held.release();
    for (const answer of open) slotOf(await answer).release();
    expect(limiter.stats()).toMatchObject({ held: 0, waitingOpen: 0, longestWaitMs: 1_000_000 });
  });

  it('do not move when a request changes hands while it waits', async () => {
    // fails when the waiter keeps the caller's object: the count goes to -1
    const { limiter } = make();
    const held = take(limiter);
    const request = { outsideQueueBound: true, pinBytes: 1 };
    const waiting = limiter.acquire(request);
    request.outsideQueueBound = false;
    request.pinBytes = 1000;
    held.release();
    await waiting;
    expect(limiter.stats()).toMatchObject({ waiting: 0, waitingOpen: 0, declaredBytes: 1 });
  });

  it('are the same for tryAcquire, which never waits and never overtakes', async () => {
    // fails when #answerAtOnce does not look whether anybody waits
    const { limiter } = make({ maxConcurrent: 3, maxPinnedBytes: 10 });
    take(limiter, { pinBytes: 8 });
    const waiting = limiter.acquire({ pinBytes: 8 });
    expect(limiter.tryAcquire({ pinBytes: 1 })).toEqual({ admitted: false, reason: 'full', early: false, waitedMs: 0 });
    expect([limiter.held, limiter.waiting]).toEqual([1, 1]);
    limiter.close();
    await waiting;
  });
});

describe('an aborted caller', () => {
  it('gets no slot even if one is free', async () => {
    // fails when the signal is not looked at in #answerAtOnce
    const { limiter } = make();
    const answer = await limiter.acquire({ signal: AbortSignal.abort() });
    expect(answer).toEqual({ admitted: false, reason: 'aborted', early: false, waitedMs: 0 });
    expect(limiter.tryAcquire({ signal: AbortSignal.abort() }).admitted).toBe(false);
    expect(limiter.held).toBe(0);
  });

  it('gives its place in the queue back at once', async () => {
    // fails when onAbort is not listened to
    const { limiter, clock } = make({ maxQueued: 1 });
    const held = take(limiter);
    const controller = new AbortController();
    const gone = limiter.acquire({ signal: controller.signal });
    clock.advance(7);
    controller.abort();
    expect(limiter.waiting).toBe(0);
    expect(clock.armed).toBe(0);
    const next = limiter.acquire();
    expect(await gone).toEqual({ admitted: false, reason: 'aborted', early: false, waitedMs: 7 });
    held.release();
    expect((await next).admitted).toBe(true);
  });

  it('is passed over when the slot is released between its abort and our hearing of it', async () => {
    // fails when #answerNext does not look at the signal: the earlier listener's release admits an aborted caller
    const { limiter } = make();
    const held = take(limiter);
    const controller = new AbortController();
    controller.signal.addEventListener('abort', () => held.release());
    const gone = limiter.acquire({ signal: controller.signal });
    const next = limiter.acquire();
    controller.abort();
    expect(await gone).toMatchObject({ admitted: false, reason: 'aborted' });
    expect((await next).admitted).toBe(true);
    expect(limiter.stats().refused.aborted).toBe(1);
  });

  it('lets the ones behind it in, if it was the one that did not fit', async () => {
    // fails when #giveUp does not hand over
    const { limiter } = make({ maxConcurrent: 2, maxPinnedBytes: 10 });
    take(limiter, { pinBytes: 5 });
    const controller = new AbortController();
    void limiter.acquire({ pinBytes: 8, signal: controller.signal });
    const small = limiter.acquire({ pinBytes: 5 });
    expect(limiter.waiting).toBe(2);
    controller.abort();
    expect((await small).admitted).toBe(true);
  });

  it.each(['admitted', 'timeout', 'closed', 'aborted'])('leaves no listener on its signal when %s', async (how) => {
    // fails when #left does not remove the listener
    const { limiter, clock } = make();
    const held = take(limiter);
    const controller = new AbortController();
    const answer = limiter.acquire({ signal: controller.signal });
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    if (how === 'admitted') held.release();
    if (how === 'timeout') clock.advance(1000);
    if (how === 'closed') limiter.close();
    if (how === 'aborted') controller.abort();
    const told = await answer;
    expect(told.admitted ? 'admitted' : told.reason).toBe(how);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });
});

describe('the wait', () => {
  it('ends at waitMsMax, or at the caller’s own', async () => {
    const { limiter, clock } = make({ waitMsMax: 100 });
    take(limiter);
    const own = limiter.acquire({ waitMsMax: 20 });
    const common = limiter.acquire();
    const forever = limiter.acquire({ waitMsMax: Infinity });
    expect(clock.armed).toBe(1); // one timer, for the earliest
    clock.advance(19);
    expect(limiter.waiting).toBe(3);
    clock.advance(1);
    expect(limiter.waiting).toBe(2);
    expect(await own).toEqual({ admitted: false, reason: 'timeout', early: false, waitedMs: 20 });
    clock.advance(80);
    expect(await common).toEqual({ admitted: false, reason: 'timeout', early: false, waitedMs: 100 });
    clock.advance(1e9);
    expect([limiter.waiting, clock.armed]).toEqual([1, 0]);
    limiter.close();
    expect(await forever).toMatchObject({ reason: 'closed', waitedMs: 1e9 + 100 });
  });

  it('lets the ones behind in, when it ends for the one that did not fit', async () => {
    // fails when #expire does not hand over after it turned somebody away
    const { limiter, clock } = make({ maxConcurrent: 2, maxPinnedBytes: 10 });
    take(limiter, { pinBytes: 5 });
    void limiter.acquire({ pinBytes: 8, waitMsMax: 10 });
    const small = limiter.acquire({ pinBytes: 5 });
    clock.advance(10);
    expect(slotOf(await small).waitedMs).toBe(10);
  });

  it('ends for a large queue in portions, so that the event loop turns in between', async () => {
    // fails when the loop in #expire has no bound: all are then told in one timer call
    const fake = new FakeClock();
    const left: number[] = [];
    const after: Clock['after'] = (delayMs, run) =>
      fake.after(delayMs, () => {
        run();
        left.push(limiter.waiting);
      });
    const clock: Clock = { now: () => fake.now(), after };
    const { limiter } = make({ maxQueued: 10_000, waitMsMax: 10, clock });
    take(limiter);
    for (let caller = 0; caller < 10_000; caller++) void limiter.acquire();
    fake.advance(10);
    expect(left).toEqual([10_000 - 4096, 10_000 - 2 * 4096, 0]);
    expect(limiter.stats().refused.timeout).toBe(10_000);
  });
});

describe('close', () => {
  it('tells those who wait at once, and admits nobody from then on', async () => {
    // fails when `closed` is not looked at in #answerAtOnce, or close leaves the queue as it is
    const { limiter, clock } = make();
    const held = take(limiter);
    const waiting = [limiter.acquire(), limiter.acquire({ outsideQueueBound: true })];
    clock.advance(3);
    limiter.close();
    expect([limiter.waiting, limiter.stats().waitingOpen, clock.armed]).toEqual([0, 0, 0]);
    for (const answer of waiting)
      expect(await answer).toMatchObject({ admitted: false, reason: 'closed', waitedMs: 3 });
    held.release();
    expect(await limiter.acquire()).toEqual({ admitted: false, reason: 'closed', early: false, waitedMs: 0 });
    expect(limiter.tryAcquire()).toMatchObject({ reason: 'closed' });
    expect(limiter.stats()).toMatchObject({ closed: true, held: 0, admitted: 1, refused: { closed: 4 } });
  });

  it('holds against a slot that is released in the same breath', async () => {
    // fails when close refuses the queue but `closed` is not looked at: the freed slot goes to the late caller
    const { limiter } = make();
    const held = take(limiter);
    const before = limiter.acquire();
    limiter.close();
    held.release();
    const after = limiter.acquire();
    expect(await before).toMatchObject({ reason: 'closed' });
    expect(await after).toMatchObject({ reason: 'closed' });
    expect(limiter.held).toBe(0);
  });

  it('may come from a callback that was just given its slot back', async () => {
    const { limiter } = make({ maxConcurrent: 2, maxParked: 2 });
    const [a, b] = [take(limiter), take(limiter)];
    a.park();
    const c = take(limiter);
    a.resume(() => limiter.close());
    const queued = limiter.acquire();
    b.release();
    c.release();
    expect(await queued).toMatchObject({ reason: 'closed' });
    expect(limiter.held).toBe(1);
  });

  it('lets parked deliveries resume and end: they are in progress', () => {
    const { limiter } = make({ maxParked: 1 });
    const slot = take(limiter);
    slot.park();
    limiter.close();
    let held = false;
    slot.resume(() => {
      held = true;
    });
    expect([held, slot.state]).toEqual([true, 'held']);
  });
});

describe('drain', () => {
  it('resolves at once when there is nothing', async () => {
    await expect(make().limiter.drain()).resolves.toBeUndefined();
  });

  it('waits for the last slot, held or parked', async () => {
    // fails when `empty` leaves out the parked
    const { limiter } = make({ maxConcurrent: 2, maxParked: 2 });
    const [held, parked] = [take(limiter), take(limiter)];
    parked.park();
    let drained = 0;
    for (let call = 0; call < 2; call++) void limiter.drain().then(() => drained++);
    limiter.close();
    held.release();
    await settled();
    expect(drained).toBe(0);
    parked.release();
    await settled();
    expect(drained).toBe(2);
  });

  it('waits for those in the queue, too', async () => {
    // fails when `empty` leaves out the held
    const { limiter } = make();
    const held = take(limiter);
    const queued = limiter.acquire();
    let drained = false;
    void limiter.drain().then(() => {
      drained = true;
    });
    held.release();
    await settled();
    expect(drained).toBe(false);
    slotOf(await queued).release();
    await settled();
    expect(drained).toBe(true);
  });
});

describe('a slot', () => {
  it('is freed once, however often it is released', () => {
    // fails when release does not look at the state: the counts fall below 0
    const { limiter } = make();
    const first = take(limiter);
    first.release();
    first.release();
    expect([limiter.held, limiter.parked]).toEqual([0, 0]);
    const second = take(limiter);
    first.release();
    first[Symbol.dispose]();
    expect([limiter.held, limiter.parked, second.state, first.state]).toEqual([1, 0, 'held', 'released']);
    expect(limiter.tryAcquire().admitted).toBe(false);
  });

  it('is released at the end of a using block, also by an exception', () => {
    const { limiter } = make();
    expect(() => {
      using slot = take(limiter);
      expect(slot.state).toBe('held');
      throw new Error('encode failed');
    }).toThrow('encode failed');
    expect(limiter.held).toBe(0);
  });

  it('knows how long its caller waited', async () => {
    const { limiter, clock } = make();
    const held = take(limiter);
    const [a, b] = [limiter.acquire(), limiter.acquire()];
    clock.advance(30);
    held.release();
    const slot = slotOf(await a);
    clock.advance(12.5);
    slot.release();
    expect([slot.waitedMs, slotOf(await b).waitedMs]).toEqual([30, 42.5]);
    expect(limiter.stats().longestWaitMs).toBe(42.5);
  });
});

describe('parking', () => {
  it('gives the place to the next at once, and keeps the bytes charged', async () => {
    const { limiter } = make({ maxParked: 1, maxPinnedBytes: 100 });
    const slot = take(limiter, { pinBytes: 40 });
    const next = limiter.acquire({ pinBytes: 60 });
    expect(slot.park()).toBe(true);
    expect(slot.state).toBe('parked');
    expect(limiter.stats()).toMatchObject({ held: 1, parked: 1, waiting: 0, declaredBytes: 100 });
    expect((await next).admitted).toBe(true);
  });

  it('is off by default, bounded by maxParked, and only for a slot that is held', () => {
    // fails when park does not look at maxParked, or not at the state
    expect(take(make().limiter).park()).toBe(false);
    const { limiter } = make({ maxConcurrent: 3, maxParked: 2 });
    const [a, b, c] = [take(limiter), take(limiter), take(limiter)];
    expect([a.park(), a.park(), b.park(), c.park()]).toEqual([true, false, true, false]);
    expect([limiter.held, limiter.parked, c.state]).toEqual([1, 2, 'held']);
    a.release();
    expect([a.park(), c.park()]).toEqual([false, true]);
    expect([limiter.held, limiter.parked]).toEqual([0, 2]);
  });

  it('ends with the next free place, before the queue, in order of asking', async () => {
    // fails when #handOver asks the queue first
    const { limiter } = make({ maxParked: 2 });
    const names: string[] = [];
    const a = take(limiter);
    a.park();
    const b = take(limiter);
    b.park();
    const c = take(limiter);
    const queued = ask(limiter, names, 'queued');
    b.resume(() => names.push('b'));
    a.resume(() => names.push('a'));
    expect([a.state, limiter.parked, limiter.tryAcquire().admitted]).toEqual(['parked', 2, false]);
    c.release();
    expect([names, b.state, a.state]).toEqual([['b'], 'held', 'parked']);
    b.release();
    expect([names, limiter.parked]).toEqual([['b', 'a'], 0]);
    a.release();
    slotOf(await queued).release();
    expect([names, limiter.held]).toEqual([['b', 'a', 'queued'], 0]);
  });

  it('ends whatever the bytes are: a parked delivery brings none', () => {
    const { limiter } = make({ maxConcurrent: 2, maxParked: 1, maxPinnedBytes: 10 });
    const [a, b] = [take(limiter, { pinBytes: 10 }), take(limiter)];
    a.park();
    b.pin(100);
    let held = false;
    a.resume(() => {
      held = true;
    });
    expect(held).toBe(true);
  });

  it('leaves cleanly when released, parked or in line, and calls nobody back', () => {
    // fails when release does not take the slot out of the line, or does not tell held from parked
    const { limiter } = make({ maxParked: 2 });
    const a = take(limiter);
    a.park();
    const b = take(limiter);
    b.park();
    const c = take(limiter);
    const called: string[] = [];
    a.resume(() => called.push('a'));
    a.release();
    b.release();
    expect(limiter.stats()).toMatchObject({ held: 1, parked: 0, declaredBytes: 0 });
    c.release();
    a.resume(() => called.push('a again'));
    expect([called, limiter.held, a.state]).toEqual([[], 0, 'released']);
    take(limiter); // the place is free
  });

  it('calls back at once when held already, and only the last callback when asked twice', () => {
    const { limiter } = make({ maxParked: 1 });
    const called: string[] = [];
    const a = take(limiter);
    a.resume(() => called.push('held all along'));
    a.park();
    const b = take(limiter);
    a.resume(() => called.push('first'));
    a.resume(() => called.push('second'));
    b.release();
    expect([called, limiter.held, limiter.parked]).toEqual([['held all along', 'second'], 1, 0]);
    b.release();
    expect(called).toHaveLength(2);
  });

  it('keeps one place in line for one that asks twice', () => {
    // fails when resume puts a slot in line that is in it: the one behind it is lost
    const { limiter } = make({ maxParked: 2 });
    const called: string[] = [];
    const a = take(limiter);
    a.park();
    const b = take(limiter);
    b.park();
    const c = take(limiter);
    a.resume(() => called.push('a, first'));
    b.resume(() => called.push('b'));
    a.resume(() => called.push('a'));
    c.release();
    a.release();
    expect([called, limiter.held, limiter.parked]).toEqual([['a', 'b'], 1, 0]);
    b.release();
    expect([called.length, limiter.held]).toEqual([2, 0]);
  });

  it('calls nobody back that was released after it was held again, before it was told', () => {
    // fails when release keeps the callback, or callBack calls what is not there
    const { limiter } = make({ maxConcurrent: 2, maxParked: 2 });
    const [a, b] = [take(limiter), take(limiter)];
    a.park();
    b.park();
    const [c, d] = [take(limiter), take(limiter)];
    const rethrown = vi.fn<(run: () => void) => void>();
    vi.stubGlobal('queueMicrotask', rethrown);
    const called: string[] = [];
    a.resume(() => {
      d.release();
      called.push(`a, and b is ${b.state}`);
      b.release();
    });
    b.resume(() => called.push('b'));
    c.release();
    vi.unstubAllGlobals();
    expect(called).toEqual(['a, and b is held']);
    expect(rethrown).not.toHaveBeenCalled();
    expect(limiter.held).toBe(1);
  });

  it('survives a callback that throws: the fault is its own, and the others go on', () => {
    // fails when callBack does not catch: the exception reaches whoever released the slot, and `second` waits for ever
    const { limiter } = make({ maxConcurrent: 2, maxParked: 2 });
    const [a, b] = [take(limiter), take(limiter)];
    a.park();
    b.park();
    const [c, d] = [take(limiter), take(limiter)];
    const rethrown: Array<() => void> = [];
    vi.stubGlobal('queueMicrotask', (run: () => void) => rethrown.push(run));
    const called: string[] = [];
    a.resume(() => {
      d.release();
      throw new Error('mine');
    });
    b.resume(() => called.push('b'));
    expect(() => c.release()).not.toThrow();
    vi.unstubAllGlobals();
    expect(called).toEqual(['b']);
    expect(rethrown).toHaveLength(1);
    expect(rethrown[0]).toThrow('mine');
  });

  it('does not nest a thousand callbacks that each release', () => {
    // fails when tellResumed calls back from within a callback: the stack overflows
    const count = 20_000;
    const { limiter } = make({ maxParked: count });
    const slots = Array.from({ length: count }, () => {
      const slot = take(limiter);
      slot.park();
      return slot;
    });
    const last = take(limiter);
    for (const slot of slots) slot.resume(() => slot.release());
    last.release();
    expect(limiter.stats()).toMatchObject({ held: 0, parked: 0 });
  });
});

describe('the bound on pinned bytes', () => {
  it('admits while declared bytes, the gauge and the newcomer fit', async () => {
    // fails when canCarry leaves out one of the three
    let gauge = 20;
    const { limiter } = make({ maxConcurrent: 9, maxPinnedBytes: 100, pinnedBytes: () => gauge });
    take(limiter, { pinBytes: 50 });
    expect(limiter.tryAcquire({ pinBytes: 31 }).admitted).toBe(false);
    take(limiter, { pinBytes: 30 });
    expect(limiter.stats()).toMatchObject({ declaredBytes: 80, pinnedBytes: 100 });
    take(limiter, { pinBytes: 0 });
    gauge = 21;
    expect(limiter.tryAcquire({ pinBytes: 0 }).admitted).toBe(false);
  });

  it('lets a delivery through that is alone, however large', async () => {
    // fails when canCarry does not ask whether the books are empty: it would wait for ever
    const { limiter } = make({ maxConcurrent: 2, maxPinnedBytes: 10, pinnedBytes: () => 1000 });
    const large = take(limiter, { pinBytes: 500 });
    const second = limiter.acquire({ pinBytes: 500 });
    expect(limiter.waiting).toBe(1);
    large.release();
    expect((await second).admitted).toBe(true);
  });

  it('does not take a parked delivery for nobody', () => {
    const { limiter } = make({ maxConcurrent: 2, maxParked: 1, maxPinnedBytes: 10 });
    const slot = take(limiter, { pinBytes: 10 });
    slot.park();
    expect(limiter.tryAcquire({ pinBytes: 1 }).admitted).toBe(false);
    slot.release();
    take(limiter, { pinBytes: 1 });
  });

  it('keeps the next one next: smaller ones do not overtake it, of whatever class or lane', async () => {
    // fails when the queue chooses anew each time: the server's caller passes the public one that waits for bytes
    const { limiter } = make({ maxConcurrent: 3, maxPinnedBytes: 10 });
    const held = take(limiter, { pinBytes: 6 });
    const names: string[] = [];
    void ask(limiter, names, 'large', { pinBytes: 8, klass: 'public', returning: true });
    void ask(limiter, names, 'small', { pinBytes: 1, klass: 'server' });
    void ask(limiter, names, 'smaller', { pinBytes: 1, klass: 'public', returning: false });
    expect([limiter.held, limiter.waiting]).toEqual([1, 3]);
    held.release();
    await settled();
    expect(names).toEqual(['large', 'small', 'smaller']);
  });

  it('follows what a slot states later, and lets others in when it is less', async () => {
    // fails when pin adds instead of replacing, or does not hand over
    const { limiter } = make({ maxConcurrent: 3, maxPinnedBytes: 10 });
    const slot = take(limiter, { pinBytes: 2 });
    slot.pin(9);
    const waiting = limiter.acquire({ pinBytes: 5 });
    expect(limiter.stats()).toMatchObject({ waiting: 1, declaredBytes: 9 });
    slot.pin(5);
    expect(limiter.stats()).toMatchObject({ held: 2, declaredBytes: 10 });
    slot.release();
    slot.pin(1000);
    expect(limiter.stats().declaredBytes).toBe(5);
    slotOf(await waiting).release();
    expect(limiter.stats().declaredBytes).toBe(0);
  });

  it('looks again when it is told that the gauge dropped', async () => {
    // fails when recheck does nothing
    let gauge = 100;
    const { limiter } = make({ maxConcurrent: 2, maxPinnedBytes: 10, pinnedBytes: () => gauge });
    take(limiter);
    const waiting = limiter.acquire();
    gauge = 0;
    expect(limiter.waiting).toBe(1);
    limiter.recheck();
    expect((await waiting).admitted).toBe(true);
  });

  it.each([-1, 0.5, Number.NaN, Infinity])('refuses to count %d bytes', async (bytes) => {
    const { limiter } = make();
    await expect(limiter.acquire({ pinBytes: bytes })).rejects.toThrow(
      `Cannot pin: bytes must be an integer of at least 0, got ${bytes}`,
    );
    const slot = take(limiter, { pinBytes: 7 });
    expect(() => slot.pin(bytes)).toThrow('Cannot pin: bytes must be an integer of at least 0');
    expect(limiter.stats().declaredBytes).toBe(7);
  });

  it('refuses a wait that is no time', async () => {
    const { limiter } = make();
    await expect(limiter.acquire({ waitMsMax: Number.NaN })).rejects.toThrow(
      'Cannot acquire: waitMsMax must be a number of at least 0, got NaN',
    );
    await expect(limiter.acquire({ waitMsMax: -1 })).rejects.toMatchObject({ code: 'HG_OPTION' });
  });
});

describe('order', () => {
  it('takes turns between tenants, 8 to 1 between classes, and first-time clients before returning ones', async () => {
    const { limiter } = make({ maxQueued: 100 });
    const held = take(limiter);
    const names: string[] = [];
    const requests: Array<[string, AcquireRequest]> = [
      ['p', { tenant: 'a', klass: 'public' }],
      ['a1 returning', { tenant: 'a', returning: true }],
      ['a2', { tenant: 'a' }],
      ['a3', { tenant: 'a' }],
      ['b1', { tenant: 'b' }],
      ['default', {}],
    ];
    const answers = requests.map(([name, request]) =>
      ask(limiter, names, name, request).then((answer) => slotOf(answer).release()),
    );
    held.release();
    await Promise.all(answers);
    expect(names).toEqual(['a2', 'b1', 'default', 'a3', 'a1 returning', 'p']);
  });

  it('takes callers that name no tenant for one tenant, the one with the empty name', async () => {
    const { limiter } = make();
    const held = take(limiter);
    const names: string[] = [];
    const answers = [{ tenant: '' }, {}, { tenant: 'x' }].map((request, index) =>
      ask(limiter, names, String(index), request).then((answer) => slotOf(answer).release()),
    );
    held.release();
    await Promise.all(answers);
    expect(names).toEqual(['0', '2', '1']);
  });

  it('is plain when fairness is off', async () => {
    const { limiter } = make({ fairness: 'off' });
    const held = take(limiter);
    const names: string[] = [];
    const answers = [
      ask(limiter, names, '1', { klass: 'public', returning: true, tenant: 'a' }),
      ask(limiter, names, '2', { tenant: 'a' }),
      ask(limiter, names, '3', { tenant: 'a' }),
      ask(limiter, names, '4', { tenant: 'b' }),
    ];
    held.release();
    for (const answer of answers) slotOf(await answer).release();
    expect(names).toEqual(['1', '2', '3', '4']);
  });
});

describe('early refusal', () => {
  /** A limiter of 4 slots that serves one caller each 10 ms, and has done so 40 times. */
  async function steady(options: Partial<LimiterOptions> = {}): Promise<{ limiter: Limiter; clock: FakeClock }> {
    const made = make({ maxConcurrent: 4, maxQueued: 1000, waitMsMax: 1000, ...options });
    const { limiter, clock } = made;
    const slots = [1, 2, 3, 4].map(() => take(limiter));
    for (let served = 0; served < 40; served++) {
      const next = limiter.acquire();
      clock.advance(10);
      slots.shift()?.release();
      slots.push(slotOf(await next));
    }
    return made;
  }

  function queue(limiter: Limiter, count: number, request?: AcquireRequest): void {
    for (let caller = 0; caller < count; caller++) void limiter.acquire(request);
  }

  it('tells a caller at once that its turn cannot come in time', async () => {
    // fails when #isHopeless always says no
    const { limiter } = await steady();
    queue(limiter, 299); // 100 a second are served, so a third of them in time, if the estimate is right
    expect([limiter.waiting, limiter.stats().refusedEarly]).toEqual([299, 0]);
    queue(limiter, 2, { outsideQueueBound: true });
    expect(await limiter.acquire()).toEqual({ admitted: false, reason: 'timeout', early: true, waitedMs: 0 });
    expect(limiter.stats()).toMatchObject({ waiting: 299, refusedEarly: 1, refused: { timeout: 1, full: 0 } });
  });

  it('is said by the caller’s own wait', async () => {
    const { limiter } = await steady();
    queue(limiter, 31);
    expect(await limiter.acquire({ waitMsMax: 100 })).toMatchObject({ early: true });
    void limiter.acquire({ waitMsMax: 200 });
    expect(limiter.waiting).toBe(32);
  });

  it('is never said to a stream that is open already, nor when switched off', async () => {
    const { limiter } = await steady();
    queue(limiter, 400);
    const before = limiter.stats().waitingOpen;
    void limiter.acquire({ outsideQueueBound: true, waitMsMax: 1 });
    expect(limiter.stats().waitingOpen - before).toBe(1);
    const { limiter: patient } = await steady({ earlyShed: false });
    queue(patient, 400);
    expect(patient.waiting).toBe(400);
  });

  it('is never said with fewer ahead than one turn of the slots serves', async () => {
    // fails when #isHopeless does not compare with maxConcurrent
    const { limiter } = await steady();
    queue(limiter, 4, { waitMsMax: 1 });
    expect(limiter.waiting).toBe(4);
    expect(await limiter.acquire({ waitMsMax: 1 })).toMatchObject({ early: true });
  });

  it('is never said without evidence, or on evidence that is old', async () => {
    // fails when perMs does not count its samples, or does not look at their age
    const { limiter, clock: early } = make({ maxQueued: 1000 });
    let slot = take(limiter);
    for (let served = 0; served < 19; served++) {
      const next = limiter.acquire();
      early.advance(500);
      slot.release();
      slot = slotOf(await next);
    }
    queue(limiter, 1000);
    expect(limiter.waiting).toBe(1000);
    const { limiter: idle, clock } = await steady();
    clock.advance(30_001);
    queue(idle, 400);
    expect(idle.waiting).toBe(400);
  });

  it('counts those who go before, not those who wait', async () => {
    // fails when #isHopeless takes the length of the queue: the caller of another tenant is next but one
    const { limiter } = await steady();
    queue(limiter, 320, { tenant: 'loud' });
    const { waiting } = limiter;
    expect(await limiter.acquire({ tenant: 'loud' })).toMatchObject({ early: true });
    void limiter.acquire({ tenant: 'quiet' });
    expect(limiter.waiting).toBe(waiting + 1);
  });

  it('measures while somebody waits, from one handover to the next, whoever joins in between', async () => {
    // fails when the watch is started anew by each that joins (200 a second), or stopped by each that leaves
    const { limiter, clock } = make({ maxQueued: 1000 });
    let slot = take(limiter);
    let next = limiter.acquire();
    for (let served = 0; served < 40; served++) {
      clock.advance(5);
      const joins = limiter.acquire();
      clock.advance(5);
      slot.release();
      slot = slotOf(await next);
      next = joins;
    }
    queue(limiter, 320);
    expect(limiter.waiting).toBeGreaterThan(280);
    expect(await limiter.acquire()).toMatchObject({ early: true });
  });

  it('does not measure while nobody waits', async () => {
    // fails when the watch is neither stopped by the last that leaves nor started anew by the first that joins
    const { limiter, clock } = make({ maxQueued: 1000 });
    let slot = take(limiter);
    for (let served = 0; served < 40; served++) {
      clock.advance(1000);
      const next = limiter.acquire();
      clock.advance(10);
      slot.release();
      slot = slotOf(await next);
    }
    queue(limiter, 280);
    expect(limiter.waiting).toBe(280);
  });

  it('measures the time of those that waited in vain, too', async () => {
    // fails when the watch is not stopped by the last that leaves: its time is lost, and it looks like 100 a second
    const { limiter, clock } = make({ maxQueued: 1000 });
    let slot = take(limiter);
    for (let served = 0; served < 40; served++) {
      void limiter.acquire({ waitMsMax: 90 });
      clock.advance(90);
      clock.advance(500);
      const next = limiter.acquire();
      clock.advance(10);
      slot.release();
      slot = slotOf(await next);
    }
    queue(limiter, 28);
    expect([limiter.waiting, limiter.stats().refusedEarly]).toEqual([28, 0]);
    queue(limiter, 12);
    expect(limiter.stats().refusedEarly).toBeGreaterThan(3);
  });

  it('paces retryAfterSeconds', async () => {
    const { limiter } = await steady({ random: () => 0 });
    queue(limiter, 145);
    queue(limiter, 145, { outsideQueueBound: true });
    expect(limiter.retryAfterSeconds()).toBe(3); // 290 callers at 100 a second
    const { limiter: spread } = await steady({ random: () => 0.999 });
    queue(spread, 145);
    queue(spread, 145, { outsideQueueBound: true });
    expect(spread.retryAfterSeconds()).toBe(6);
  });
});

describe('a limiter that is off', () => {
  it('admits everybody with the same slot, which counts nothing', async () => {
    const limiter = Limiter.disabled('off');
    const [a, b] = [await limiter.acquire({ pinBytes: 5 }), limiter.tryAcquire()];
    const slot = slotOf(a);
    expect(slot).toBe(slotOf(b));
    expect([slot.state, slot.waitedMs, slot.park()]).toEqual(['held', 0, false]);
    let held = false;
    slot.resume(() => {
      held = true;
    });
    slot.pin(5);
    slot.release();
    slot[Symbol.dispose]();
    expect(held).toBe(true);
    expect(limiter.enabled).toBe(false);
    expect(limiter.stats()).toMatchObject({ name: 'off', enabled: false, held: 0, admitted: 2, declaredBytes: 0 });
    await limiter.drain();
  });

  it('still refuses those who have aborted, and everybody once it is closed', async () => {
    // fails when a limiter that is off answers before `closed` and the signal are looked at
    const limiter = Limiter.disabled('off');
    expect(await limiter.acquire({ signal: AbortSignal.abort() })).toMatchObject({ reason: 'aborted' });
    limiter.close();
    expect(await limiter.acquire()).toMatchObject({ reason: 'closed' });
    expect(limiter.stats()).toMatchObject({ admitted: 0, refused: { aborted: 1, closed: 1 } });
  });
});

describe('the numbers', () => {
  it('tell what is, and count what was', async () => {
    const { limiter, clock } = make({ maxConcurrent: 1, maxQueued: 1, maxParked: 1 });
    expect(limiter.enabled).toBe(true);
    expect(limiter.stats()).toEqual({
      name: 'test',
      enabled: true,
      closed: false,
      held: 0,
      waiting: 0,
      waitingOpen: 0,
      parked: 0,
      declaredBytes: 0,
      pinnedBytes: 0,
      admitted: 0,
      refused: { full: 0, timeout: 0, aborted: 0, closed: 0 },
      refusedEarly: 0,
      longestWaitMs: 0,
    });
    take(limiter, { pinBytes: 3 }).park();
    take(limiter, { pinBytes: 4 });
    void limiter.acquire();
    await limiter.acquire();
    const before = limiter.stats();
    clock.advance(1000);
    expect(before.refused.timeout).toBe(0); // a copy, not a view
    expect(limiter.stats()).toEqual({
      name: 'test',
      enabled: true,
      closed: false,
      held: 1,
      waiting: 0,
      waitingOpen: 0,
      parked: 1,
      declaredBytes: 7,
      pinnedBytes: 7,
      admitted: 2,
      refused: { full: 1, timeout: 1, aborted: 0, closed: 0 },
      refusedEarly: 0,
      longestWaitMs: 0,
    });
  });
});
