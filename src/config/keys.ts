import { createHash } from 'node:crypto';
import { Problems } from './problems.ts';
import type { BouncerKeyConfig, Problem } from './types.ts';

/** SHA-512 in hex, as the vendor's database holds it. */
const SHA512 = /^[0-9a-f]{128}$/i;

/** A key as it is kept: its SHA-512 in lower-case hex, without salt, so that keys can be taken over from the vendor's. */
export function hashOfKey(key: string): string {
  return createHash('sha512').update(key).digest('hex');
}

/** Whether `text` is a hash of a key and not a key. */
export function isKeyHash(text: string): boolean {
  return SHA512.test(text);
}

/** More bouncers than anyone has; a file that goes on beyond is another one by mistake. */
const KEYS_MAX = 100_000;

/** What {@link parseKeyFile} found. The keys count only when no problem is an error. */
export interface KeyFile {
  readonly keys: readonly BouncerKeyConfig[];
  readonly problems: readonly Problem[];
}

/**
 * Reads a file of keys: a line `name: key` for each, where the key is plain or its SHA-512 in hex. Empty lines and lines
 * that begin with `#` are passed over. Messages carry the line and never what may be a key.
 *
 * @param file the name that problems are told under.
 *
 * @example
 * const { keys, problems } = parseKeyFile('# web servers\nnginx: s3cret\ncaddy s3cret\n', 'keys.txt');
 * console.log(keys.map(({ name }) => name)); // [ 'nginx' ]
 * console.log(problems[0]?.where); // keys.txt:3
 */
export function parseKeyFile(text: string, file: string): KeyFile {
  const problems = new Problems();
  const keys: BouncerKeyConfig[] = [];
  const lines = new Map<string, number>();
  for (const [index, raw] of text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .entries()) {
    const where = `${file}:${index + 1}`;
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    if (keys.length === KEYS_MAX) {
      problems.error(where, `expected at most ${KEYS_MAX} keys, got more`);
      break;
    }
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).trim();
    const key = line.slice(colon + 1).trim();
    if (name === '' || !/^\S+$/.test(key)) {
      problems.error(where, 'expected a name, a colon and a key without spaces, as in "nginx: 4Xb…", got another line');
      continue;
    }
    const before = lines.get(name);
    if (before !== undefined)
      problems.error(where, `expected a name of its own, got "${name}" again, as in line ${before}`);
    lines.set(name, index + 1);
    keys.push({ name, sha512: isKeyHash(key) ? key.toLowerCase() : hashOfKey(key) });
  }
  return { keys, problems: problems.list() };
}
