import { afterEach, describe, expect, it, vi } from 'vitest';
import { fakeFront } from '../../../test/support/flags-fakes.ts';
import { flag, infoOf } from '../../../test/support/flags-items.ts';
import { FlagsFront } from './front.ts';

afterEach(() => {
  vi.useRealTimers();
});

describe('the environments in /status', () => {
  it('are disconnected until they have data, and the whole is healthy when all of them have', async () => {
    const front = new FlagsFront(fakeFront());
    front.upsert(infoOf('a'));
    await front.load(infoOf('b'), [flag('x', 1)], 'source');
    expect(front.status().healthy).toBe(false);
    front.environmentsKnown();
    expect(front.status()).toMatchObject({
      environments: { a: { status: 'disconnected' }, b: { status: 'connected', connectionStatus: { state: 'VALID' } } },
      healthy: false,
    });
    await front.load(infoOf('a'), [], 'source');
    expect(front.status().healthy).toBe(true);
  });

  it('show keys with all but their end hidden, the old one until it expires, and leave out what is not there', () => {
    vi.useFakeTimers({ now: 1000 });
    const front = new FlagsFront(fakeFront());
    const sdkKeys = [{ value: 'sdk-aaaa-11111' }, { value: 'sdk-bbbb-22222', expiresMs: 2000 }];
    front.upsert(infoOf('a', { sdkKeys, mobileKey: 'mob-cccc-33333', projKey: 'p' }));
    const shown = (): object => front.status().environments['a'] ?? {};
    expect(shown()).toEqual({
      sdkKey: 'sdk-****-11111',
      expiringSdkKey: 'sdk-****-22222',
      mobileKey: 'mob-****-33333',
      projKey: 'p',
      status: 'disconnected',
      connectionStatus: { state: 'INITIALIZING', stateSince: 1000 },
      dataStoreStatus: { state: 'VALID', stateSince: 1000 },
    });
    vi.setSystemTime(2000);
    expect(shown()).not.toHaveProperty('expiringSdkKey');
  });
});
