import { describe, expect, it } from 'vitest';
import { herdOptions } from './herd.ts';
import { checkFiles } from './machine.ts';
import { checkOptions, type HerdOptions } from './options.ts';
import { addressOf, type Held, pathOf, type Plan, requestOf } from './plan.ts';
import { profileOf } from './profiles.ts';
import { readMetrics, sumBy } from './server-watch.ts';
import type { HerdKind } from './words.ts';

const check = (changes: Partial<HerdOptions>): void =>
  checkOptions(herdOptions('http://127.0.0.1', { keys: ['sdk-1'], ...changes }));
const { shares } = herdOptions('');

describe('checkOptions', () => {
  it('lets the defaults pass', () => {
    expect(() => check({})).not.toThrow();
  });

  it.each<[string, Partial<HerdOptions>, string]>([
    ['clients', { clients: 20_001 }, 'clients must be a whole number from 1 to 20000, got 20001'],
    ['clients', { clients: Number.NaN }, 'clients must be a whole number'],
    ['arrive', { arriveMs: -1 }, 'arrive must be from 0 to 1 hour'],
    ['deadline', { deadlineMs: 0 }, 'deadline must be'],
    ['duration', { durationMs: 1e12 }, 'duration must be from 1 ms to 24 hours'],
    ['every', { everyMs: 1 }, 'every must be'],
    ['drop', { dropAtMs: 5 }, 'duration must be given when there is a drop'],
    ['drop', { dropAtMs: 5, durationMs: 4 }, 'drop must be within the duration, got 5'],
    ['shares', { shares: { ...shares, stalled: 0.6, slow: 0.6 } }, 'at most 100 % together'],
    ['slow', { shares: { ...shares, slowBytesPerSecond: 0 } }, 'slow must be a rate'],
    ['kind', { parts: [{ kind: 'fdv3' as HerdKind, weight: 1 }] }, 'kind must be one of fdv1, fdv2'],
    ['weight', { parts: [{ kind: 'fdv1', weight: Number.NaN }] }, 'the weight of fdv1 must be'],
    ['sdk', { sdks: ['lua'] }, 'sdk for fdv1 must be one of go, node, python, got lua'],
    ['sdk', { sdks: ['go', 'cobol'] }, 'sdk must be one of'],
    ['keys', { keys: [] }, 'a key of an SDK must be given, got none'],
    ['keys', { parts: [{ kind: 'bouncer', weight: 1 }] }, 'a key of a bouncer must be given'],
  ])('refuses %s out of range', (_, changes, message) => {
    expect(() => check(changes)).toThrow(message);
  });

  // fails when keys may have line feeds: the rest would be another header
  it('refuses a key that is more than a key, and does not show it', () => {
    const keys = ['secret\r\nx-evil: 1'];
    expect(() => check({ keys })).toThrow('a key must be 1 to 1024 visible ASCII characters, got 17 characters');
    expect(() => check({ keys })).not.toThrow('secret');
  });
});

describe('checkFiles', () => {
  const limits = (): string =>
    'Limit  Soft Limit  Hard Limit\nMax open files            1024                 4096  files\n';

  // fails when the limit is not looked at
  it('says beforehand what would look like a refusal later', () => {
    expect(() => checkFiles(960, limits)).not.toThrow();
    expect(() => checkFiles(961, limits)).toThrow(/ulimit -n 1025\) or take at most 960 clients, got 1024$/);
  });

  it('takes a system that does not tell as one without a limit', () => {
    const untold = (): string => {
      throw new Error('no such file');
    };
    for (const text of [untold, () => 'Max open files unlimited unlimited']) {
      expect(() => checkFiles(20_000, text)).not.toThrow();
    }
  });
});

const held: Held = { hasCopy: false, basis: undefined, lastEventId: undefined, tag: undefined, startsUp: true };
const planOf = (kind: HerdKind, sdk: string, changes: Partial<Plan> = {}): Plan => ({
  number: 0,
  role: 'steady',
  profile: profileOf(kind, sdk),
  key: 'key-1',
  arrivalMs: 0,
  everyMs: 1,
  localAddress: undefined,
  flag: undefined,
  isPlain: false,
  ...changes,
});

describe('a request', () => {
  it('asks for everything at first, and names what is held later, as the SDK does', () => {
    const later: Held = { hasCopy: true, basis: 's 1', lastEventId: 'p1', tag: '"t"', startsUp: false };
    const paths = (kind: HerdKind, sdk: string): string[] => [held, later].map((has) => pathOf(planOf(kind, sdk), has));
    expect(paths('fdv1', 'go')).toEqual(['/all', '/all']);
    expect(paths('fdv2', 'go')).toEqual(['/sdk/stream', '/sdk/stream?basis=s%201']);
    expect(paths('fdv2', 'node')).toEqual(['/sdk/stream', '/sdk/stream']);
    expect(paths('fdv2-poll', 'python')).toEqual(['/sdk/poll', '/sdk/poll?basis=s%201']);
    expect(paths('bouncer', 'lua')).toEqual([
      '/v1/decisions/stream?startup=true',
      '/v1/decisions/stream?startup=false',
    ]);
    expect(paths('bouncer', 'go')).toEqual([
      '/v1/decisions/stream?additional_pull=false&community_pull=false&startup=true',
      '/v1/decisions/stream?additional_pull=false&community_pull=false',
    ]);
    expect(pathOf(planOf('php', 'php', { flag: 'a/b' }), held)).toBe('/sdk/flags/a%2Fb');
    const to = { host: 'relay.test', base: '/team' };
    expect(requestOf(planOf('fdv2', 'go'), later, to).split('\r\n')).toEqual([
      'GET /team/sdk/stream?basis=s%201 HTTP/1.1',
      'host: relay.test',
      'authorization: key-1',
      'user-agent: GoClient/7.14.6',
      'accept: text/event-stream',
      'cache-control: no-cache',
      'accept-encoding: gzip',
      'connection: keep-alive',
      'last-event-id: p1',
      '',
      '',
    ]);
    const poll = requestOf(planOf('fdv1-poll', 'node', { isPlain: true }), later, to);
    expect(poll).toContain('if-none-match: "t"\r\n');
    expect(poll).not.toContain('accept-encoding');
    expect(requestOf(planOf('bouncer', 'lua'), held, to)).toContain('x-api-key: key-1\r\n');
  });

  it('comes from an address of its own for each bouncer', () => {
    const all = new Set(Array.from({ length: 20_000 }, (_, number) => addressOf(number)));
    expect([all.size, addressOf(19_999)]).toEqual([20_000, '127.77.78.31']);
  });
});

describe('readMetrics', () => {
  it('reads samples, and sums them by a label', () => {
    const metrics = readMetrics(
      '# HELP a x\n# TYPE a counter\na{x="1",y="q\\"}"} 2\na{x="2",y=""} 3.5\na{y="z",x="1"} 1e3 1700000000\na_b 9\nnonsense\n',
    );
    expect([...sumBy(metrics, 'a', 'x')]).toEqual([
      ['1', 1002],
      ['2', 3.5],
    ]);
    expect([...sumBy(metrics, 'a')]).toEqual([['', 1005.5]]);
    expect([...sumBy(metrics, 'a_b')]).toEqual([['', 9]]);
  });
});
