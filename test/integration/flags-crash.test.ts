import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { type Change, DataSet, type Item } from '../../src/dataset/index.ts';
import { systemClock } from '../../src/kernel/index.ts';
import { FlagKeeper, openLmdbStore } from '../../src/stores/index.ts';
import { compileRooms } from '../support/compiled.ts';
import { type Line, LineProcess } from '../support/line-process.ts';

const KILLS = 100;
const MS_MAX = 240_000;
/** Together they are 5 MB, so that a whole copy is written in several groups. */
const FLAGS = 550;
/** Now and then the source goes back, and everything is written anew. */
const RESET_EVERY = 47;

/**
 * A source whose steps are numbered, and what it holds after each: step n changes three keys, deletes one, and puts its own
 * number into one. What a process did not keep, it is told again from the step that it knows.
 */
const SOURCE = `
export const FLAGS = ${FLAGS};
const PAD = 'x'.repeat(8000);
const item = (key, version, value) => ({
  kind: 'flags', key, version, text: JSON.stringify({ key, version, value, pad: PAD }),
});
/** Everything at step 0. */
export function* everything() {
  for (let at = 0; at < FLAGS; at++) yield item('flag ' + at, 1, 0);
  yield item('step', 1, 0);
}
export const isReset = (step) => step % ${RESET_EVERY} === 0;
/** The same data at a version that falls: nothing from before is known any more. */
export const fallen = (text) => put({ kind: 'flags', key: 'flag 1', version: 0, text });
const put = (each) => ({ kind: each.kind, key: each.key, version: each.version, item: each });
/** What changes at a step. */
export function changesOf(step) {
  const changed = [7, 11, 13].map((factor) => put(item('flag ' + ((step * factor) % FLAGS), step + 1, step)));
  const guest = 'guest ' + (step % 5);
  const comes = Math.floor(step / 5) % 2 === 0;
  return [
    ...changed,
    comes ? put(item(guest, step + 1, step)) : { kind: 'flags', key: guest, version: step + 1, item: undefined },
    put(item('step', step + 1, step)),
  ];
}
`;

/** What a server does with its data, without clients: whatever it prints, it could have told one. */
const SERVING = `
import { DataSet } from './src/dataset/index.js';
import { systemClock } from './src/kernel/index.js';
// not by the door of the room: a hundred starts need not load what speaks to other stores
import { FlagKeeper } from './src/stores/flags.js';
import { openLmdbStore } from './src/stores/lmdb.js';
import { changesOf, everything, fallen, isReset } from './source.js';
setInterval(() => {}, 60_000);
const say = (line) => process.stdout.write(JSON.stringify(line) + '\\n');
const store = await openLmdbStore({ path: process.argv[2] });
const keeper = new FlagKeeper({
  store, clock: systemClock, onFailure: ({ message }) => say({ failure: message }),
});
const keep = keeper.keep('production');
const data = new DataSet({ name: 'production', kinds: ['flags'], beforeCommit: (write) => keep.prepare(write) });
const kept = await keep.restore();
if (kept !== undefined) await data.restore(kept);
const stepOf = () => JSON.parse(data.snapshot().get('flags', 'step').text).value;
const told = (event) => {
  const { digest, clock, offset } = data.snapshot();
  say({ event, digest, clock, offset, step: stepOf() });
};
if (kept !== undefined) told('restored');
data.subscribe(({ type }) => told(type));
if (!data.ready) await data.replace(everything());
keep.committed(undefined);
let step = stepOf();
for (;;) {
  step++;
  if (isReset(step)) await data.apply([fallen(data.snapshot().get('flags', 'flag 1').text)]);
  await data.apply(changesOf(step));
  keep.committed('selector ' + step);
}
`;

const compiled = compileRooms(['kernel', 'dataset', 'stores']);
writeFileSync(join(compiled.folder, 'source.js'), SOURCE);
writeFileSync(join(compiled.folder, 'serving.js'), SERVING);
const path = mkdtempSync(join(tmpdir(), 'headgate-flags-'));
afterAll(() => {
  rmSync(compiled.folder, { recursive: true });
  rmSync(path, { recursive: true });
});

/** A small generator of numbers, so that a seed says where the kills fell. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The source, in this process. */
interface Source {
  everything(): Iterable<Item>;
  changesOf(step: number): Change[];
  isReset(step: number): boolean;
  fallen(text: string): Change;
}

/** A position that a client may have, and the step that it was given out at. */
interface Told {
  readonly event: 'restored' | 'reset' | 'batch';
  readonly digest: string;
  readonly clock: number;
  readonly offset: number;
  readonly step: number;
}

/** What the source holds after each step, in order. */
class Shadow {
  readonly #source: Source;
  readonly #data = new DataSet({ name: 'shadow', kinds: ['flags'] });
  #step = 0;

  constructor(source: Source) {
    this.#source = source;
  }

  async begin(): Promise<void> {
    await this.#data.replace(this.#source.everything());
  }

