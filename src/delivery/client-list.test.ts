import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ClientList, type Linked } from './client-list.ts';

class Item implements Linked<Item> {
  readonly name: number;
  previous: Item | undefined;
  next: Item | undefined;

  constructor(name: number) {
    this.name = name;
  }
}

const never = (): boolean => false;

function namesOf(list: ClientList<Item>): number[] {
  const names: number[] = [];
  list.walk((item) => names.push(item.name)).slice(never, Number.POSITIVE_INFINITY);
  return names;
}

it('keeps the order of arrival, whoever leaves', () => {
  const step = fc.tuple(fc.boolean(), fc.nat());
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const list = new ClientList<Item>();
      const model: Item[] = [];
      for (const [joins, number] of steps) {
        if (joins || model.length === 0) {
          const item = new Item(number);
          list.append(item);
          model.push(item);
        } else {
          const [item] = model.splice(number % model.length, 1);
          if (item !== undefined) list.remove(item);
        }
        expect(list.size).toBe(model.length);
        expect(list.head).toBe(model[0]);
        expect(namesOf(list)).toEqual(model.map(({ name }) => name));
      }
    }),
  );
});

// Fails when remove() does not move the walks on.
it('visits everybody who stays exactly once, whoever leaves between and within the slices', () => {
  const plan = fc.array(fc.tuple(fc.nat({ max: 19 }), fc.nat({ max: 19 })), { maxLength: 40 });
  fc.assert(
    fc.property(plan, fc.integer({ min: 1, max: 5 }), (removals, itemsMax) => {
      const list = new ClientList<Item>();
      const items = Array.from({ length: 20 }, (_, name) => new Item(name));
      for (const item of items) list.append(item);
      const left = new Set<number>();
      const visited: number[] = [];
      const leave = (name: number): void => {
        const item = items[name];
        if (item === undefined || left.has(name)) return;
        left.add(name);
        list.remove(item);
      };
      const during = new Map(removals);
      const walk = list.walk((item) => {
        expect(left.has(item.name)).toBe(false);
        visited.push(item.name);
        const name = during.get(item.name);
        if (name !== undefined) leave(name);
      });
      for (let turn = 0; !walk.slice(never, itemsMax); turn++) leave(removals[turn]?.[0] ?? 0);
      expect(new Set(visited).size).toBe(visited.length);
      const stayed = items.filter(({ name }) => !left.has(name));
      expect(stayed.filter(({ name }) => !visited.includes(name))).toEqual([]);
    }),
  );
});

it('ends a slice when it is due, looking every 32 items, and goes on from there', () => {
  const list = new ClientList<Item>();
  for (let name = 0; name < 100; name++) list.append(new Item(name));
  const visited: number[] = [];
  const walk = list.walk((item) => visited.push(item.name));
  expect(walk.slice(() => true, 1000)).toBe(false);
  expect(visited).toHaveLength(32);
  expect(walk.slice(never, 10)).toBe(false);
  expect(visited).toHaveLength(42);
  expect(walk.slice(never, 1000)).toBe(true);
  expect(visited).toEqual(Array.from({ length: 100 }, (_, name) => name));
});
