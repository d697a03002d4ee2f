import { describe, expect, it } from 'vitest';
import { labelsOf, shownText, withoutKeys } from './live-names.ts';

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

  // Fails when keys are masked in the order in which they come.
  it('has nothing of a key that another one is a part of', () => {
    const other = { envId: 'shop-of-browsers-2', sdkKeys: [{ value: 'sdk/shop-of-browsers/secret' }] };
    const text = 'shop-of-browsers-2 sdk/shop-of-browsers/secret';
    expect(withoutKeys(text, [ENVIRONMENT, other])).toBe('...rs-2 ...cret');
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

const ID = '507f1f77bcf86cd799439011';

describe('what an environment is called', () => {
  const own = { sdkKeys: [{ value: 'sdk-of-staging' }] };

  it.each([
    ['by its name in the configuration', { ...own, name: 'staging' }, 'staging'],
    ['by that, with a client-side ID as well', { ...own, name: 'staging', envId: ID }, 'staging'],
    [
      'by its project and name, where the vendor told',
      { ...own, name: ID, envId: ID, projName: 'Shop', envName: 'Live' },
      'Shop Live',
    ],
    ['by its name alone, where that is all', { ...own, name: ID, envId: ID, projName: '', envName: 'Live' }, 'Live'],
    ['and by its filter', { ...own, name: 'staging/mobile', filterKey: 'mobile' }, 'staging mobile'],
    [
      'with a project, and by its filter',
      { ...own, name: `${ID}/a/b`, envId: ID, projName: 'Shop', filterKey: 'a/b' },
      'Shop a/b',
    ],
  ])('is told %s', (_, info, label) => {
    expect(labelsOf([info]).get(info.name)).toBe(label);
  });

  // Fails when a name that is one of its keys is not masked.
  it.each([
    ['client-side ID', { ...own, name: ID, envId: ID }, '...9011'],
    [
      'client-side ID, with a filter',
      { ...own, name: `${ID}/mobile`, envId: ID, filterKey: 'mobile' },
      '...9011 mobile',
    ],
    ['key of servers', { ...own, name: 'sdk-of-staging' }, '...ging'],
    ['key of phones', { ...own, name: 'mob-of-staging', mobileKey: 'mob-of-staging' }, '...ging'],
  ])('is no %s', (_, info, label) => {
    expect(labelsOf([info]).get(info.name)).toBe(label);
  });

  it('is told apart from all others, whatever they are called', () => {
    const named = ['a', 'a', 'a 2', 'b', 'a', 'a 2', 'a 2 2', 'a 4'].map((envName, at) => {
      return { ...own, name: `id-${at}`, envName };
    });
    const labels = [...labelsOf(named).values()];
    expect(labels).toHaveLength(named.length);
    expect(new Set(labels).size).toBe(named.length);
    expect(labels.slice(0, 5)).toEqual(['a', 'a 2', 'a 2 2', 'b', 'a 3']);
  });

  // Fails, for its time, when each looks through all numbers that are taken: this is asked for with each state.
  it('is found in one look at each', { timeout: 5000 }, () => {
    const same = Array.from({ length: 20_000 }, (_, at) => ({ ...own, name: `id-${at}`, envName: 'same' }));
    expect(labelsOf(same).get('id-19999')).toBe('same 20000');
  });
});
