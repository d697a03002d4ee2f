import { expectTypeOf, test } from 'vitest';
import type * as page from '../../dashboard/src/contract.ts';
import type { State } from '../../src/observability/state.ts';
import type { Bucket, Timeline } from '../../src/observability/timeline.ts';

test('what the server tells is what the page reads', () => {
  expectTypeOf<State>().toExtend<page.State>();
  expectTypeOf<Timeline>().toExtend<page.Timeline>();
  expectTypeOf<Bucket>().toExtend<page.Bucket>();
  // and the other way round: nothing is told that the page does not know of
  expectTypeOf<keyof State>().toEqualTypeOf<keyof page.State>();
  expectTypeOf<keyof Bucket>().toEqualTypeOf<keyof page.Bucket>();
});
