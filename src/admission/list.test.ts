import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Linked, List } from './list.ts';

interface Item extends Linked<Item> {
  readonly id: number;
}

it('is an array from which anything can be taken out', () => {
  // fails when remove leaves one of the four links as it was
  const steps = fc.array(fc.option(fc.nat(), { nil: undefined }), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (picks) => {
      const list = new List<Item>();
      let array: Item[] = [];
      let id = 0;
      for (const pick of picks) {
        const gone = pick === undefined ? undefined : array[pick % array.length];
        if (gone === undefined) {
          const item: Item = { id: id++, before: undefined, after: undefined };
          list.push(item);
          array.push(item);
        } else {
          list.remove(gone);
          array = array.filter((item) => item !== gone);
          if (gone.before !== undefined || gone.after !== undefined) throw new Error('keeps its neighbours alive');
        }
        expect([...list].map((item) => item.id)).toEqual(array.map((item) => item.id));
        expect(list.length).toBe(array.length);
        expect(list.first).toBe(array[0]);
      }
    }),
  );
});
