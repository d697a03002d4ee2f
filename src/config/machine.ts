import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';

/** Where the memory limit was found. */
export interface MachineMemory {
  readonly memoryLimitBytes: number;
  readonly source: 'cgroup v2' | 'cgroup v1' | 'machine';
}

/** What {@link machineMemory} reads from; a test gives its own. */
export interface MachineReads {
  /** The text of a file, or undefined when it cannot be read. */
  readonly readFile: (path: string) => string | undefined;
  /** The machine's memory in bytes. */
  readonly totalBytes: () => number;
}

const ROOT = '/sys/fs/cgroup';
/** Which group this process is in, per controller: `0::/system.slice/headgate.service`, `5:memory:/docker/4e1f`. */
const MEMBERSHIP_PATH = '/proc/self/cgroup';
/** Groups this deep are looked at; deeper nesting than any service manager makes. */
const DEPTH_MAX = 32;

const systemReads: MachineReads = {
  readFile(path) {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      // No such controller here: the next place is asked.
      return undefined;
    }
  },
  totalBytes: totalmem,
};

/** A limit in bytes, or undefined for `max`, for nonsense and for "more than there is", which is how v1 says "none". */
function limitOf(text: string | undefined, totalBytes: number): number | undefined {
  if (text === undefined || !/^\d+\s*$/.test(text)) return undefined;
  const bytes = Number(text);
  return bytes > 0 && bytes < totalBytes ? bytes : undefined;
}

/** The path of this process's group, as seen from the root of the hierarchy; in a container, usually `/`. */
function groupPath(membership: string, pattern: RegExp): string {
  const path = pattern.exec(membership)?.[1] ?? '/';
  return path.includes('..') ? '/' : path;
}

/** The least limit on the way from the group up to the root: each one binds. */
function leastLimit(reads: MachineReads, directory: string, path: string, file: string): number | undefined {
  const parts = path.split('/').filter((part) => part !== '');
  let least: number | undefined;
  for (let depth = Math.min(parts.length, DEPTH_MAX); depth >= 0; depth--) {
    const limit = limitOf(reads.readFile([directory, ...parts.slice(0, depth), file].join('/')), reads.totalBytes());
    if (limit !== undefined && (least === undefined || limit < least)) least = limit;
  }
  return least;
}

/**
 * The memory this process may use: the limit of its container or service (cgroup v2, then v1), else the machine's memory.
 *
 * @example
 * const files = new Map([['/sys/fs/cgroup/memory.max', '536870912']]);
 * const memory = machineMemory({ readFile: (path) => files.get(path), totalBytes: () => 8 * 2 ** 30 });
 * console.log(memory.memoryLimitBytes, memory.source); // 536870912 cgroup v2
 */
export function machineMemory(reads: MachineReads = systemReads): MachineMemory {
  const membership = reads.readFile(MEMBERSHIP_PATH) ?? '';
  const v2 = leastLimit(reads, ROOT, groupPath(membership, /^0::(\/.*)$/m), 'memory.max');
  if (v2 !== undefined) return { memoryLimitBytes: v2, source: 'cgroup v2' };
  const v1 = leastLimit(
    reads,
    `${ROOT}/memory`,
    groupPath(membership, /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(\/.*)$/m),
    'memory.limit_in_bytes',
  );
  if (v1 !== undefined) return { memoryLimitBytes: v1, source: 'cgroup v1' };
  return { memoryLimitBytes: reads.totalBytes(), source: 'machine' };
}
