import { describe, expect, it } from 'vitest';
import { FakeExchange } from '../../../test/support/flags-fakes.ts';
import { flag, gone, put, segment } from '../../../test/support/flags-items.ts';
import { turns } from '../../../test/support/conditions.ts';
import { DataSet, formatPosition, type Position } from '../../dataset/index.ts';
import { FakeClock } from '../../kernel/index.ts';
import { type Claim, claimOf, type Held, positionOf, startOf, unchanged, whileAhead } from './positions.ts';
import { ALL_STREAM, FLAGS_STREAM } from './views.ts';

const A: Position = { digest: 'A'.repeat(43), clock: 1, view: 'all' };
const B: Position = { digest: 'E'.repeat(43), clock: 2, view: 'all' };

async function dataSet(): Promise<DataSet> {
  const data = new DataSet({ name: 'test', kinds: ['flags', 'segments'] });
  await data.replace([flag('a', 1), segment('s', 1)]);
  return data;
}

describe('where a client says that it is', () => {
  it.each([
    ['nothing', undefined, undefined, { position: undefined, frozen: true, returning: false }],
    ['a basis', formatPosition(A), undefined, { position: A, frozen: true, returning: true }],
    ['a Last-Event-ID', undefined, formatPosition(B), { position: B, frozen: false, returning: true }],
    ['both', formatPosition(A), formatPosition(B), { position: B, frozen: false, returning: true }],
    ['what is none of ours', 'x', undefined, { position: undefined, frozen: true, returning: true }],
    ['an event id of no position', formatPosition(A), 'x', { position: undefined, frozen: false, returning: true }],
  ])('by %s', (_what, basis, lastEventId, claim) => {
    const query = basis === undefined ? '' : `?basis=${basis}`;
    const headers = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
    expect(claimOf(new FakeExchange(`/sdk/stream${query}`, headers), ALL_STREAM, true)).toEqual(claim);
  });

  it('is nowhere when it names another view', () => {
    const exchange = new FakeExchange('/flags', { 'last-event-id': formatPosition(A) });
    expect(claimOf(exchange, FLAGS_STREAM, false)).toEqual({ position: undefined, frozen: false, returning: true });
  });
});

describe('a client that seems ahead', () => {
  it('waits for the change that it names, or until its time is up, and holds nothing afterwards', async () => {
    const data = await dataSet();
    const clock = new FakeClock();
    const claim = { position: { ...A, clock: 1000 }, frozen: false, returning: true };
    let over = false;
    const waited = whileAhead({ data }, claim, clock, 5000).then(() => {
      over = true;
    });
    await data.apply([put(flag('a', 2))]);
    clock.advance(4999);
    await data.apply([put(flag('a', 3))]);
    expect(over).toBe(false);
    clock.advance(1);
    await waited;
    expect(clock.armed).toBe(0);
    expect(startOf({ data }, claim).kind).toBe('full');
  });

  it('does not wait when it is known, behind, or new', async () => {
    const data = await dataSet();
    const clock = new FakeClock();
    for (const position of [positionOf(data.snapshot(), 'all'), { ...A, clock: 0 }, undefined]) {
      await whileAhead({ data }, { position, frozen: false, returning: true }, clock, 5000);
    }
    expect(clock.armed).toBe(0);
  });
});

describe('a client of replicas that share an order', () => {
  const claim = (position: Position): Claim => ({ position, frozen: false, returning: true });

  it.each([true, false])('is looked for once where nothing says who is newer; found there: %s', async (isFound) => {
    const data = await dataSet();
    const clock = new FakeClock();
    let looks = 0;
    const order = {
      isNewer: () => (looks > 0 && isFound ? true : undefined),
      look: async () => void looks++,
      isLooking: false,
      isLagging: false,
    };
    const waited = whileAhead({ data, order }, claim(A), clock, 5000);
    await turns();
    clock.advance(5000);
    await waited;
    expect([looks, clock.armed]).toEqual([1, 0]);
    // by its clock alone it would get ours at once
    expect(startOf({ data, order }, claim(A)).kind).toBe(isFound ? 'behind' : 'full');
  });

  it('does not wait for the order longer than for our source', async () => {
    const data = await dataSet();
    const clock = new FakeClock();
    const order = {
      isNewer: () => undefined,
      look: () => new Promise<void>(() => {}),
      isLooking: true,
      isLagging: false,
    };
    let over = false;
    const waited = whileAhead({ data, order }, claim(A), clock, 5000).then(() => (over = true));
    clock.advance(4999);
    await turns();
    expect(over).toBe(false);
    clock.advance(1);
    await waited;
    expect(clock.armed).toBe(0);
    // what is not known by then is not taken for old: it would be sent a step back
    expect(startOf({ data, order }, claim(A)).kind).toBe('behind');
  });

  it('comes back where nobody can say what it has, as long as this replica lags; whoever does not lag serves it', async () => {
    // fails when mayBeNewer is not asked
    const data = await dataSet();
    const held = (isLagging: boolean): Held => ({
      data,
      order: { isNewer: () => undefined, look: async () => {}, isLooking: false, isLagging },
    });
    const ahead = claim({ ...A, clock: 1000 });
    const tag = claim({ ...A, clock: 0 });
    const past = claim({ ...A, clock: 1 });
    expect([ahead, tag, past].map((each) => startOf(held(true), each).kind)).toEqual(['behind', 'behind', 'full']);
    expect([ahead, tag, past].map((each) => startOf(held(false), each).kind)).toEqual(['full', 'full', 'full']);
    expect(startOf(held(true), claim(positionOf(data.snapshot(), 'all'))).kind).toBe('current');
  });

  it('is not taken for up to date, or for one of the past, when its digest has come back since', async () => {
    const data = await dataSet();
    const first = positionOf(data.snapshot(), 'all');
    await data.apply([put(flag('x', 1))]);
    const second = positionOf(data.snapshot(), 'all');
    // elsewhere x is deleted already: the digest of the first is that of the third place too
    const third = { ...first, clock: second.clock + 2 };
    const isNewer = ({ clock }: { clock?: number }): boolean => clock === third.clock;
    const order = { isNewer, look: async () => {}, isLooking: false, isLagging: false };
    expect(startOf({ data, order }, claim(first)).kind).toBe('changes');
    expect(startOf({ data, order }, claim(third)).kind).toBe('behind');
    expect(startOf({ data, order }, claim({ ...second, clock: third.clock })).kind).toBe('behind');
    expect(startOf({ data, order }, claim(second)).kind).toBe('current');
  });
});

describe('a change that changes nothing', () => {
  it('is the first item of what the view shows', async () => {
    const data = await dataSet();
    expect(unchanged(data.snapshot(), ['flags', 'segments'])).toEqual([put(flag('a', 1))]);
    expect(unchanged(data.snapshot(), ['segments'])).toEqual([put(segment('s', 1))]);
    await data.apply([gone('flags', 'a', 2)]);
    expect(unchanged(data.snapshot(), ['flags', 'segments'])).toEqual([put(segment('s', 1))]);
    expect(unchanged(data.snapshot(), ['flags'])).toEqual([]);
  });
});
