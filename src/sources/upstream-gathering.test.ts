import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { KeptUpstream, UpstreamRig } from '../../test/support/fake-upstream-listener.ts';
import type { Change, Item } from '../dataset/index.ts';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import { Gathering } from './upstream-gathering.ts';
import type { UpstreamSink } from './upstream-sink.ts';

type Held = ReadonlyMap<string, string>;

/** What a reader may tell. `turn`: the loop turns between what it tells and the mark of it. */
interface Step {
  readonly does: 'replace' | 'current' | 'change';
  readonly changes: readonly Change[];
  readonly turn: boolean;
}

/** Takes whatever it is told, after a while: what it holds, and how often it was called. */
class SlowSink implements UpstreamSink {
  held = new Map<string, string>();
  readonly versions = new Map<string, number>();
  readonly sizes: number[] = [];
  calls = 0;
  running = 0;
  overlaps = 0;
  /** Which call rejects; 0: none does. */
  failing = 0;
  slowness = 0;
  /** Before each call takes anything. */
  onCall: () => void = () => {};

  async replace(items: AsyncIterable<Item>): Promise<void> {
    await this.#take(async () => {
      this.held.clear();
      this.versions.clear();
      for await (const { kind, key, version, text } of items) this.#put({ kind, key, version }, text);
    });
  }

  async apply(changes: readonly Change[]): Promise<void> {
    this.sizes.push(changes.length);
    await this.#take(() => {
      for (const change of changes) this.#put(change, change.item?.text);
    });
  }

  async applyRising(changes: readonly Change[]): Promise<void> {
    this.sizes.push(changes.length);
    await this.#take(() => {
      for (const change of changes) {
        const held = this.versions.get(`${change.kind}/${change.key}`);
        if (held === undefined || change.version > held) this.#put(change, change.item?.text);
      }
    });
  }

  async current(): Promise<void> {
    await this.#take(() => {});
  }

  async #take(take: () => void | Promise<void>): Promise<void> {
    this.calls += 1;
    this.running += 1;
    if (this.running > 1) this.overlaps += 1;
    this.onCall();
    await turns(this.slowness);
    this.running -= 1;
    if (this.calls === this.failing) throw new Error('disk full');
    await take();
  }

  #put({ kind, key, version }: Omit<Change, 'item'>, text: string | undefined): void {
    this.versions.set(`${kind}/${key}`, version);
    if (text === undefined) this.held.delete(`${kind}/${key}`);
    else this.held.set(`${kind}/${key}`, text);
  }
}

async function* itemsOf(changes: readonly Change[]): AsyncGenerator<Item> {
  for (const { item } of changes) if (item !== undefined) yield item;
}

async function tell(sink: UpstreamSink, { does, changes }: Step, isRising: boolean): Promise<void> {
  if (does === 'current') await sink.current();
  else if (does === 'replace') await sink.replace(itemsOf(changes), undefined);
  else if (isRising) await sink.applyRising(changes);
  else await sink.apply(changes, undefined);
}

const anyChange = fc
  .record({ key: fc.constantFrom('a', 'b', 'c'), version: fc.nat(6), gone: fc.boolean(), value: fc.nat(99) })
  .map(({ key, version, gone, value }): Change => {
    const text = JSON.stringify({ key, version, value });
    return { kind: 'flags', key, version, item: gone ? undefined : { kind: 'flags', key, version, text } };
  });
const anyStep: fc.Arbitrary<Step> = fc.record({
  does: fc.constantFrom('change', 'change', 'change', 'change', 'replace', 'current'),
  changes: fc.uniqueArray(anyChange, { maxLength: 3, selector: ({ key }) => key }),
  turn: fc.boolean(),
});
const anyWorld = fc.record({
  steps: fc.array(anyStep, { maxLength: 25 }),
  isRising: fc.boolean(),
  slowness: fc.constantFrom(0, 1, 5, 5),
  changesMax: fc.constantFrom(1, 2, 1000, 1000),
  bytesMax: fc.constantFrom(1, 500, 1_000_000, 1_000_000),
  failing: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 6 })),
});

/** FDv1 tells one change at a time. */
function oneByOne(step: Step): readonly Step[] {
  return step.does === 'change' ? step.changes.map((change) => ({ ...step, changes: [change] })) : [step];
}

