import { describe, expect, it } from 'vitest';
import { quirksOf, takesCatchUp } from './quirks.ts';

describe('what is known of an SDK by its User-Agent', () => {
  it.each([
    ['NodeJSClient/9.13.7', 'NodeJSClient', true, true],
    ['GoClient/7.14.6', 'GoClient', false, false],
    ['PythonClient/9.20.0', 'PythonClient', false, false],
    ['RubyClient/8.12.0', 'RubyClient', false, false],
    ['Node', 'Node', false, false],
    [undefined, 'unknown', false, false],
  ])('%s', (userAgent, sdk, frozenBasis, catchUp) => {
    const quirks = quirksOf(userAgent);
    expect(quirks.sdk).toBe(sdk);
    expect(quirks.frozenBasis).toBe(frozenBasis);
    expect(takesCatchUp(quirks, 'safe')).toBe(catchUp);
  });

  it('lets an operator without persistent stores give Go its catch-up too, but never Python, whose status wants a put', () => {
    expect(takesCatchUp(quirksOf('GoClient/7'), 'all')).toBe(true);
    expect(takesCatchUp(quirksOf('PythonClient/9'), 'all')).toBe(false);
    expect(takesCatchUp(quirksOf('NodeJSClient/9'), 'off')).toBe(false);
  });

  it('bounds what a client can put into a log', () => {
    expect(quirksOf('x'.repeat(1000)).sdk).toHaveLength(40);
  });
});
