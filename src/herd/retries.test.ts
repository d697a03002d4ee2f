import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Profile, profileOf } from './profiles.ts';
import { Retries } from './retries.ts';
import { HERD_KINDS, HERD_SDKS } from './words.ts';

const ALL: readonly Profile[] = HERD_KINDS.flatMap((kind) => HERD_SDKS[kind].map((sdk) => profileOf(kind, sdk)));
const nameOf = ({ kind, sdk }: Profile): string => `${kind} of ${sdk}`;
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const STREAMS = ALL.filter(({ isStream }) => isStream);

describe('the waits of a stream', () => {
  it.each(STREAMS.map((profile) => [nameOf(profile), profile] as const))(
    'double from one second to thirty, less up to half, for %s',
    (_, profile) => {
      fc.assert(
        fc.property(random, fc.integer({ min: 1, max: 12 }), (chance, attempts) => {
          const retries = new Retries(profile, () => chance);
          for (let attempt = 0; attempt < attempts; attempt++) {
            const full = Math.min(30_000, 1000 * 2 ** attempt);
            expect(retries.failed({ status: 503, retryAfterMs: 7000 })).toBeCloseTo(full * (1 - chance / 2), 6);
          }
          // well for a minute: it begins anew; for less: it does not
          expect(retries.failed({ healthyMs: 59_999 })).toBeGreaterThan(1000 * (attempts > 1 ? 1 : 0.99));
          expect(retries.failed({ healthyMs: 60_000 })).toBeLessThanOrEqual(1000);
        }),
      );
    },
  );

  it('take the first wait from a retry line where the SDK does', () => {
    const first = (sdk: string): number | undefined => {
      const retries = new Retries(profileOf('fdv1', sdk), () => 0);
      retries.failed({});
      retries.told(5000);
      return retries.failed({});
    };
    expect(['go', 'node', 'python'].map(first)).toEqual([5000, 5000, 2000]);
  });

  it.each([401, 403, 404])('end at %s, but for the one SDK that comes back after minutes', (status) => {
    const after = (sdk: string): number | undefined => new Retries(profileOf('fdv2', sdk), () => 0).failed({ status });
    expect(['go', 'node', 'python'].map(after)).toEqual([undefined, undefined, 300_000]);
  });
});

describe('the waits of a poll', () => {
  const POLLS = ALL.filter(({ kind, sdk }) => kind.endsWith('-poll') && !(kind === 'fdv2-poll' && sdk === 'node'));

  it.each(POLLS.map((profile) => [nameOf(profile), profile] as const))(
    'are the interval, for %s, and once what Retry-After says where the SDK obeys it',
    (_, profile) => {
      const retries = new Retries(profile, () => 0.5, 12_000);
      const refused = { status: 503, retryAfterMs: 3000 };
      expect(retries.served()).toBe(12_000);
      const waits = [1, 2, 3].map(() => retries.failed(refused));
      expect(waits).toEqual(profile.sdk === 'python' ? [3000, 12_000, 3000] : [12_000, 12_000, 12_000]);
      // not for a failure without an answer, nor for another status
      expect([retries.failed({}), retries.failed({ status: 500, retryAfterMs: 3000 })]).toEqual([12_000, 12_000]);
    },
  );

  it("double for Node's of the second protocol", () => {
    const retries = new Retries(profileOf('fdv2-poll', 'node'), () => 0.5);
    expect([1, 2, 3].map(() => retries.failed({ status: 503 }))).toEqual([750, 1500, 3000]);
    expect(retries.served()).toBe(30_000);
    expect(retries.failed({ status: 503 })).toBe(750);
  });
});

describe('the waits of the others', () => {
  it('are their interval, whatever the answer was', () => {
    const others = ALL.filter(({ kind }) => kind === 'bouncer' || kind === 'php');
    expect(others.length).toBeGreaterThan(6);
    for (const profile of others) {
      const retries = new Retries(profile, () => 0);
      for (const status of [403, 500, 503]) expect(retries.failed({ status, retryAfterMs: 1 })).toBe(profile.everyMs);
    }
  });

  it('end at an address that moved: nobody is led elsewhere', () => {
    for (const profile of ALL) expect(new Retries(profile, () => 0).failed({ status: 302 })).toBeUndefined();
  });
});
