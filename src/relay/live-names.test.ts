import { describe, expect, it } from 'vitest';
import { shownText, withoutKeys } from './live-names.ts';

const ENVIRONMENT = {
  envId: 'shop-of-browsers',
  mobileKey: 'phones-of-the-shop',
  sdkKeys: [{ value: 'servers-of-the-shop' }, { value: '' }],
};

describe('a text that may be shown', () => {
  // Fails when one of the three kinds of key is left out.
  it('has no key of an environment that is served, however it is written', () => {
    const text =
      'Cannot reach /eval/shop-of-browsers with phones-of-the-shop, servers-of-the-shop or servers-of-the-shop';
    expect(withoutKeys(text, [ENVIRONMENT])).toBe('Cannot reach /eval/...sers with ...shop, ...shop or ...shop');
    expect(withoutKeys('nothing of it', [ENVIRONMENT])).toBe('nothing of it');
  });

  // Fails when the look for what looks like a key is removed.
  it('has nothing that looks like one of an environment that has gone', () => {
    const text = 'sdk-00000000-1111-2222-3333-444444444444 and 507f1f77bcf86cd799439011 of mob-12345678';
    expect(shownText(text, [])).toBe('...4444 and ...9011 of ...5678');
    expect(shownText('the sdk-key of 12 items', [])).toBe('the sdk-key of 12 items');
  });

  it('is asked of every service', () => {
    const services = [
      {},
      { hide: (text: string) => text.replace('a', '.') },
      { hide: (text: string) => text.replace('b', '.') },
    ];
    expect(shownText('a b', services)).toBe('. .');
  });
});
