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

const CGROUP_V2_PATH = '/sys/fs/cgroup/memory.max';
const CGROUP_V1_PATH = '/sys/fs/cgroup/memory/memory.limit_in_bytes';

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

/**
 * The memory this process may use: the container's limit (cgroup v2, then v1), else the machine's memory.
 *
 * @example
 * machineMemory().memoryLimitBytes; // 536870912 in a container with 512 MiB
 */
export function machineMemory(reads: MachineReads = systemReads): MachineMemory {
  const totalBytes = reads.totalBytes();
  const v2 = limitOf(reads.readFile(CGROUP_V2_PATH), totalBytes);
  if (v2 !== undefined) return { memoryLimitBytes: v2, source: 'cgroup v2' };
  const v1 = limitOf(reads.readFile(CGROUP_V1_PATH), totalBytes);
  if (v1 !== undefined) return { memoryLimitBytes: v1, source: 'cgroup v1' };
  return { memoryLimitBytes: totalBytes, source: 'machine' };
}
