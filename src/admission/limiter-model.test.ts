import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { type AcquireRequest, type Answer, Limiter, type LimiterOptions, type Slot } from './index.ts';

/**
 * The limiter against a specification that is slow and plain: arrays, searched from the front, and no promises,
 * timers or listeners. Random interleavings of everything that can happen are run on both; after each step the
 * numbers and everybody's answers must be the same.
 *
 * HEADGATE_MODEL_RUNS sets the number of interleavings, HEADGATE_MODEL_SEED repeats a run.
 */
const RUNS = Number(process.env['HEADGATE_MODEL_RUNS'] ?? 1000);
const SEED = process.env['HEADGATE_MODEL_SEED'];

type OnHeld = 'nothing' | 'release' | 'park' | 'acquire' | 'close';
type Signal = 'none' | 'live' | 'aborted';

interface Ask {
  readonly tenant: string;
  readonly klass: 'server' | 'public';
  readonly returning: boolean;
  readonly bytes: number;
  readonly waitMs: number | undefined;
  readonly open: boolean;
  readonly signal: Signal;
}

type SlotStep =
  | { readonly do: 'release' | 'park'; readonly pick: number }
  | { readonly do: 'resume'; readonly pick: number; readonly onHeld: OnHeld }
  | { readonly do: 'pin'; readonly pick: number; readonly bytes: number };

type Step =
  | { readonly do: 'acquire' | 'try'; readonly ask: Ask }
  | { readonly do: 'abort'; readonly pick: number }
  | { readonly do: 'abortReleasing'; readonly pick: number; readonly other: number }
  | SlotStep
  | { readonly do: 'gauge'; readonly bytes: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'recheck' | 'close' };

/** What somebody was told: `12 admitted after 5`, `12 full after 0`, `12 held again`. */
type Told = string;

interface Settings {
  readonly maxConcurrent: number;
  readonly maxQueued: number;
  readonly maxParked: number;
  readonly maxPinnedBytes: number;
  readonly fairness: 'tenant' | 'off';
}

const WAIT_MS_MAX = 10;
const CALLBACK_ASK: Ask = {
  tenant: 'a',
  klass: 'server',
  returning: false,
  bytes: 0,
  waitMs: 5,
  open: false,
  signal: 'none',
};

interface SpecWaiter {
  readonly id: number;
  readonly ask: Ask;
  readonly sinceMs: number;
  readonly dueMs: number;
  aborted: boolean;
}

interface SpecSlot {
  readonly id: number;
  state: 'held' | 'parked' | 'released';
  bytes: number;
  onHeld: OnHeld | undefined;
}

class Spec {
  readonly settings: Settings;
  nowMs = 0;
  gauge = 0;
  closed = false;
  callers = 0;
  slots: SpecSlot[] = [];
  line: SpecSlot[] = [];
  queue: SpecWaiter[] = [];
  stuck: SpecWaiter | undefined;
  serverRun = 0;
  /** Tenants of both classes, whoever had its turn longest ago first; tenants nobody waits for are dropped. */
  turns: string[] = [];
  firstRuns = new Map<string, number>();
  told: Told[] = [];
  toTell: SpecSlot[] = [];
  telling = false;

  constructor(settings: Settings) {
    this.settings = settings;
  }

  count(state: SpecSlot['state']): number {
    return this.slots.filter((slot) => slot.state === state).length;
  }

  get declared(): number {
    return this.slots.filter((slot) => slot.state !== 'released').reduce((sum, slot) => sum + slot.bytes, 0);
  }

  get waiting(): number {
    return this.queue.filter((waiter) => !waiter.ask.open).length;
  }

  fits(bytes: number): boolean {
    if (this.count('held') + this.count('parked') === 0) return true;
    return this.declared + this.gauge + bytes <= this.settings.maxPinnedBytes;
  }

  ask(ask: Ask, queued: boolean): void {
    const id = this.callers++;
    this.pump();
    const refuse = (reason: string): void => void this.told.push(`${id} ${reason} after 0`);
    if (this.closed) return refuse('closed');
    if (ask.signal === 'aborted') return refuse('aborted');
    const free = this.count('held') < this.settings.maxConcurrent && this.line.length === 0 && this.queue.length === 0;
    if (free && this.fits(ask.bytes)) return this.admit(id, ask.bytes, 0);
    if (!queued || (!ask.open && this.waiting >= this.settings.maxQueued)) return refuse('full');
    const waitMs = ask.open ? Infinity : (ask.waitMs ?? WAIT_MS_MAX);
    if (waitMs === 0) return refuse('timeout');
    this.queue.push({ id, ask, sinceMs: this.nowMs, dueMs: this.nowMs + waitMs, aborted: false });
    if (!this.turns.includes(this.tenantOf(ask))) this.turns.push(this.tenantOf(ask));
  }

