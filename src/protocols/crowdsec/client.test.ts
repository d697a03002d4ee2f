import { describe, expect, it } from 'vitest';
import { agentOf, Origins, searchOf } from './client.ts';

function originOf(trusted: readonly string[], remoteAddress: string, headers: Readonly<Record<string, string>> = {}) {
  return new Origins(trusted).of({ remoteAddress, header: (name) => headers[name] });
}

describe('the address of a client', () => {
  it('is that of the connection', () => {
    const headers = { 'x-forwarded-for': '198.51.100.1', 'x-real-ip': '198.51.100.1' };
    expect(originOf([], '192.0.2.1', headers)).toEqual({ address: '192.0.2.1', forwarded: false });
    expect(originOf(['10.0.0.0/8'], '192.0.2.1', headers)).toEqual({ address: '192.0.2.1', forwarded: false });
  });

  it.each([
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:192.0.2.1', '192.0.2.1'],
    ['2001:DB8::1', '2001:db8::1'],
    ['', '127.0.0.1'],
  ])('has one form: %s', (remoteAddress, address) => {
    expect(originOf([], remoteAddress).address).toBe(address);
  });

  // fails when the header is walked from the left, or its end is taken
  it.each([
    ['198.51.100.1', '198.51.100.1'],
    ['203.0.113.9, 198.51.100.1', '198.51.100.1'],
    ['198.51.100.1, 10.0.0.2, 10.0.0.3', '198.51.100.1'],
    ['203.0.113.9,198.51.100.1 , 10.0.0.2', '198.51.100.1'],
    // all of them trusted: the first one is whoever it is
    ['10.0.0.4, 10.0.0.2', '10.0.0.4'],
    ['2001:db8::7', '2001:db8::7'],
    ['::ffff:198.51.100.1', '198.51.100.1'],
  ])('is the last one that no trusted proxy has: %s', (forwardedFor, address) => {
    const headers = { 'x-forwarded-for': forwardedFor };
    expect(originOf(['10.0.0.0/8'], '::ffff:10.0.0.1', headers)).toEqual({ address, forwarded: true });
  });

  it.each(['unknown', '198.51.100.1, nonsense', '', '198.51.100.1:1234'])(
    'is what X-Real-IP says, else the proxy, when X-Forwarded-For is broken: %s',
    (forwardedFor) => {
      const headers = { 'x-forwarded-for': forwardedFor };
      expect(originOf(['10.0.0.1'], '10.0.0.1', headers).address).toBe('10.0.0.1');
      expect(originOf(['10.0.0.1'], '10.0.0.1', { ...headers, 'x-real-ip': '203.0.113.5' }).address).toBe(
        '203.0.113.5',
      );
    },
  );

  it.each([
    ['10.0.0.0/8', '10.255.255.255', true],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['0.0.0.0/0', '203.0.113.1', true],
    ['0.0.0.0/0', '2001:db8::1', false],
    ['192.0.2.1', '192.0.2.1', true],
    ['192.0.2.1', '192.0.2.2', false],
    ['192.0.2.128/25', '192.0.2.127', false],
    ['2001:db8::/32', '2001:db8:ffff::1', true],
    ['2001:db8::/33', '2001:db8:8000::1', false],
    ['2001:db8:1::/48', '2001:db8:1:2::3', true],
    ['::/0', '::1', true],
  ])('believes proxies in %s: %s is one: %s', (network, proxy, forwarded) => {
    expect(originOf([network], proxy, { 'x-forwarded-for': '198.51.100.1' }).forwarded).toBe(forwarded);
  });

  it('cannot be had from a proxy that has none', () => {
    expect(() => new Origins(['proxy.example'])).toThrow(
      'Cannot trust a proxy: expected an address or a network, got proxy.example',
    );
  });
});

describe('a client', () => {
  it('is known by its User-Agent, as far as it fits into a line', () => {
    expect(agentOf('crowdsec-firewall-bouncer/v0.0.31')).toBe('crowdsec-firewall-bouncer/v0.0.31');
    expect([agentOf(undefined), agentOf('')]).toEqual(['N/A', 'N/A']);
    expect(agentOf('x'.repeat(5000))).toHaveLength(100);
  });

  it('asks what stands behind the first question mark', () => {
    expect([searchOf('/v1/decisions'), searchOf('/v1/decisions?'), searchOf('/v1/decisions?a=?b')]).toEqual([
      '',
      '',
      'a=?b',
    ]);
  });
});
