import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProgressDeadline, type ProgressDeadlineOptions, type Verdict } from './deadline.ts';

const FLOOR = 65_536;
const PAGE = 65_536;
const SLACK_MS = 10_000;
const CREDIT_MS = 5_000;

function deadline(options: Partial<ProgressDeadlineOptions> = {}): ProgressDeadline {
  return new ProgressDeadline({ floorBytesPerSecond: FLOOR, slackMs: SLACK_MS, creditMs: CREDIT_MS, ...options });
}

/** Writes pages to a reader that takes each after `msOf(i)`; looks every 250 ms. The first verdict that is not fine. */
function run(
  guard: ProgressDeadline,
  pages: number,
  msOf: (index: number) => number,
): { verdict: Verdict; atMs: number } {
  let nowMs = 0;
  for (let i = 0; i < pages; i++) {
    guard.wrote(PAGE, nowMs);
    const takenAtMs = nowMs + msOf(i);
    for (; nowMs + 250 < takenAtMs; nowMs += 250) {
      const verdict = guard.verdict(nowMs + 250);
      if (verdict !== 'fine') return { verdict, atMs: nowMs + 250 };
    }
    nowMs = takenAtMs;
    guard.took(nowMs);
  }
  return { verdict: guard.verdict(nowMs), atMs: nowMs };
}

describe('a progress deadline', () => {
  it('gives the floor time of the write and the slack, not a millisecond more', () => {
    const guard = deadline();
    guard.wrote(PAGE, 500);
    expect(guard.verdict(500 + 1000 + SLACK_MS)).toBe('fine');
    expect(guard.verdict(500 + 1000 + SLACK_MS + 1)).toBe('stalled');
  });

  // Fault 8, one half: a flat deadline per delivery cuts a healthy slow client, which then comes back for ever.
  it('never cuts a steady reader at the floor rate, however large the delivery', () => {
    const guard = deadline({ bytes: 2000 * PAGE });
    expect(run(guard, 2000, () => 1000)).toEqual({ verdict: 'fine', atMs: 2_000_000 });
  });

  it('never cuts a reader at the floor rate whose kernel reports in bursts shorter than the slack', () => {
    const guard = deadline({ bytes: 1000 * PAGE });
    expect(run(guard, 1000, (i) => (i % 10 === 0 ? 10_000 : 0)).verdict).toBe('fine');
  });

  // Fault 8, the other half: a deadline that is re-armed by each write lets a drip hold its slot until the cap.
  // Fails when #behindMs is not carried from write to write.
  it('cuts a drip below the floor, however regular', () => {
    const half = run(deadline(), 1000, () => 2000);
    expect(half.verdict).toBe('stalled');
    expect(half.atMs).toBeLessThanOrEqual((SLACK_MS + 2000) * 2);
    const nearly = run(deadline(), 1000, () => 1100);
    expect(nearly.verdict).toBe('stalled');
    expect(nearly.atMs).toBeLessThanOrEqual((SLACK_MS + 2000) * 11);
  });

  // Fails when took() does not bound the lead by #creditMs.
  it('catches a fast reader that stops within slack and credit', () => {
    const guard = deadline();
    for (let i = 0; i < 1000; i++) {
      guard.wrote(PAGE, i);
      guard.took(i);
    }
    guard.wrote(PAGE, 2000);
    expect(guard.verdict(2000 + SLACK_MS + CREDIT_MS + 1000)).toBe('fine');
    expect(guard.verdict(2000 + SLACK_MS + CREDIT_MS + 1001)).toBe('stalled');
  });

  // Rule 9. Fails when the time between took() and wrote() is counted.
  it('charges nothing while no write waits for the reader', () => {
    const guard = deadline({ capMs: 5000 });
    guard.wrote(PAGE, 0);
    guard.took(100);
    expect(guard.verdict(1_000_000)).toBe('fine');
    guard.wrote(PAGE, 1_000_000);
    expect(guard.verdict(1_000_000 + 4900)).toBe('fine');
    expect(guard.verdict(1_000_000 + 4901)).toBe('capped');
  });

  it('judges nobody whose turn it is not', () => {
    const guard = deadline();
    guard.wrote(PAGE, 0);
    guard.took(60_000);
    expect(guard.verdict(60_000)).toBe('fine');
    guard.wrote(PAGE, 60_000);
    expect(guard.verdict(60_000)).toBe('stalled');
  });

  it('says how long the write that is out has waited', () => {
    const guard = deadline();
    expect(guard.waitedMs(70)).toBe(0);
    guard.wrote(PAGE, 100);
    expect(guard.waitedMs(170)).toBe(70);
    guard.took(180);
    expect(guard.waitedMs(200)).toBe(0);
  });
});

describe('the cap', () => {
  it('is two minutes, or twice what the floor rate needs, whichever is more', () => {
    const small = deadline({ bytes: PAGE, slackMs: Number.POSITIVE_INFINITY });
    small.wrote(PAGE, 0);
    expect(small.verdict(120_000)).toBe('fine');
    expect(small.verdict(120_001)).toBe('capped');
    const large = deadline({ bytes: 100 * PAGE, slackMs: Number.POSITIVE_INFINITY });
    large.wrote(PAGE, 0);
    expect(large.verdict(200_000)).toBe('fine');
    expect(large.verdict(200_001)).toBe('capped');
  });

  it('grows with what was written when the size is not known', () => {
    const guard = deadline({ slackMs: Number.POSITIVE_INFINITY });
    guard.wrote(100 * PAGE, 0);
    expect(guard.verdict(200_000)).toBe('fine');
    expect(guard.verdict(200_001)).toBe('capped');
  });

  it('is what was asked for, and may be none', () => {
    const fixed = deadline({ capMs: 3000, bytes: 1000 * PAGE });
    expect(run(fixed, 1000, () => 500)).toEqual({ verdict: 'capped', atMs: 3250 });
    const none = deadline({ capMs: Number.POSITIVE_INFINITY, slackMs: Number.POSITIVE_INFINITY });
    none.wrote(PAGE, 0);
    expect(none.verdict(1e12)).toBe('fine');
  });
});

describe('any reader', () => {
  const gaps = fc.array(fc.integer({ min: 0, max: 4000 }), { minLength: 1, maxLength: 200 });

  it('is never cut while every stretch of it holds the floor less the slack', () => {
    fc.assert(
      fc.property(gaps, (msOf) => {
        // behind: the worst stretch so far, ending now; the reader waits wherever a page would make it worse than the slack
        let behindMs = 0;
        const ms = msOf.map((gap) => {
          const taken = Math.min(gap, SLACK_MS + 1000 - behindMs);
          behindMs = Math.max(0, behindMs + taken - 1000);
          return taken;
        });
        expect(run(deadline(), ms.length, (i) => ms[i] ?? 0).verdict).toBe('fine');
      }),
    );
  });

  it('is cut soon after it stops, whatever it did before', () => {
    fc.assert(
      fc.property(gaps, (msOf) => {
        const guard = deadline();
        const { verdict, atMs } = run(guard, msOf.length, (i) => msOf[i] ?? 0);
        fc.pre(verdict === 'fine');
        guard.wrote(PAGE, atMs);
        expect(guard.verdict(atMs + SLACK_MS + CREDIT_MS + 1001)).toBe('stalled');
      }),
    );
  });

  it('is fine at any time before the floor time of its first write', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1 << 20 }), fc.integer({ min: 0, max: SLACK_MS }), (bytes, ms) => {
        const guard = deadline();
        guard.wrote(bytes, 0);
        expect(guard.verdict(ms)).toBe('fine');
      }),
    );
  });
});