  admit(id: number, bytes: number, waitedMs: number): void {
    this.slots.push({ id, state: 'held', bytes, onHeld: undefined });
    this.told.push(`${id} admitted after ${waitedMs}`);
  }

  tenantOf(ask: Ask): string {
    return this.settings.fairness === 'off' ? '' : `${ask.klass}:${ask.tenant}`;
  }

  /** Who is next, by the rules: 8 servers to 1 public, tenants in turn, 7 first-time to 1 returning, then by arrival. */
  next(): SpecWaiter | undefined {
    if (this.settings.fairness === 'off') return this.queue[0];
    const publics = this.queue.filter((waiter) => waiter.ask.klass === 'public');
    const servers = this.queue.filter((waiter) => waiter.ask.klass === 'server');
    const group = publics.length > 0 && (servers.length === 0 || this.serverRun === 8) ? publics : servers;
    const tenant = this.turns.find((name) => group.some((waiter) => this.tenantOf(waiter.ask) === name));
    const own = group.filter((waiter) => this.tenantOf(waiter.ask) === tenant);
    const first = own.find((waiter) => !waiter.ask.returning);
    const returning = own.find((waiter) => waiter.ask.returning);
    const returningsTurn = this.firstRuns.get(tenant ?? '') === 7;
    return returningsTurn ? (returning ?? first) : (first ?? returning);
  }

  endTurn(waiter: SpecWaiter): void {
    const { klass, returning } = waiter.ask;
    const passes = (over: (other: SpecWaiter) => boolean): boolean => this.queue.some(over);
    const tenant = this.tenantOf(waiter.ask);
    const publicWaits = passes((other) => other.ask.klass === 'public');
    this.serverRun = klass === 'server' && publicWaits ? this.serverRun + 1 : 0;
    const returningWaits = passes((other) => this.tenantOf(other.ask) === tenant && other.ask.returning);
    this.firstRuns.set(tenant, !returning && returningWaits ? (this.firstRuns.get(tenant) ?? 0) + 1 : 0);
    this.turns = [...this.turns.filter((name) => name !== tenant), tenant];
    this.leave(waiter);
  }

  leave(waiter: SpecWaiter): void {
    this.queue = this.queue.filter((other) => other !== waiter);
    if (this.stuck === waiter) this.stuck = undefined;
    for (const name of this.turns) {
      if (!this.queue.some((other) => this.tenantOf(other.ask) === name)) this.firstRuns.delete(name);
    }
    this.turns = this.turns.filter((name) => this.queue.some((other) => this.tenantOf(other.ask) === name));
  }

  turnAway(waiter: SpecWaiter, reason: string): void {
    this.leave(waiter);
    this.told.push(`${waiter.id} ${reason} after ${this.nowMs - waiter.sinceMs}`);
  }

  pump(): void {
    while (this.count('held') < this.settings.maxConcurrent) {
      const resumed = this.line.shift();
      if (resumed !== undefined) {
        resumed.state = 'held';
        this.toTell.push(resumed);
        continue;
      }
      this.stuck ??= this.next();
      const waiter = this.stuck;
      if (waiter === undefined) break;
      if (waiter.aborted) {
        this.turnAway(waiter, 'aborted');
        continue;
      }
      if (!this.fits(waiter.ask.bytes)) break;
      this.endTurn(waiter);
      this.admit(waiter.id, waiter.ask.bytes, this.nowMs - waiter.sinceMs);
    }
    this.tell();
  }

  tell(): void {
    if (this.telling) return;
    this.telling = true;
    for (let slot = this.toTell.shift(); slot !== undefined; slot = this.toTell.shift()) this.callBack(slot);
    this.telling = false;
  }

  callBack(slot: SpecSlot): void {
    const onHeld = slot.onHeld;
    slot.onHeld = undefined;
    if (onHeld === undefined) return;
    this.told.push(`${slot.id} held again`);
    if (onHeld === 'release') this.release(slot);
    if (onHeld === 'park') this.park(slot);
    if (onHeld === 'acquire') this.ask(CALLBACK_ASK, true);
    if (onHeld === 'close') this.close();
  }

  release(slot: SpecSlot): void {
    if (slot.state === 'released') return;
    slot.state = 'released';
    slot.onHeld = undefined;
    this.line = this.line.filter((other) => other !== slot);
    this.pump();
  }

  park(slot: SpecSlot): boolean {
    if (slot.state !== 'held' || this.count('parked') >= this.settings.maxParked) return false;
    slot.state = 'parked';
    this.pump();
    return true;
  }

  resume(slot: SpecSlot, onHeld: OnHeld): void {
    if (slot.state === 'released') return;
    slot.onHeld = onHeld;
    if (slot.state === 'held') return this.callBack(slot);
    if (!this.line.includes(slot)) this.line.push(slot);
    this.pump();
  }

