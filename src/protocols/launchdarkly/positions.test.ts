import { describe, expect, it } from 'vitest';
import { FakeExchange } from '../../../test/support/flags-fakes.ts';
import { flag, gone, put, segment } from '../../../test/support/flags-items.ts';
import { DataSet, formatPosition, type Position } from '../../dataset/index.ts';
import { FakeClock } from '../../kernel/index.ts';
import { claimOf, positionOf, startOf, unchanged, whileAhead } from './positions.ts';
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
