import { describe, expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { Repeated } from './repeated.ts';

function setUp() {
  const clock = new FakeClock();
  const lines: Record<string, unknown>[] = [];
  const repeated = new Repeated((fields) => void lines.push(fields), clock, 10_000);
  return { clock, lines, repeated };
}

describe('lines that come in floods', () => {
  // Fails when add() writes every line.
  it('are the first at once, and the others as one that says how many', () => {
    const { clock, lines, repeated } = setUp();
    for (let client = 0; client < 1000; client++) repeated.add('refused', { client });
    expect(lines).toEqual([{ client: 0 }]);
    clock.advance(10_000);
    expect(lines).toEqual([{ client: 0 }, { client: 999, repeated: 999, withinMs: 10_000 }]);
  });

  it('are not followed by a sum of nothing', () => {
    const { clock, lines, repeated } = setUp();
    repeated.add('refused', { client: 1 });
    clock.advance(10_000);
    repeated.add('refused', { client: 2 });
    expect(lines).toEqual([{ client: 1 }, { client: 2 }]);
  });

  it('are summed by kind', () => {
    const { clock, lines, repeated } = setUp();
    for (const kind of ['refused', 'cut', 'refused', 'cut', 'cut']) repeated.add(kind, { kind });
    clock.advance(10_000);
    expect(lines.slice(2)).toEqual([
      { kind: 'refused', repeated: 1, withinMs: 10_000 },
      { kind: 'cut', repeated: 2, withinMs: 10_000 },
    ]);
  });

  it('are written before the end', () => {
    const { lines, repeated } = setUp();
    repeated.add('refused', { client: 1 });
    repeated.add('refused', { client: 2 });
    repeated.flush();
    expect(lines).toEqual([{ client: 1 }, { client: 2, repeated: 1, withinMs: 10_000 }]);
  });

  // Fails when add() does not compare with KINDS_MAX: every kind ever seen stays for an interval.
  it('do not fill memory with kinds', () => {
    const { clock, repeated } = setUp();
    for (let kind = 0; kind < 5000; kind++) repeated.add(`kind ${kind}`, {});
    expect(clock.armed).toBe(1000);
  });
});