  pin(slot: SpecSlot, bytes: number): void {
    if (slot.state === 'released') return;
    slot.bytes = bytes;
    this.pump();
  }

  abort(id: number, before: () => void): void {
    const waiter = this.queue.find((other) => other.id === id);
    if (waiter !== undefined) waiter.aborted = true;
    before();
    if (waiter === undefined || !this.queue.includes(waiter)) return;
    this.turnAway(waiter, 'aborted');
    this.pump();
  }

  close(): void {
    this.closed = true;
    for (const waiter of this.queue) this.turnAway(waiter, 'closed');
  }

  advance(ms: number): void {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const dueMs = Math.min(...this.queue.map((waiter) => waiter.dueMs));
      if (dueMs > untilMs) break;
      this.nowMs = dueMs;
      this.pump();
      for (const waiter of this.queue) if (waiter.dueMs <= dueMs) this.turnAway(waiter, 'timeout');
      this.pump();
    }
    this.nowMs = untilMs;
  }
}

/** The limiter itself, driven by the same steps. */
class Real {
  readonly clock = new FakeClock();
  readonly limiter: Limiter;
  gauge = 0;
  callers = 0;
  told: Told[] = [];
  readonly slots = new Map<number, Slot>();
  readonly controllers = new Map<number, AbortController>();
  readonly beforeAbort = new Map<number, () => void>();

  constructor(settings: Settings) {
    const options: LimiterOptions = {
      name: 'model',
      waitMsMax: WAIT_MS_MAX,
      clock: this.clock,
      earlyShed: false,
      ...settings,
    };
    this.limiter = new Limiter({ ...options, pinnedBytes: () => this.gauge });
  }

  ask(ask: Ask, queued: boolean): void {
    const id = this.callers++;
    const controller = new AbortController();
    if (ask.signal === 'aborted') controller.abort();
    this.controllers.set(id, controller);
    controller.signal.addEventListener('abort', () => this.beforeAbort.get(id)?.());
    const request: AcquireRequest = {
      tenant: ask.tenant,
      klass: ask.klass,
      returning: ask.returning,
      pinBytes: ask.bytes,
      outsideQueueBound: ask.open,
      ...(ask.waitMs === undefined ? {} : { waitMsMax: ask.waitMs }),
      ...(ask.signal === 'none' ? {} : { signal: controller.signal }),
    };
    if (queued) void this.limiter.acquire(request).then((answer) => this.answered(id, answer));
    else this.answered(id, this.limiter.tryAcquire(request));
  }

  answered(id: number, answer: Answer): void {
    if (answer.admitted) this.slots.set(id, answer.slot);
    const waitedMs = answer.admitted ? answer.slot.waitedMs : answer.waitedMs;
    this.told.push(`${id} ${answer.admitted ? 'admitted' : answer.reason} after ${waitedMs}`);
  }

  slot(id: number): Slot {
    const slot = this.slots.get(id);
    if (slot === undefined) throw new Error(`caller ${id} has no slot`);
    return slot;
  }

  resume(id: number, onHeld: OnHeld): void {
    const slot = this.slot(id);
    slot.resume(() => {
      this.told.push(`${id} held again`);
      if (slot.state !== 'held') this.told.push(`but it is ${slot.state}`);
      if (onHeld === 'release') slot.release();
      if (onHeld === 'park') slot.park();
      if (onHeld === 'acquire') this.ask(CALLBACK_ASK, true);
      if (onHeld === 'close') this.limiter.close();
    });
  }

  abort(id: number, before: () => void): void {
    this.beforeAbort.set(id, before);
    this.controllers.get(id)?.abort();
    this.beforeAbort.delete(id);
  }
}

function pickFrom<T>(items: readonly T[], pick: number): T | undefined {
  return items[pick % items.length];
}

function apply(step: Step, spec: Spec, real: Real): void {
  switch (step.do) {
    case 'acquire':
    case 'try':
      spec.ask(step.ask, step.do === 'acquire');
      return real.ask(step.ask, step.do === 'acquire');
    case 'abort':
    case 'abortReleasing': {
      const waiter = pickFrom(
        spec.queue.filter(({ ask }) => ask.signal === 'live'),
        step.pick,
      );
      if (waiter === undefined) return;
      const slot = step.do === 'abort' ? undefined : pickFrom(spec.slots, step.other);
      spec.abort(waiter.id, () => slot !== undefined && spec.release(slot));
      return real.abort(waiter.id, () => slot !== undefined && real.slot(slot.id).release());
    }
    case 'gauge':
      spec.gauge = step.bytes;
      real.gauge = step.bytes;
      return;
    case 'advance':
      spec.advance(step.ms);
      return real.clock.advance(step.ms);
    case 'recheck':
      spec.pump();
      return real.limiter.recheck();
    case 'close':
      spec.close();
      return real.limiter.close();
    case 'release':
    case 'park':
    case 'resume':
    case 'pin': {
      const slot = pickFrom(spec.slots, step.pick);
      if (slot !== undefined) applyToSlot(step, slot, { spec, real });
    }
  }
}

