import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DecisionIds, type Identity, IdCollision, isLeased } from './decision-ids.ts';

const identity = (value: string, over: Partial<Identity> = {}): Identity => ({
  leased: false,
  scope: 'Ip',
  type: 'ban',
  value,
  origin: 'cscli-import',
  scenario: 'list',
  ...over,
});

/** The ids of decisions, in their order; readings begin anew as a source's do. */
function numbered(values: readonly Identity[]): Map<string, number | undefined> {
  const taken = new Set<number>();
  for (;;) {
    const ids = new DecisionIds(taken);
    const found = new Map<string, number | undefined>();
    try {
      for (const one of values) found.set(JSON.stringify(one), ids.take(one, 1));
      return found;
    } catch (thrown) {
      if (!(thrown instanceof IdCollision)) throw thrown;
    }
  }
}

/** Two values that have one hash beside the other words of {@link identity}: the first such pair among `192.0.2.1#0`, `#1` and so on. */
const COLLIDING = ['192.0.2.1#500892', '192.0.2.1#587303'];

describe('ids of decisions in files', () => {
  it('are whole numbers below 2^40 that tell whether the decision is leased', () => {
    const ids = new DecisionIds(new Set());
    for (let at = 0; at < 2000; at++) {
      const id = ids.take(identity(`${at}`, { leased: at % 2 === 0 }), 1) as number;
      expect(Number.isInteger(id) && id >= 0 && id < 2 ** 40).toBe(true);
      expect(isLeased(id)).toBe(at % 2 === 0);
    }
  });

  it('are those of the content, in any order and beside anything', () => {
    const some = fc.uniqueArray(fc.nat(10_000), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(some, fc.nat(), (numbers, seed) => {
        const values = numbers.map((number) => identity(`${number}`));
        const shuffled = values.toSorted(
          (a, b) => ((Number(a.value) * (seed | 1)) % 101) - ((Number(b.value) * (seed | 1)) % 101),
        );
        const found = numbered(values);
        expect(numbered(shuffled)).toEqual(found);
        const first = values[0] as Identity;
        expect(numbered([first]).get(JSON.stringify(first))).toBe(found.get(JSON.stringify(first)));
      }),
    );
  });

  it.each(['leased', 'scope', 'type', 'value', 'origin', 'scenario'] as const)(
    'are others when the %s is another',
    (name) => {
      const other = name === 'leased' ? { leased: true } : { [name]: 'another' };
      const found = numbered([identity('192.0.2.1'), identity('192.0.2.1', other)]);
      expect(new Set(found.values()).size).toBe(2);
    },
  );

  it('are given once for a decision that stands twice, or again when it ends later there', () => {
    const ids = new DecisionIds(new Set());
    const id = ids.take(identity('a'), 10);
    expect(ids.take(identity('a'), 10)).toBeUndefined();
    expect(ids.take(identity('a'), 9)).toBeUndefined();
    expect(ids.take(identity('a'), 11)).toBe(id);
    expect(ids.take(identity('a'), 11)).toBeUndefined();
  });

  it('are known again among many', () => {
    const ids = new DecisionIds(new Set());
    const numbers = Array.from({ length: 3000 }, (_, at) => ids.take(identity(`${at}`), 10));
    expect(numbers.map((_, at) => ids.take(identity(`${at}`), 10))).toEqual(numbers.map(() => undefined));
    expect(numbers.map((_, at) => ids.take(identity(`${at}`), 11))).toEqual(numbers);
  });

  it('avoid a hash that two decisions have, both of them and in either order', () => {
    const [one, other] = COLLIDING.map((value) => identity(value)) as [Identity, Identity];
    const ids = new DecisionIds(new Set());
    const alone = ids.take(one, 1);
    expect(() => ids.take(other, 1)).toThrow(IdCollision);
    const found = numbered([one, other]);
    expect(numbered([other, one])).toEqual(found);
    const numbers = [...found.values()];
    expect(new Set(numbers).size).toBe(2);
    expect(numbers).not.toContain(alone);
    expect(numbers).not.toContain(new DecisionIds(new Set()).take(other, 1));
  });
});
