import { describe, expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { caughtUp, delivered, failed, lost, refused } from '../protocols/launchdarkly/index.ts';
import { openLog } from './log.ts';

const CLIENT = { environment: 'production', route: '/all', sdk: 'GoClient', remoteAddress: '192.0.2.7' };
const DELIVERED = {
  ...CLIENT,
  what: 'full',
  waitedMs: 12,
  encoding: 'identity',
  bytes: 1000,
  ms: 1500,
  parkedMs: 0,
} as const;

type Line = Record<string, unknown> & { level: number; msg: string };

function logged(level: 'debug' | 'info' | 'warn', act: () => void): Line[] {
  const lines: Line[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Line) };
  const log = openLog({ level, clock: new FakeClock(), destination });
  act();
  log.close();
  return lines;
}

it('calls environments as it is told to, in every line', () => {
  const lines: Line[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Line) };
  const log = openLog({ level: 'debug', clock: new FakeClock(), destination });
  log.info({ environment: 'e1' }, 'before');
  log.call((name) => `Shop ${name}`);
  for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level]({ environment: 'e1' }, level);
  lost.publish(() => ({ ...CLIENT, environment: 'e1' }));
  log.info({ port: 1 }, 'none');
  log.close();
  const called = lines.map(({ environment }) => environment);
  expect(called).toEqual(['e1', ...Array.from({ length: 5 }, () => 'Shop e1'), undefined]);
});

const WARN = 40;
const DEBUG = 20;
const ERROR = 50;

describe('the log', () => {
  it('warns of a refusal with what an operator asks: who, why, how long', () => {
    const refusal = { ...CLIENT, reason: 'timeout', early: false, waitedMs: 999.6, retryAfterSeconds: 3 };
    const lines = logged('info', () => refused.publish(() => refusal));
    expect(lines).toMatchObject([{ ...refusal, waitedMs: 1000, level: WARN, msg: 'refused' }]);
  });

  it.each(['stalled', 'capped', 'shutdown'] as const)('warns of a delivery that was cut: %s', (outcome) => {
    const lines = logged('info', () => delivered.publish(() => ({ ...DELIVERED, outcome })));
    expect(lines).toMatchObject([
      { ...CLIENT, level: WARN, msg: `cut: ${outcome}`, bytes: 1000, seconds: 1.5, copy: 'full' },
    ]);
  });

  it('sums what repeats', () => {
    const lines = logged('info', () => {
      for (let cut = 0; cut < 300; cut++) delivered.publish(() => ({ ...DELIVERED, outcome: 'stalled' }));
    });
    expect(lines.map(({ repeated }) => repeated)).toEqual([undefined, 299]);
  });

  it('keeps the departure of a client, and what went well, for debugging', () => {
    const act = (): void => {
      delivered.publish(() => ({ ...DELIVERED, outcome: 'client_gone' }));
      delivered.publish(() => ({ ...DELIVERED, outcome: 'completed' }));
      caughtUp.publish(() => ({ ...CLIENT, changes: 1, bytes: 100 }));
    };
    expect(logged('info', act)).toEqual([]);
    expect(logged('debug', act).map(({ level }) => level)).toEqual([DEBUG, DEBUG, DEBUG]);
  });

  it('tells faults of ours as errors, with their cause', () => {
    const error = new Error('broken entry');
    const lines = logged('warn', () => {
      delivered.publish(() => ({ ...DELIVERED, outcome: 'error', error }));
      failed.publish(() => ({ ...CLIENT, error }));
      lost.publish(() => CLIENT);
    });
    expect(lines).toMatchObject([
      { level: ERROR, err: { message: 'broken entry' } },
      { level: ERROR, err: { message: 'broken entry' } },
      { level: WARN, msg: 'stream fell off the log' },
    ]);
  });

  it('hears nothing more once it is closed, and then nothing is made', () => {
    logged('debug', () => undefined);
    let made = 0;
    caughtUp.publish(() => {
      made++;
      return { ...CLIENT, changes: 0, bytes: 0 };
    });
    expect(made).toBe(0);
  });

  it('is written for people when asked', () => {
    let text = '';
    const destination = { write: (line: string) => void (text += line) };
    const log = openLog({ level: 'info', format: 'pretty', clock: new FakeClock(), destination });
    log.info({ port: 8030, host: '*', note: 'two words' }, 'listening');
    log.close();
    expect(text).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}listening port=8030 host=\* note="two words"\n$/);
  });
});