/** What is held after each step, one by one. */
async function reference(steps: readonly Step[], isRising: boolean): Promise<readonly Held[]> {
  const sink = new SlowSink();
  const after: Held[] = [];
  for (const step of steps) {
    await tell(sink, step, isRising);
    after.push(new Map(sink.held));
  }
  return after;
}

describe('changes that are gathered', () => {
  it('come to what they come to one by one, and are marked only with what is held', async () => {
    await fc.assert(
      fc.asyncProperty(anyWorld, async ({ steps: given, isRising, slowness, changesMax, bytesMax, failing }) => {
        const steps = isRising ? given.flatMap(oneByOne) : given;
        const after = await reference(steps, isRising);
        const sink = new SlowSink();
        sink.slowness = slowness;
        sink.failing = failing;
        const marks: number[] = [];
        const held = (): Held => after[marks.at(-1) ?? -1] ?? new Map();
        let ahead = 0;
        sink.onCall = () => {
          if (!isDeepStrictEqual(new Map(sink.held), held())) ahead += 1;
        };
        const gathering = new Gathering(sink, () => {}, { changesMax, bytesMax });
        const run = async (): Promise<void> => {
          for (const [at, step] of steps.entries()) {
            await tell(gathering, step, isRising);
            if (step.turn) await turns();
            gathering.mark(() => marks.push(at));
          }
          await gathering.settled();
        };
        const failed = await run().then(
          () => [],
          (thrown: unknown) => [messageOf(thrown)],
        );
        // a full copy that fails is the reader's to see, and what came before it was taken
        const isWhole = failing === 0 || sink.calls < failing;
        expect(failed).toEqual(isWhole ? [] : ['disk full']);
        expect(sink.calls).toBeLessThanOrEqual(isWhole ? steps.length : failing);
        expect(marks).toEqual([...(isWhole ? steps : marks).keys()]);
        expect(new Map(sink.held)).toEqual(held());
        expect([ahead, sink.overlaps]).toEqual([0, 0]);
        expect(sink.sizes.filter((size) => size > Math.max(3, changesMax))).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it('wait in the reader once there are many, or much', async () => {
    for (const limits of [
      { changesMax: 4, bytesMax: 1_000_000 },
      { changesMax: 1000, bytesMax: 4 * 220 },
    ]) {
      const sink = new SlowSink();
      let release: () => void = () => {};
      const apply = sink.apply.bind(sink);
      sink.apply = async (changes) => {
        await new Promise<void>((resolve) => (release = resolve));
        await apply(changes);
      };
      const gathering = new Gathering(sink, () => {}, limits);
      let told = 0;
      const reading = (async () => {
        for (; told < 7; told += 1) {
          await gathering.apply([{ kind: 'flags', key: `key${told}`, version: 1, item: undefined }], undefined);
        }
      })();
      await until('a full reader', () => told === 5);
      await turns(5);
      expect(told).toBe(5);
      release();
      await reading;
      while (sink.sizes.length < 3) {
        release();
        await turns();
      }
      expect(sink.sizes).toEqual([1, 4, 2]);
    }
  });

  it('are one of each item: the last, which of FDv1 is the newest', async () => {
    const sink = new SlowSink();
    sink.slowness = 2;
    const change = (key: string, version: number): readonly Change[] => [
      { kind: 'flags', key, version, item: undefined },
    ];
    // room for two of them
    const gathering = new Gathering(sink, () => {}, { changesMax: 1000, bytesMax: 2 * 220 });
    await gathering.apply(change('a', 1), undefined);
    for (const version of [5, 3, 4, 2]) await gathering.apply(change('b', version), undefined);
    expect(sink.calls).toBe(1);
    await gathering.settled();
    expect([sink.sizes, sink.versions.get('flags/b')]).toEqual([[1, 1], 2]);
    await gathering.applyRising(change('a', 2));
    for (const version of [5, 3, 6, 4]) await gathering.applyRising(change('b', version));
    expect(sink.calls).toBe(3);
    await gathering.settled();
    expect([sink.sizes, sink.versions.get('flags/b')]).toEqual([[1, 1, 1, 1], 6]);
  });

  it('are told no more, and the reader hears of it, once one could not be', async () => {
    const sink = new SlowSink();
    sink.failing = 1;
    sink.slowness = 2;
    let failures = 0;
    const gathering = new Gathering(sink, () => (failures += 1), { changesMax: 1, bytesMax: 1000 });
    const change = (key: string): readonly Change[] => [{ kind: 'flags', key, version: 1, item: undefined }];
    let marks = 0;
    await gathering.apply(change('a'), 'one');
    gathering.mark(() => (marks += 1));
    await gathering.apply(change('b'), 'two');
    // it waits for room, which the failure makes
    await expect(gathering.apply(change('c'), 'three')).rejects.toThrow('disk full');
    gathering.mark(() => (marks += 1));
    await expect(gathering.current()).rejects.toThrow('disk full');
    await expect(gathering.settled()).rejects.toThrow('disk full');
    expect([failures, marks, sink.calls]).toEqual([1, 0, 1]);
  });
});

const flag = (key: string, version: number): { readonly key: string; readonly version: number } => ({ key, version });

describe.each(['fdv1', 'fdv2'] as const)('a slow listener of %s', (protocol) => {
  const path = protocol === 'fdv1' ? '/all' : '/sdk/stream';

  it('is called a few times for a thousand changes, and has them all', async () => {
    class Slow extends KeptUpstream {
      override async apply(changes: readonly Change[], state: string | undefined): Promise<void> {
        await turns(20);
        await super.apply(changes, state);
      }
    }
    const listener = new Slow();
    await using rig = await UpstreamRig.open({ protocol, listener });
    const environment = rig.cloud.environment('sdk-fake', { flags: [flag('f0', 1)] });
    await rig.upstream.start();
    for (let at = 1; at <= 1000; at += 1) environment.patch('flags', flag(`f${at % 300}`, 1 + at));
    await listener.until('the last', () => listener.versionOf('flags', `f${1000 % 300}`) === 1001);
    for (let at = 701; at <= 1000; at += 1) expect(listener.versionOf('flags', `f${at % 300}`)).toBe(1 + at);
    expect([listener.held.size, listener.overlaps]).toEqual([300, 0]);
    expect(listener.calls.length).toBeLessThan(200);
    expect(listener.state).toBe(protocol === 'fdv1' ? undefined : environment.state);
  });

  // Fails when the failure does not end a stream that is silent, and when a selector or an id is ahead of what was taken.
  it('that fails is asked for again from what it has, with all that was gathered', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', { flags: [flag('a', 1)] });
    environment.ids = true;
    await upstream.start();
    const [before, calls] = [environment.state, kept.calls.length];
    let release: () => void = () => {};
    kept.gate = new Promise((resolve) => (release = resolve));
    kept.rejections.push(new HeadgateError('HG_STORE', 'Cannot write: disk full'));
    for (const key of ['a', 'b', 'c']) environment.patch('flags', flag(key, 2));
    await turns(20);
    release();
    await kept.until('the failure', () => kept.now === 'INTERRUPTED');
    expect(kept.statuses.at(-1)?.lastError?.kind).toBe('STORE_ERROR');
    expect([kept.calls.length, [...kept.held.keys()]]).toEqual([calls, ['flags/a']]);
    await rig.afterWait(1000);
    await kept.until('the data', () => kept.now === 'VALID');
    expect([...kept.held].map(([name, { version }]) => `${name} ${version}`).toSorted()).toEqual([
      'flags/a 2',
      'flags/b 2',
      'flags/c 2',
    ]);
    const again = cloud.seen(path)[1];
    expect(protocol === 'fdv1' ? again?.headers['last-event-id'] : again?.query.get('basis')).toBe(before);
  });

  it('has what was read before its stream broke', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', { flags: [flag('a', 1)] });
    await upstream.start();
    let release: () => void = () => {};
    kept.gate = new Promise((resolve) => (release = resolve));
    for (const key of ['a', 'b', 'c']) environment.patch('flags', flag(key, 2));
    cloud.drop();
    await until('the end of the stream', () => cloud.streams() === 0);
    await turns(20);
    release();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    expect([...kept.held.values()].map(({ version }) => version)).toEqual([2, 2, 2]);
  });
});
