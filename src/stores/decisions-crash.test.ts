import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { compileRooms } from '../../test/support/compiled.ts';
import { Ledger } from '../dataset/decisions/index.ts';
import { systemClock } from '../kernel/index.ts';
import { DecisionKeeper } from './decisions.ts';
import { openLmdbStore } from './lmdb.ts';

const NOW_MS = 1_700_000_000_000;

/**
 * In round r a source lists the decisions from 100 r on, 3,000 of them: so each round but the first has 100 that go and 100
 * that come, and moves the end of every other one. A client's cursor follows. Said is what the keeper says is stored.
 */
const KEEPING = `
import { Ledger } from './src/dataset/decisions/index.js';
import { systemClock } from './src/kernel/index.js';
import { DecisionKeeper, openLmdbStore } from './src/stores/index.js';
// as a server that listens does: timers of the clock keep no process alive
setInterval(() => {}, 60_000);
const ledger = new Ledger({ random: () => 0.5 });
const store = await openLmdbStore({ path: process.argv[2] });
const keeper = await DecisionKeeper.open(store, ledger, {
  clock: systemClock,
  wallNow: () => ${NOW_MS},
  onFailure: (error) => { throw error; },
});
for (let round = ledger.offset + 1; ; round++) {
  const full = ledger.begin(0, { toleranceMs: 0 });
  for (let id = 100 * round; id < 100 * round + 3000; id++) {
    full.add({
      id, uuid: undefined, origin: 'lists', scenario: 'list', scope: 'Ip', type: 'ban', value: '10.0.' + (id >> 8) + '.' + (id & 255),
      untilMs: ${NOW_MS} + 3600000 + round * 1000, simulated: false,
    });
  }
  await full.commit(${NOW_MS});
  keeper.cursors.set('a client', Buffer.from(String(ledger.offset)));
  keeper.cursors.set('client ' + round, Buffer.from(String(ledger.offset)));
  if (await keeper.stored(round)) console.log(round);
}
`;

const compiled = compileRooms(['kernel', 'dataset', 'stores']);
const path = mkdtempSync(join(tmpdir(), 'headgate-keeper-'));
afterAll(() => {
  rmSync(compiled.folder, { recursive: true });
  rmSync(path, { recursive: true });
});

/** Runs it until it was killed in the middle of a round; answers the last round that it said. */
async function killed(rounds: number, delayMs: number): Promise<number> {
  const file = join(compiled.folder, 'keeping.js');
  writeFileSync(file, KEEPING);
  const child = spawn(process.execPath, [file, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    if (text.split('\n').length > rounds) setTimeout(() => child.kill('SIGKILL'), delayMs);
  });
  await once(child, 'close');
  expect(child.signalCode).toBe('SIGKILL');
  return Number(text.slice(0, text.lastIndexOf('\n')).split('\n').at(-1));
}

describe('a keeper whose process is killed', () => {
  it('leaves a state that the ledger was in, with no cursor beyond it', { timeout: 120_000 }, async () => {
    let before = 0;
    for (let life = 0; life < 3; life++) {
      const said = await killed(2 + life, 7 * life);
      const ledger = new Ledger({ random: () => 0.5 });
      const store = await openLmdbStore({ path });
      const keeper = await DecisionKeeper.open(store, ledger, {
        clock: systemClock,
        wallNow: () => NOW_MS,
        onFailure: (error) => {
          throw error;
        },
      });
      const round = ledger.offset;
      expect(round).toBeGreaterThanOrEqual(said);
      expect(round).toBeLessThanOrEqual(said + 1);
      expect(round).toBeGreaterThan(before);
      before = round;
      const { rows } = ledger;
      const live = Array.from(rows.order()).filter((row) => rows.removed[row] === 0);
      expect(live.map((row) => rows.id[row])).toEqual(Array.from({ length: 3000 }, (_, at) => 100 * round + at));
      expect(new Set(live.map((row) => rows.untilMs[row]))).toEqual(new Set([NOW_MS + 3_600_000 + round * 1000]));
      expect(ledger.tombstones).toBe((round - 1) * 100);
      // copies: a part of what the store handed over would keep all of that in memory
      const bytes = Array.from(keeper.cursors.entries(), ([, value]) => value.buffer.byteLength);
      expect(Math.max(...bytes)).toBeLessThan(100);
      const cursors = Array.from(keeper.cursors.entries(), ([, value]) => Number(Buffer.from(value).toString()));
      expect(Math.max(...cursors)).toBeLessThanOrEqual(round);
      await keeper.close();
      await store.close();
    }
  });
});