function applyToSlot(step: SlotStep, slot: SpecSlot, { spec, real }: { spec: Spec; real: Real }): void {
  const realSlot = real.slot(slot.id);
  switch (step.do) {
    case 'release':
      spec.release(slot);
      return realSlot.release();
    case 'park':
      return expect(realSlot.park()).toBe(spec.park(slot));
    case 'resume':
      spec.resume(slot, step.onHeld);
      return real.resume(slot.id, step.onHeld);
    case 'pin':
      spec.pin(slot, step.bytes);
      return realSlot.pin(step.bytes);
  }
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await Promise.resolve();
}

function compare(spec: Spec, real: Real): void {
  const { held, waiting, waitingOpen, parked, declaredBytes, closed } = real.limiter.stats();
  const expected = {
    held: spec.count('held'),
    waiting: spec.waiting,
    waitingOpen: spec.queue.length - spec.waiting,
    parked: spec.count('parked'),
    declaredBytes: spec.declared,
    closed: spec.closed,
    told: spec.told.toSorted(),
  };
  const got = { held, waiting, waitingOpen, parked, declaredBytes, closed, told: real.told.toSorted() };
  if (JSON.stringify(got) !== JSON.stringify(expected)) expect(got).toEqual(expected); // toEqual costs too much per step
  if (held > spec.settings.maxConcurrent || waiting > spec.settings.maxQueued || parked > spec.settings.maxParked) {
    throw new Error(`out of bounds: ${held} held, ${waiting} waiting, ${parked} parked`);
  }
  if (real.clock.armed > 1) throw new Error(`${real.clock.armed} timers for one queue`);
  spec.told = [];
  real.told = [];
}

async function run(settings: Settings, steps: readonly Step[]): Promise<void> {
  const spec = new Spec(settings);
  const real = new Real(settings);
  for (const step of steps) {
    apply(step, spec, real);
    await settled();
    compare(spec, real);
  }
  // whatever happened: closed and released, everything is back at zero
  spec.close();
  real.limiter.close();
  for (const slot of spec.slots) spec.release(slot);
  const drained = real.limiter.drain();
  for (const slot of real.slots.values()) slot.release();
  await drained;
  await settled();
  compare(spec, real);
  expect([real.limiter.held, real.limiter.waiting, real.limiter.parked, real.clock.armed]).toEqual([0, 0, 0, 0]);
}

const number = (max: number): fc.Arbitrary<number> => fc.integer({ min: 0, max });

const ask: fc.Arbitrary<Ask> = fc.record({
  tenant: fc.constantFrom('a', 'b', 'c'),
  klass: fc.constantFrom('server', 'public'),
  returning: fc.boolean(),
  bytes: fc.constantFrom(0, 0, 1, 4, 20),
  waitMs: fc.constantFrom(undefined, undefined, 0, 3, 7, Infinity),
  open: fc.constantFrom(false, false, false, true),
  signal: fc.constantFrom<Signal>('none', 'live', 'live', 'aborted'),
});

const onHeld = fc.constantFrom<OnHeld>(
  ...(['nothing', 'nothing', 'nothing', 'release', 'park', 'acquire', 'close'] as const),
);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 48, arbitrary: fc.record({ do: fc.constant('acquire' as const), ask }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('try' as const), ask }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('abort' as const), pick: number(50) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('abortReleasing' as const), pick: number(50), other: number(50) }),
  },
  { weight: 24, arbitrary: fc.record({ do: fc.constant('release' as const), pick: number(50) }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('park' as const), pick: number(50) }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('resume' as const), pick: number(50), onHeld }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('pin' as const), pick: number(50), bytes: number(12) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('gauge' as const), bytes: number(12) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('recheck' as const) }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: number(12) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('close' as const) }) },
);

const settings: fc.Arbitrary<Settings> = fc.record({
  maxConcurrent: fc.integer({ min: 1, max: 4 }),
  maxQueued: number(20),
  maxParked: number(3),
  maxPinnedBytes: fc.constantFrom(0, 10, 10, Infinity),
  fairness: fc.constantFrom('tenant', 'tenant', 'tenant', 'off'),
});

describe('the limiter and its specification', () => {
  it(
    `agree on ${RUNS} interleavings`,
    async () => {
      await fc.assert(fc.asyncProperty(settings, fc.array(step, { maxLength: 100, size: 'max' }), run), {
        numRuns: RUNS,
        ...(SEED === undefined ? {} : { seed: Number(SEED) }),
      });
    },
    Math.max(60_000, RUNS * 20),
  );
});
