import { describe, expect, it } from 'vitest';
import { turns } from '../../../../test/support/conditions.ts';
import type { EvaluatedFlag } from '../evaluation/types.ts';
import { encodeFull, MAP, POLL } from './values.ts';

const FLAG_LENGTH = 5000;
const POSITION = { digest: 'A'.repeat(43), clock: 1, view: 'eval' };

function flagsOf(count: number): EvaluatedFlag[] {
  return Array.from({ length: count }, (_, at) => {
    const fields = `"value":"${'x'.repeat(FLAG_LENGTH)}"`;
    return { key: `flag-${at}`, version: 1, fields, versionAt: fields.length, extra: '' };
  });
}

describe('everything that was evaluated', () => {
  it('is encoded once for those who share it, and anew for another position, shape or evaluation', async () => {
    const flags = flagsOf(3);
    const one = await encodeFull(POLL, flags, POSITION);
    expect(await encodeFull(POLL, flags, { ...POSITION })).toBe(one);
    const others = [
      await encodeFull(POLL, flags, { ...POSITION, clock: 2 }),
      await encodeFull(POLL, flags, { ...POSITION, view: 'other' }),
      await encodeFull(MAP, flags, POSITION),
      await encodeFull(POLL, flagsOf(2), POSITION),
    ];
    const texts = [one, ...others].map(({ pieces }) => Buffer.concat(pieces).toString());
    expect(new Set(texts).size).toBe(texts.length);
  });

  // Fails when each copy has slices of its own, or no place in the line: then all are encoded before the loop turns once.
  it('leaves the event loop free also where many are to be encoded', async () => {
    const count = 40;
    let encoded = 0;
    const all = Array.from({ length: count }, async () => {
      await encodeFull(MAP, slowFlags(), POSITION);
      encoded++;
    });
    const seen: number[] = [];
    while (encoded < count) {
      await turns(1);
      seen.push(encoded);
    }
    await Promise.all(all);
    expect(Math.max(...seen.map((number, at) => number - (seen[at - 1] ?? 0)))).toBeLessThanOrEqual(3);
  });
});

/** Two flags that each take two milliseconds to be read. */
function slowFlags(): readonly EvaluatedFlag[] {
  return flagsOf(2).map((flag) => ({
    ...flag,
    get fields(): string {
      const untilMs = performance.now() + 2;
      while (performance.now() < untilMs);
      return flag.fields;
    },
  }));
}