  /** Answers whether a state is the one after a step, or has the break after it too; undefined when it is neither. */
  async follow({
    step,
    digest,
  }: {
    readonly step: number;
    readonly digest: string;
  }): Promise<'step' | 'break' | undefined> {
    while (this.#step < step) {
      this.#step++;
      await this.#breakAt(this.#step);
      await this.#data.apply(this.#source.changesOf(this.#step));
    }
    if (this.#data.snapshot().digest === digest) return 'step';
    await this.#breakAt(step + 1);
    return this.#data.snapshot().digest === digest ? 'break' : undefined;
  }

  async #breakAt(step: number): Promise<void> {
    const { text } = this.#data.snapshot().get('flags', 'flag 1')!;
    if (this.#source.isReset(step)) await this.#data.apply([this.#source.fallen(text)]);
  }
}

function stepOf(data: DataSet): number {
  return (JSON.parse(data.snapshot().get('flags', 'step')!.text) as { value: number }).value;
}

/** Runs it until it is killed, and answers what it said. */
async function killed(random: () => number): Promise<readonly Line[]> {
  const child = new LineProcess({ command: process.execPath, args: [join(compiled.folder, 'serving.js'), path] });
  const early = random() < 0.25;
  const linesMin = early ? 0 : 1 + Math.floor(random() * 30);
  const delayMs = random() * (early ? 500 : 15);
  if (linesMin > 0) {
    let lines = 0;
    await child.waitFor(`${linesMin} lines`, () => ++lines >= linesMin, { msMax: 20_000 });
  }
  // the moment is what is tried here: it falls anywhere in a start, in a write, or between two
  await new Promise((resolve) => setTimeout(resolve, delayMs));
  expect((await child.stop('SIGKILL')).signal).toBe('SIGKILL');
  return child.lines;
}

/** What a new process makes of what is there; undefined when there is nothing. */
async function restored(): Promise<{ data: DataSet; state: string | undefined } | undefined> {
  const store = await openLmdbStore({ path });
  const failures: string[] = [];
  const keeper = new FlagKeeper({ store, clock: systemClock, onFailure: ({ message }) => failures.push(message) });
  const keep = keeper.keep('production');
  const kept = await keep.restore();
  const data = new DataSet({ name: 'production', kinds: ['flags'] });
  if (kept !== undefined) await data.restore(kept);
  await keep.close();
  await store.close();
  expect(failures).toEqual([]);
  return kept && { data, state: kept.state };
}

describe('a server of flags that is killed a hundred times', () => {
  it('knows every position that it told, and has at least the last state', { timeout: MS_MAX }, async () => {
    const seed = randomInt(2 ** 31);
    console.log(`Kills by the seed ${seed}`);
    const random = randomOf(seed);
    const source = (await import(pathToFileURL(join(compiled.folder, 'source.js')).href)) as Source;
    const shadow = new Shadow(source);
    await shadow.begin();
    const count = { told: 0, kills: 0, nothing: 0, breaks: 0, unsaid: 0 };
    /** What clients have that nothing was broken for since. */
    let known: Told[] = [];
    for (; count.kills < KILLS; count.kills++) {
      const lines = await killed(random);
      expect(lines.filter(({ digest }) => digest === undefined)).toEqual([]);
      for (const told of lines as unknown as readonly Told[]) {
        if (told.event === 'reset') known = [];
        known.push(told);
      }
      count.told += lines.length;
      const last = known.at(-1);
      const found = await restored();
      if (found === undefined) {
        count.nothing++;
        if (last !== undefined) throw new Error(`Cannot restore what was told: got nothing after step ${last.step}`);
        continue;
      }
      const { data, state } = found;
      const { digest, offset } = data.snapshot();
      const step = stepOf(data);
      const at = await shadow.follow({ step, digest });
      expect(at).toBeDefined();
      // at most the one write that nobody had been told of yet
      const steps = last === undefined ? 0 : step - last.step;
      expect([0, 1]).toContain(steps);
      expect(offset).toBeGreaterThanOrEqual(last?.offset ?? 1);
      if (offset > (last?.offset ?? 0)) count.unsaid++;
      if (at === 'break' && offset > (last?.offset ?? 0)) {
        count.breaks++;
        known = [];
      }
      // a selector is of data that are there
      expect(Number(state?.split(' ')[1] ?? 0)).toBeLessThanOrEqual(step);
      for (const position of known) {
        for (const frozen of [false, true]) {
          const since = data.since({ ...position, view: 'test' }, { frozen });
          const expected = position.offset === offset ? 'current' : 'changes';
          expect([position, since.kind]).toEqual([position, expected]);
        }
        expect(data.sinceOffset(position.offset)).toBeDefined();
      }
    }
    console.log(`${JSON.stringify(count)}, the last at step ${known.at(-1)?.step}`);
    expect(count.told).toBeGreaterThan(KILLS);
  });
});
