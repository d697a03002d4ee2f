import { describe, expect, it } from 'vitest';
import { acceptsGzip } from './accept.ts';

describe('whether gzip is accepted', () => {
  it.each([
    ['gzip', true],
    ['gzip, deflate, br', true],
    ['br;q=1.0, gzip;q=0.8, *;q=0.1', true],
    ['*', true],
    ['x-gzip', true],
    ['GZIP', true],
    ['identity', false],
    ['gzip;q=0', false],
    ['gzip; q=0.0', false],
    ['gzip;q=0.001', true],
    ['', false],
    [undefined, false],
    ['bgzip', false],
  ])('%s', (header, accepted) => {
    expect(acceptsGzip(header)).toBe(accepted);
  });
});
