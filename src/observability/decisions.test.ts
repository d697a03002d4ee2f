import { describe, expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import {
  answered,
  cursorEvicted,
  cursorShared,
  delivered,
  keyDropped,
  keyLearned,
  left,
  notForwarded,
  refused,
  unavailable,
} from '../protocols/crowdsec/index.ts';
import { openLog } from './log.ts';

const BOUNCER = {
  bouncer: 'nginx-1',
  agent: 'crowdsec-nginx-bouncer/v1.0.8',
  route: '/v1/decisions/stream',
  remoteAddress: '192.0.2.7',
};
const DELIVERED = {
  ...BOUNCER,
  what: 'full',
  waitedMs: 12,
  encoding: 'gzip',
  added: 10,
  deleted: 1,
  bytes: 1000,
  ms: 1500,
  parkedMs: 0,
} as const;

type Line = Record<string, unknown> & { level: number; msg: string };

const DEBUG = 20;
const INFO = 30;
const WARN = 40;
const ERROR = 50;

function logged(level: 'debug' | 'info' | 'warn', act: () => void): Line[] {
  const lines: Line[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Line) };
  const log = openLog({ level, clock: new FakeClock(), destination });
  act();
  log.close();
  return lines;
}

describe('the log of decisions', () => {
  it('warns of a refusal with the name of the bouncer, why, and how long it waited', () => {
    const refusal = { ...BOUNCER, reason: 'timeout', early: false, waitedMs: 1999.6, retryAfterSeconds: 3 };
    const lines = logged('warn', () => refused.publish(() => refusal));
    expect(lines).toMatchObject([{ ...refusal, waitedMs: 2000, level: WARN, msg: 'refused' }]);
  });

  it.each(['stalled', 'capped', 'shutdown'] as const)('warns of a delivery that was cut: %s', (outcome) => {
    const lines = logged('warn', () => delivered.publish(() => ({ ...DELIVERED, outcome })));
    expect(lines).toMatchObject([{ ...BOUNCER, level: WARN, msg: `cut: ${outcome}`, seconds: 1.5, copy: 'full' }]);
  });

  it('keeps a disconnect, and what went well, for debugging', () => {
    const act = (): void => {
      left.publish(() => ({ ...BOUNCER, waitedMs: 12.3 }));
      delivered.publish(() => ({ ...DELIVERED, outcome: 'client_gone' }));
      delivered.publish(() => ({ ...DELIVERED, outcome: 'completed' }));
      answered.publish(() => ({ ...BOUNCER, what: 'current', bytes: 26, hit: false }));
    };
    expect(logged('info', act)).toEqual([]);
    const lines = logged('debug', act);
    expect(lines.map(({ level }) => level)).toEqual([DEBUG, DEBUG, DEBUG, DEBUG]);
    expect(lines[0]).toMatchObject({ ...BOUNCER, msg: 'left while waiting', waitedMs: 12 });
  });

  it('sums what comes in floods', () => {
    const lines = logged('info', () => {
      for (let bouncer = 0; bouncer < 300; bouncer++) {
        const refusal = { ...BOUNCER, bouncer: `b${bouncer}`, reason: 'full', early: false, waitedMs: 0 };
        refused.publish(() => ({ ...refusal, retryAfterSeconds: 1 }));
        keyLearned.publish(() => ({ bouncer: `b${bouncer}` }));
        unavailable.publish(() => ({ ...BOUNCER, reason: 'no data' }));
      }
    });
    expect(lines.map(({ repeated }) => repeated)).toEqual([undefined, undefined, undefined, 299, 299, 299]);
  });

  it('tells what an operator should know of keys and cursors', () => {
    const about = { bouncer: 'nginx-1', remoteAddress: '192.0.2.7' };
    const lines = logged('info', () => {
      keyLearned.publish(() => ({ bouncer: 'key ending …ab12' }));
      keyDropped.publish(() => ({ bouncer: 'key ending …ab12' }));
      cursorShared.publish(() => about);
      cursorEvicted.publish(() => about);
    });
    expect(lines.map(({ level }) => level)).toEqual([INFO, WARN, WARN, WARN]);
    expect(lines[2]).toMatchObject({ ...about, msg: expect.stringContaining('share a cursor') as string });
  });

  it('tells faults with their cause', () => {
    const error = new Error('broken page');
    const lines = logged('warn', () => {
      delivered.publish(() => ({ ...DELIVERED, outcome: 'error', error }));
      notForwarded.publish(() => ({ ...BOUNCER, status: undefined, error }));
      notForwarded.publish(() => ({ ...BOUNCER, route: '/v1/usage-metrics', status: 404, error: undefined }));
    });
    expect(lines).toMatchObject([
      { level: ERROR, err: { message: 'broken page' } },
      { level: WARN, err: { message: 'broken page' } },
      { level: WARN, status: 404 },
    ]);
  });
});
