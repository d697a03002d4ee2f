import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { anyStep, World } from '../../../test/support/ledger-world.ts';

/**
 * Any sequence of full copies, deltas and ticks, with bouncers that come and go, and restarts.
 *
 * HEADGATE_MODEL_RUNS sets the number of sequences, HEADGATE_MODEL_SEED repeats a run.
 *
 * It fails when any of these is removed or loosened in `Transition`: the `touched` of a row that is held back, what
 * #logHeldBack and #logOutlived add, the margin, what #alike compares, that a row removed by an earlier commit tells
 * bouncers nothing; in `Merge`, that what is over is removed, that simulated rows stay, that ends are trimmed.
 */
const RUNS = Number(process.env['HEADGATE_MODEL_RUNS'] ?? 200);
const SEED = process.env['HEADGATE_MODEL_SEED'];
vi.setConfig({ testTimeout: 60_000 + RUNS * 100 });

describe('any sequence of what sources tell, time and restarts', () => {
  it('leaves what the sources said, and brings every bouncer to the present', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyStep, { minLength: 1, maxLength: 25 }),
        fc.infiniteStream(fc.double({ min: 0, max: 0.999, noNaN: true })),
        async (steps, numbers) => {
          const world = new World(() => numbers.next().value as number);
          for (const step of steps) {
            await world.do(step);
            expect(() => world.check()).not.toThrow();
          }
        },
      ),
      { numRuns: RUNS, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
    );
  });
});
