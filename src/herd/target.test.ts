import { describe, expect, it } from 'vitest';
import { findTarget, isLoopback } from './target.ts';

const resolveTo =
  (...addresses: string[]) =>
  async (): Promise<readonly string[]> =>
    addresses;
const nobody = async (): Promise<boolean> => false;
const options = { name: 'the URL', allowRemote: false, answers: nobody };

describe('isLoopback', () => {
  it.each(['127.0.0.1', '127.255.0.9', '::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1', '::ffff:7f00:1'])(
    'is so for %s',
    (address) => {
      expect(isLoopback(address)).toBe(true);
    },
  );

  it.each(['0.0.0.0', '::', '10.0.0.1', '::ffff:10.0.0.1', '128.0.0.1', '::2', 'fe80::1', 'localhost', '', '127.1'])(
    'is not so for %j',
    (address) => {
      expect(isLoopback(address)).toBe(false);
    },
  );
});

describe('findTarget', () => {
  it('takes apart what is needed', async () => {
    expect(await findTarget('https://relay.test:8443/team/', { ...options, resolve: resolveTo('127.0.0.5') })).toEqual({
      address: '127.0.0.5',
      port: 8443,
      isTls: true,
      host: 'relay.test:8443',
      serverName: 'relay.test',
      base: '/team',
      shown: 'https://relay.test:8443/team/',
    });
    expect(await findTarget('http://[::1]:8030', options)).toMatchObject({
      address: '::1',
      port: 8030,
      serverName: '',
    });
    expect(await findTarget('http://127.0.0.1', options)).toMatchObject({ address: '127.0.0.1', port: 80 });
  });

  // fails when only the first address of a name is looked at
  it.each([
    ['a name that stands for another machine', ['10.1.2.3']],
    ['a name that stands for both', ['127.0.0.1', '10.1.2.3']],
    ['a name that stands for both, in IPv6', ['::1', '2001:db8::1']],
    ['another machine, as IPv4 in IPv6', ['::ffff:10.1.2.3']],
  ])('refuses %s', async (_, addresses) => {
    const resolve = resolveTo(...addresses);
    await expect(findTarget('http://relay.test', { ...options, resolve })).rejects.toThrow(
      `Cannot use the URL: every address of relay.test must be of this machine (loopback) unless --allow-remote is given, got ${addresses.at(-1)}`,
    );
    const allowed = await findTarget('http://relay.test', { ...options, resolve, allowRemote: true });
    expect(addresses).toContain(allowed.address);
  });

  it('refuses an address of another machine, however it is written', async () => {
    for (const host of ['10.0.0.1', '[::ffff:10.0.0.1]', '0x0a.1', '0.0.0.0', '[::]']) {
      await expect(findTarget(`http://${host}:1`, options)).rejects.toThrow('--allow-remote');
    }
  });

  it('goes to the first address at which somebody answers, and asks the name once', async () => {
    let asked = 0;
    const resolve = async (): Promise<readonly string[]> => {
      asked++;
      return ['::1', '127.0.0.1'];
    };
    const answers = async (address: string): Promise<boolean> => address === '127.0.0.1';
    const found = await findTarget('http://localhost:8030', { ...options, resolve, answers });
    expect([found.address, found.host, asked]).toEqual(['127.0.0.1', 'localhost:8030', 1]);
  });

  it('says what is no target, and shows no password', async () => {
    await expect(findTarget('127.0.0.1:8030', options)).rejects.toThrow('expected an http or https URL');
    await expect(findTarget('http://me:secret@127.0.0.1/', options)).rejects.not.toThrow('secret');
    await expect(findTarget('ftp://me:secret@127.0.0.1/', options)).rejects.not.toThrow('secret');
    await expect(findTarget('http://127.0.0.1/?key=secret', options)).rejects.not.toThrow('secret');
    await expect(findTarget('http://nowhere.test', { ...options, resolve: resolveTo() })).rejects.toThrow('no address');
  });
});
