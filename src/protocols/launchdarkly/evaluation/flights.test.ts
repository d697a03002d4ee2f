import { afterEach, expect, it } from 'vitest';
import { turns } from '../../../../test/support/conditions.ts';
import { dataOf, flagOf } from '../../../../test/support/evaluation-kit.ts';
import { FakeClock } from '../../../kernel/index.ts';
import { Evaluations } from './evaluations.ts';

const ASKED = { environmentId: 'a', context: '{"key":"me"}', audience: 'client', withReasons: false } as const;

let open: Evaluations | undefined;
afterEach(() => open?.close());

/** An evaluator whose thread never begins: what is asked waits, and can be counted. */
function waiting(): Evaluations {
  const thread = { post() {}, onMessage() {}, onEnd() {}, hold() {}, end: async () => {} };
  const onFailure = (): void => {};
  open = new Evaluations({
    clock: new FakeClock(),
    threads: 1,
    cacheBytesMax: 0,
    onFailure,
    beginThread: () => thread,
  });
  return open;
}

async function ask(evaluations: Evaluations): Promise<number> {
  evaluations.evaluate(ASKED).catch(() => {});
  await turns(2);
  return evaluations.stats().queued;
}

it('who asks for the same at the same time shares one evaluation', async () => {
  const evaluations = waiting();
  evaluations.attach('a', await dataOf([flagOf('f')]));
  expect([await ask(evaluations), await ask(evaluations)]).toEqual([1, 1]);
});

it('nobody joins who came at a later state, though its data be the same again', async () => {
  const evaluations = waiting();
  const data = await dataOf([flagOf('f')]);
  evaluations.attach('a', data);
  const { digest, offset } = data.snapshot();
  const items = [...data.snapshot().items('flags')];
  expect(await ask(evaluations)).toBe(1);
  await data.replace([]);
  await data.replace(items, 'source');
  expect(data.snapshot().digest).toBe(digest);
  expect(data.snapshot().offset).toBeGreaterThan(offset);
  expect(await ask(evaluations)).toBe(2);
});

it('nobody joins who came when other data had the name', async () => {
  const evaluations = waiting();
  const [first, second] = [await dataOf([flagOf('f')]), await dataOf([flagOf('g')])];
  evaluations.attach('a', first);
  expect(await ask(evaluations)).toBe(1);
  evaluations.attach('a', second);
  expect(second.snapshot().offset).toBe(first.snapshot().offset);
  expect(await ask(evaluations)).toBe(2);
});
