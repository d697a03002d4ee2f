import { describe, expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { refused } from '../protocols/launchdarkly/index.ts';
import { openLog } from './log.ts';
import { Trouble } from './trouble.ts';

describe('what the log warned of', () => {
  it('is summed by its text and by what it is about, newest first', () => {
    let nowMs = 0;
    const trouble = new Trouble(() => ++nowMs);
    trouble.add('warn', { reason: 'full', environment: 'a', waitedMs: 3 }, 'refused');
    trouble.add('warn', { reason: 'full', environment: 'b' }, 'refused');
    trouble.add('error', { err: new Error('disk full'), source: 'lapi' }, 'it failed');
    trouble.add('warn', { reason: 'full', environment: 'a', waitedMs: 5, repeated: 40 }, 'refused');
    trouble.add('error', { err: new Error('disk full') }, 'it failed: disk full');
    expect(trouble.lines()).toEqual([
      { atMs: 5, level: 'error', text: 'it failed: disk full', subject: undefined, count: 1 },
      { atMs: 4, level: 'warn', text: 'refused: full', subject: { kind: 'environment', name: 'a' }, count: 41 },
      { atMs: 3, level: 'error', text: 'it failed: disk full', subject: { kind: 'source', name: 'lapi' }, count: 1 },
      { atMs: 2, level: 'warn', text: 'refused: full', subject: { kind: 'environment', name: 'b' }, count: 1 },
    ]);
  });

  // Fails when the oldest is no longer forgotten, or a text no longer cut.
  it('is bounded: 20 lines, each of them short', () => {
    const trouble = new Trouble(() => 0);
    for (let line = 0; line < 100; line++) trouble.add('warn', {}, `${line} ${'x'.repeat(1000)}`);
    const lines = trouble.lines();
    expect(lines).toHaveLength(20);
    expect(lines[0]?.text).toMatch(/^99 x{297}…$/);
    expect(lines.at(-1)?.text).toMatch(/^80 /);
  });

  it('is remembered whatever the level of the log, and summed as the log sums', () => {
    const clock = new FakeClock();
    const lines: string[] = [];
    const log = openLog({ level: 'none', clock, destination: { write: (line) => void lines.push(line) } });
    const fact = { environment: 'env-1', route: '/all', sdk: 'GoClient', remoteAddress: '192.0.2.7' };
    const refusal = { ...fact, reason: 'full', early: false, waitedMs: 0, retryAfterSeconds: 1 };
    for (let times = 0; times < 30; times++) refused.publish(() => refusal);
    log.error({}, 'something else');
    clock.advance(10_000);
    expect(log.trouble()).toMatchObject([
      { level: 'warn', text: 'refused: full', subject: { kind: 'environment', name: 'env-1' }, count: 30 },
      { level: 'error', text: 'something else', count: 1 },
    ]);
    expect(lines).toEqual([]);
    log.close();
  });
});
