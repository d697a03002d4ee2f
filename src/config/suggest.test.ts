import { describe, expect, it } from 'vitest';
import { closest, didYouMean } from './suggest.ts';

const KNOWN = ['heartbeatInterval', 'port', 'tlsCert', 'maxQueued'];

describe('the name that was meant', () => {
  it.each([
    ['heartbeatIntervall', 'heartbeatInterval'],
    ['heartbeat_interval', 'heartbeatInterval'],
    ['HEARTBEAT-INTERVAL', 'heartbeatInterval'],
    ['prot', 'port'],
    ['pot', 'port'],
    ['tlsCret', 'tlsCert'],
    ['maxQueue', 'maxQueued'],
  ])('%s is %s', (name, meant) => {
    expect(closest(name, KNOWN)).toBe(meant);
  });

  it.each(['x', 'something', 'pppp', ''])('%j is nobody', (name) => {
    expect(closest(name, KNOWN)).toBeUndefined();
    expect(didYouMean(name, KNOWN)).toBe('');
  });

  // Comparing takes the product of both lengths: a name as long as a file must not.
  it('is not looked for when the name is longer than any could be', () => {
    const long = 'x'.repeat(65);
    expect(closest(long, [long])).toBeUndefined();
    expect(closest('x'.repeat(64), ['x'.repeat(64)])).toBe('x'.repeat(64));
  });
});
