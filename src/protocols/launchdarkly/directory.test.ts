import { afterEach, describe, expect, it, vi } from 'vitest';
import { fakeFront } from '../../../test/support/flags-fakes.ts';
import { infoOf } from '../../../test/support/flags-items.ts';
import { FakeClock } from '../../kernel/index.ts';
import { Directory } from './directory.ts';
import { Environment } from './environment.ts';

afterEach(() => {
  vi.useRealTimers();
});

function setUp(): { directory: Directory; clock: FakeClock; revoked: () => number } {
  const clock = new FakeClock();
  const options = fakeFront();
  let revoked = 0;
  const directory = new Directory({
    clock,
    make: (info) => new Environment(info, options, { refresh: () => {}, catchUp: () => {} }),
    onRevoked: () => revoked++,
  });
  return { directory, clock, revoked: () => revoked };
}

const KEYS = { sdkKeys: [{ value: 'sdk-a' }], mobileKey: 'mob-a', envId: 'a' };

describe('a directory', () => {
  it('leads each kind of credential to its environment, and no other kind', () => {
    const { directory } = setUp();
    const environment = directory.upsert(infoOf('a', KEYS));
    directory.settle();
    expect(directory.find('server', 'sdk-a', undefined)).toEqual({ environment });
    expect(directory.find('mobile', 'mob-a', undefined)).toEqual({ environment });
    expect(directory.find('client', 'a', undefined)).toEqual({ environment });
    expect(directory.find('server', 'mob-a', undefined)).toMatchObject({ status: 401 });
    expect(directory.find('mobile', 'sdk-a', undefined)).toMatchObject({ status: 401 });
    expect(directory.find('client', 'sdk-a', undefined)).toMatchObject({ status: 404 });
    expect(directory.find('server', undefined, undefined)).toEqual({ status: 401, text: undefined });
  });

  it('says 401 for both kinds where either may stand', () => {
    const { directory } = setUp();
    const environment = directory.upsert(infoOf('a', KEYS));
    directory.settle();
    expect(directory.findPublic('mob-a', undefined)).toEqual({ environment, audience: 'mobile' });
    expect(directory.findPublic('a', undefined)).toEqual({ environment, audience: 'client' });
    expect(directory.findPublic('b', undefined)).toMatchObject({ status: 401, audience: 'client' });
    expect(directory.findPublic('mob-b', undefined)).toMatchObject({ status: 401, audience: 'mobile' });
  });

  it('asks to wait while the list is not complete: 401 would stop an SDK for good', () => {
    // fails when the look at #certain in find is removed
    const { directory } = setUp();
    for (const audience of ['server', 'mobile', 'client'] as const)
      expect(directory.find(audience, 'later', undefined)).toMatchObject({ status: 503 });
  });

  it('asks whoever is not on an old list to wait: they may have been added since', () => {
    // fails when find or #withFilter look at #complete
    const { directory } = setUp();
    const environment = directory.upsert(infoOf('a', KEYS));
    directory.settle(false);
    expect(directory.complete).toBe(true);
    expect(directory.find('server', 'sdk-a', undefined)).toEqual({ environment });
    for (const audience of ['server', 'mobile', 'client'] as const)
      expect(directory.find(audience, 'later', undefined)).toMatchObject({ status: 503 });
    expect(directory.find('server', 'sdk-a', 'later')).toMatchObject({ status: 503 });
    directory.settle();
    expect(directory.find('server', 'later', undefined)).toMatchObject({ status: 401 });
    expect(directory.find('client', 'later', undefined)).toMatchObject({ status: 404 });
    expect(directory.find('server', 'sdk-a', 'later')).toMatchObject({ status: 404 });
    // what upstream has said once stays certain
    directory.settle(false);
    expect(directory.find('server', 'later', undefined)).toMatchObject({ status: 401 });
  });

  it('asks a credential that went to wait until the list is settled again', () => {
    // fails when #unsettled is not filled in #indexNow
    const { directory } = setUp();
    directory.upsert(infoOf('a', KEYS));
    directory.settle();
    directory.upsert(infoOf('a', { ...KEYS, sdkKeys: [{ value: 'sdk-b' }] }));
    expect(directory.find('server', 'sdk-a', undefined)).toMatchObject({ status: 503 });
    directory.settle();
    expect(directory.find('server', 'sdk-a', undefined)).toMatchObject({ status: 401 });
  });

  it('leads a filter to data of its own, under the credentials of the environment that it is of', () => {
    const { directory } = setUp();
    const whole = directory.upsert(infoOf('a', KEYS));
    const part = directory.upsert(infoOf('a/f', { ...KEYS, filterKey: 'f', parentId: 'a' }));
    directory.settle();
    expect(directory.find('server', 'sdk-a', 'f')).toEqual({ environment: part });
    expect(directory.find('server', 'sdk-a', undefined)).toEqual({ environment: whole });
    expect(directory.find('server', 'sdk-a', 'g')).toMatchObject({ status: 404 });
    expect(directory.leadsTo(part, 'server', 'sdk-a')).toBe(true);
    directory.remove('a/f');
    expect(directory.leadsTo(part, 'server', 'sdk-a')).toBe(false);
    expect(directory.find('server', 'sdk-a', 'f')).toMatchObject({ status: 404 });
  });

  it('ends a key at its expiry, and looks again for whoever was on the way in', () => {
    // fails when #awaitExpiry does not tell, or does not look again
    vi.useFakeTimers({ now: 1000, toFake: ['Date'] });
    const { directory, clock, revoked } = setUp();
    const sdkKeys = [{ value: 'sdk-new' }, { value: 'sdk-old', expiresMs: 3000 }];
    const environment = directory.upsert(infoOf('a', { ...KEYS, sdkKeys }));
    directory.settle();
    expect(revoked()).toBe(1);
    expect(directory.leadsTo(environment, 'server', 'sdk-old')).toBe(true);
    vi.setSystemTime(3000);
    clock.advance(2000);
    expect(revoked()).toBe(2);
    expect(directory.leadsTo(environment, 'server', 'sdk-old')).toBe(false);
    expect(directory.leadsTo(environment, 'server', 'sdk-new')).toBe(true);
    clock.advance(5000);
    expect(revoked()).toBe(4);
  });
});
