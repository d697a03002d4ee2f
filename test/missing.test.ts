import { afterEach, expect, it, vi } from 'vitest';
import { isThereOrSkipped } from './support/missing.ts';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

// fails when a missing part does not throw in CI
it('a real part that is missing is skipped aloud, and an error in CI', () => {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  vi.stubEnv('CI', undefined);
  expect([isThereOrSkipped(true, 'Cannot run it'), isThereOrSkipped(false, 'Cannot run it')]).toEqual([true, false]);
  vi.stubEnv('CI', 'true');
  expect(isThereOrSkipped(true, 'Cannot run it')).toBe(true);
  expect(() => isThereOrSkipped(false, 'Cannot run it')).toThrow('Cannot run it');
  expect(write.mock.calls).toEqual([['Cannot run it; its tests are skipped\n']]);
});
