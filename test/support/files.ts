import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The project's folder, with a slash at its end. */
export const ROOT: string = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Every file of the project, as a path from its root: what git tracks, and what it would track.
 * Nothing that git ignores is walked.
 */
export function projectFiles(): readonly string[] {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return listed.split('\0').filter((path) => path !== '' && existsSync(`${ROOT}${path}`));
}
