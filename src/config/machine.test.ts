import { totalmem } from 'node:os';
import { describe, expect, it } from 'vitest';
import { machineMemory } from './machine.ts';

const TOTAL = 8 * 2 ** 30;

function read(files: Record<string, string>): ReturnType<typeof machineMemory> {
  return machineMemory({ readFile: (path) => files[path], totalBytes: () => TOTAL });
}

describe('the memory limit', () => {
  it.each([
    ['a container under v2', { '/sys/fs/cgroup/memory.max': '536870912\n' }, 536_870_912, 'cgroup v2'],
    [
      'a container under v1',
      { '/sys/fs/cgroup/memory/memory.limit_in_bytes': '268435456\n' },
      268_435_456,
      'cgroup v1',
    ],
    ['no limit under v2', { '/sys/fs/cgroup/memory.max': 'max\n' }, TOTAL, 'machine'],
    ['no limit under v1', { '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n' }, TOTAL, 'machine'],
    ['nonsense', { '/sys/fs/cgroup/memory.max': 'a lot' }, TOTAL, 'machine'],
    ['zero', { '/sys/fs/cgroup/memory.max': '0' }, TOTAL, 'machine'],
    ['no files at all', {}, TOTAL, 'machine'],
    [
      'a service, which is a group below the root',
      {
        '/proc/self/cgroup': '0::/system.slice/headgate.service\n',
        '/sys/fs/cgroup/system.slice/headgate.service/memory.max': '1073741824',
      },
      1_073_741_824,
      'cgroup v2',
    ],
    [
      'the least of the limits on the way up',
      {
        '/proc/self/cgroup': '0::/a/b\n',
        '/sys/fs/cgroup/a/b/memory.max': '3000000000',
        '/sys/fs/cgroup/a/memory.max': '2000000000',
        '/sys/fs/cgroup/memory.max': 'max',
      },
      2_000_000_000,
      'cgroup v2',
    ],
    [
      'a group under v1',
      {
        '/proc/self/cgroup': '5:cpu:/x\n4:hugetlb,memory:/docker/4e1f\n',
        '/sys/fs/cgroup/memory/docker/4e1f/memory.limit_in_bytes': '5000000',
      },
      5_000_000,
      'cgroup v1',
    ],
    [
      'the limit of the group itself, when that is the least',
      {
        '/proc/self/cgroup': '0::/a/b\n',
        '/sys/fs/cgroup/a/b/memory.max': '1000000000',
        '/sys/fs/cgroup/a/memory.max': '2000000000',
        '/sys/fs/cgroup/memory.max': '3000000000',
      },
      1_000_000_000,
      'cgroup v2',
    ],
    // A group outside the container's own view: its files are not this process's limits.
    [
      'a path that leads out',
      { '/proc/self/cgroup': '0::/../x', '/sys/fs/cgroup/../x/memory.max': '5', '/sys/fs/cgroup/memory.max': '77' },
      77,
      'cgroup v2',
    ],
  ])('is found for %s', (_case, files: Record<string, string>, memoryLimitBytes, source) => {
    expect(read(files)).toEqual({ memoryLimitBytes, source });
  });

  it('is never above the memory of this machine', () => {
    const { memoryLimitBytes } = machineMemory();
    expect(memoryLimitBytes).toBeGreaterThan(0);
    expect(memoryLimitBytes).toBeLessThanOrEqual(totalmem());
  });
});
