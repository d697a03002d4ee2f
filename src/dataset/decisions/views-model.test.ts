import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { decision, expectedFull, groupOf, Wall } from '../../../test/support/views-kit.ts';
import { Bouncer, type Command, FILTERS, History, World } from '../../../test/support/views-world.ts';
import { Ledger } from './ledger.ts';
import type { Decision, Filter } from './types.ts';
import { Views } from './views.ts';

/** Some of them equal. */
const anySpan = fc.oneof(
  fc.constantFrom(20_000, 60_000, 3_600_000),
  fc.integer({ min: 1, max: 40_000 }),
  fc.integer({ min: 1, max: 400_000_000 }),
);

/** Decisions that came before come again, by number, with another end. */
const again = fc.array(fc.record({ which: fc.nat(), untilMs: anySpan }), { maxLength: 4 });

/** Few values, so that groups have several rows. */
const anyDecision: fc.Arbitrary<Decision> = fc
  .record({
    id: fc.nat({ max: 60 }),
    value: fc.constantFrom('192.0.2.1', '192.0.2.2', '192.0.2.3', '2001:db8::1', '192.0.2.0/24', '<>&é'),
    origin: fc.constantFrom('cscli', 'CAPI'),
    scenario: fc.constantFrom('ssh-bf', 'http'),
    scope: fc.constantFrom('Ip', 'Range', 'Country'),
    type: fc.constantFrom('ban', 'captcha'),
    simulated: fc.constantFrom(false, false, false, true),
    uuid: fc.constantFrom('u', undefined),
    untilMs: anySpan,
  })
  .map(({ id, ...more }) => decision(id, more));

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant('commit' as const),
      added: fc.array(anyDecision, { maxLength: 6 }),
      again,
      removedIds: fc.array(fc.nat({ max: 60 }), { maxLength: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant('time' as const),
      byMs: fc.oneof(fc.integer({ min: -900, max: 1500 }), fc.integer({ min: 0, max: 4_000_000 })),
      tick: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constant('open' as const),
      what: fc.nat({ max: FILTERS.length - 1 }),
      kind: fc.constantFrom('full' as const, 'delta' as const),
      dedup: fc.boolean(),
      gzip: fc.boolean(),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      act: fc.constant('step' as const),
      which: fc.nat(),
      bytes: fc.constantFrom(1, 300, 65_536),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('leave' as const), which: fc.nat() }) },
);

/** Small pages, so that they split and join; and with nothing small or short, everything takes the way of what is large. */
const options = fc.record({
  pageItemsMax: fc.constantFrom(1, 2, 5, 8, 1000),
  smallBytesMax: fc.constantFrom(0, 262_144),
  entriesAtOnceMax: fc.constantFrom(0, 2048),
});

/** `HEADGATE_MODEL_RUNS` makes it search for longer. */
const RUNS = Number(process.env['HEADGATE_MODEL_RUNS'] ?? 120);
vi.setConfig({ testTimeout: 60_000 + 200 * RUNS });

describe('readers of any answer', () => {
  it('get what the rows say, whole, with durations that are right, whatever happens meanwhile', async () => {
    await fc.assert(
      fc.asyncProperty(options, fc.array(command, { maxLength: 60, size: 'max' }), async (o, commands) => {
        const world = new World(o);
        for (const each of commands) await world.run(each);
        await world.end();
        // a page that was being compressed ahead, for a reader that left, is held until that is done
        await vi.waitFor(() => expect(world.views.pinnedBytes).toBe(0));
      }),
      { numRuns: RUNS },
    );
  });
});

describe('bouncers', () => {
  /** What a bouncer knows against what there is. */
  function compare(ledger: Ledger, bouncer: Bouncer): void {
    const { rows } = ledger;
    const live = new Map(expectedFull(ledger, bouncer.filter, true).fresh.map((row) => [groupOf(rows, row), row]));
    expect([...bouncer.ends.keys()].toSorted()).toEqual([...live.keys()].toSorted());
    for (const [group, row] of live) {
      const end = bouncer.ends.get(group) as number;
      expect(end).toBeGreaterThanOrEqual(rows.toldMs[row] as number);
      // without dedup the longest that it was told counts, which may be gone by now
      expect(end).toBeLessThan(bouncer.dedup ? (rows.untilMs[row] as number) + 2000 : Number.POSITIVE_INFINITY);
    }
  }

  const step = fc.record({
    added: fc.array(anyDecision, { maxLength: 5 }),
    again,
    removedIds: fc.array(fc.nat({ max: 60 }), { maxLength: 3 }),
    byMs: fc.oneof(fc.integer({ min: 0, max: 5000 }), fc.constant(0)),
    polls: fc.array(fc.nat({ max: 3 }), { maxLength: 4 }),
  });

  // With the real margin, so that later ends are held back: a bouncer may know an earlier end, but never one that has passed.
  it('hold what a full answer holds after each poll, and no ban ends early', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30, size: 'max' }), fc.integer(), async (steps, seed) => {
        let random = seed >>> 0;
        const ledger = new Ledger({
          keepExpiredMs: 20_000,
          random: () => (random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32,
        });
        const wall = new Wall();
        const views = new Views(ledger, { wallNow: wall.now, pageItemsMax: 2 });
        const bouncers = [0, 1, 2, 3].map((at) => new Bouncer(FILTERS[at] as Filter, at % 2 === 0));
        const history = new History();
        for (const { added, again: renewed, removedIds, byMs, polls } of steps) {
          wall.ms += byMs;
          const nowMs = wall.ms;
          await ledger.patch(0, { added: history.next(added, renewed, nowMs), removedIds }, { nowMs, toleranceMs: 0 });
          await ledger.tick(nowMs);
          for (const which of polls) {
            const bouncer = bouncers[which] as Bouncer;
            await bouncer.poll(ledger, views, wall);
            expect(bouncer.cursor).toBe(ledger.offset);
            compare(ledger, bouncer);
          }
        }
      }),
      { numRuns: RUNS / 2 },
    );
  });
});
