import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FakeChannel, FakeSlot, pages, Turns } from '../../test/support/delivery-fakes.ts';
import { FakeClock } from '../kernel/index.ts';
import { Deliveries, type Report, type Source } from './deliveries.ts';

type Step = readonly [
  what: 'begin' | 'take' | 'close' | 'fail' | 'answer' | 'hold' | 'pass' | 'turn' | 'give',
  which: number,
];

interface Entry {
  readonly channel: FakeChannel;
  readonly slot: FakeSlot;
  readonly reports: Report[];
  /** Gives the pieces that an asynchronous source is asked for. */
  give: (() => void) | undefined;
}

/** One of five kinds of source: sync, async, one that throws halfway, one that rejects halfway, one that lies. */
function sourceOf(kind: number, entry: Entry): Source {
  const page = Buffer.alloc(40_000);
  let left = 1 + (kind % 4);
  const bytes = left * page.byteLength;
  if (kind % 5 === 0) return pages(left, page);
  if (kind % 5 === 4) return { ...pages(left, page), bytes: bytes + 1 };
  const next: Source['next'] = () => {
    if (left-- > 0) {
      if (kind % 5 === 1) return new Promise((resolve) => (entry.give = () => resolve([page])));
      return [page];
    }
    if (kind % 5 === 2) throw new Error('no page');
    if (kind % 5 === 3) return Promise.reject(new Error('no page'));
    return undefined;
  };
  return { bytes: undefined, next };
}

/** Promises settle between two steps. */
const microtasks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function run(steps: readonly Step[], shutsDown: boolean): Promise<void> {
  const clock = new FakeClock();
  const turns = new Turns();
  const engine = new Deliveries({
    clock,
    nextTurn: turns.nextTurn,
    slackMs: 500,
    creditMs: 100,
    turnBytesMax: 100_000,
  });
  const entries: Entry[] = [];
  const pick = (which: number): Entry | undefined => entries[which % Math.max(1, entries.length)];
  for (const [what, which] of steps) {
    const entry = pick(which);
    if (what === 'begin') {
      const begun: Entry = { channel: new FakeChannel(), slot: new FakeSlot(), reports: [], give: undefined };
      const { channel, slot, reports } = begun;
      channel.open = which % 3 === 0;
      entries.push(begun);
      const onEnd = (report: Report): void => void reports.push(report);
      const options = { channel, slot, source: sourceOf(which, begun), onEnd, guarded: which % 7 !== 0 };
      void engine.deliver(which % 2 === 0 ? options : { ...options, parking: () => which % 4 === 1 });
    } else if (what === 'take') entry?.channel.take();
    else if (what === 'close') entry?.channel.close();
    else if (what === 'fail') entry?.channel.answer(new Error('EPIPE'));
    else if (what === 'answer') entry?.channel.answer();
    else if (what === 'hold') entry?.slot.hold();
    else if (what === 'give') entry?.give?.();
    else if (what === 'pass') clock.advance(which % 700);
    else turns.turn();
    if (what === 'give') await microtasks();
    const held = entries.filter(({ slot }) => slot.releases === 0).length;
    expect(engine.active).toBe(held);
  }
  if (shutsDown) engine.shutdown();
  for (const { channel } of entries) channel.close();
  turns.settle();
  await microtasks();
  for (const { slot, reports, channel } of entries) {
    expect([slot.releases, reports.length]).toEqual([1, 1]);
    expect(channel.kills).toBeLessThanOrEqual(1);
    // Rule 1: what did not complete is dead, and nobody ended it cleanly
    const isWhole = reports[0]?.outcome === 'completed';
    expect(isWhole || (channel.dead && channel.ends === 0)).toBe(true);
  }
  const { ended, started, parked } = engine.stats();
  expect(Object.values(ended).reduce((sum, count) => sum + count, 0)).toBe(started);
  expect([engine.active, parked, clock.armed]).toEqual([0, 0, 0]);
}

// Rule 5: counters return to zero after any storm. Fails when #finish forgets any of its counters, or runs twice.
it('leaves nothing behind after any storm', async () => {
  const what = fc.constantFrom<Step[0]>(
    'begin',
    'begin',
    'take',
    'take',
    'close',
    'fail',
    'answer',
    'hold',
    'pass',
    'turn',
    'turn',
    'give',
  );
  const steps = fc.array(fc.tuple(what, fc.nat({ max: 1000 })), { minLength: 1, maxLength: 60, size: 'max' });
  await fc.assert(fc.asyncProperty(steps, fc.boolean(), run), { numRuns: 600 });
}, 30_000);
