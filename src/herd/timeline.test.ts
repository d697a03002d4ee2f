import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SERIES, Timeline } from './timeline.ts';

const happening = fc.record({
  series: fc.constantFrom(...SERIES),
  atMs: fc.integer({ min: 0, max: 300_000 }),
  count: fc.integer({ min: 1, max: 50 }),
});

it('loses no count and no place, however long it goes on, and stays small', () => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 100 }), (happenings) => {
      const timeline = new Timeline();
      for (const { series, atMs, count } of happenings) timeline.add(series, atMs, count);
      const untilMs = Math.max(0, ...happenings.map(({ atMs }) => atMs));
      const report = timeline.report(untilMs);
      expect(report.whole.length).toBeLessThanOrEqual(600);
      for (const series of SERIES) {
        const expected = report[series].map(() => 0);
        for (const each of happenings) {
          if (each.series === series) expected[Math.floor(each.atMs / report.everyMs)]! += each.count;
        }
        expect(report[series]).toEqual(expected);
      }
    }),
  );
});
