import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { ROOT } from './files.ts';
import { isThereOrSkipped } from './missing.ts';

const TOOLS = `${ROOT}test/clients/.build/tools`;

/** The programs that look at how Headgate is deployed. */
export type Program = 'actionlint' | 'compose-go' | 'hadolint' | 'helm' | 'kubernetes-validate' | 'systemd-analyze';

/** Where they are. */
const PROGRAMS: Readonly<Record<Program, string>> = {
  actionlint: `${TOOLS}/actionlint`,
  'compose-go': `${TOOLS}/compose-go`,
  hadolint: `${TOOLS}/python/bin/hadolint`,
  helm: `${TOOLS}/helm`,
  'kubernetes-validate': `${TOOLS}/python/bin/kubernetes-validate`,
  'systemd-analyze': '/usr/bin/systemd-analyze',
};

/**
 * Whether all of these can be run here; `scripts/deploy-tools.sh test/clients/.build/tools` makes it so, but for systemd's.
 * In CI every one must be there: a missing one is an error, never a skipped test.
 */
export function programsAvailable(...programs: readonly Program[]): boolean {
  const missing = programs.filter((program) => !existsSync(PROGRAMS[program]));
  const problem = `Cannot run ${missing.join(' and ')}: run scripts/deploy-tools.sh test/clients/.build/tools first, or install systemd`;
  return isThereOrSkipped(missing.length === 0, problem);
}

/** What a program said, and how it ended. */
export interface Said {
  readonly status: number | null;
  readonly stdout: string;
  /** Standard output and standard error. */
  readonly text: string;
}

/** Runs one of the programs, in the project's folder unless told otherwise. */
export function run(program: Program, args: readonly string[], input = ''): Said {
  const { status, stdout, stderr, error } = spawnSync(PROGRAMS[program], args, { cwd: ROOT, encoding: 'utf8', input });
  if (error !== undefined) throw error;
  return { status, stdout, text: stdout + stderr };
}
