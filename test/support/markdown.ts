import { existsSync, readFileSync } from 'node:fs';
import { dirname, posix } from 'node:path';
import { ROOT } from './files.ts';

/** A page without its fenced code blocks: what is in them is no link, no heading and no reference. */
export function proseOf(path: string): string {
  return readFileSync(ROOT + path, 'utf8').replace(/^(```+).*\n[\s\S]*?^\1$/gm, '');
}

/** The lines of a page's fenced blocks of shell commands, without prompts and comments. */
export function shellLinesOf(path: string): readonly string[] {
  const text = readFileSync(ROOT + path, 'utf8');
  const blocks = [...text.matchAll(/^```(?:sh|bash|console|shell)\n([\s\S]*?)^```$/gm)];
  return blocks
    .flatMap(([, block = '']) => block.split('\n'))
    .map((line) =>
      line
        .replace(/^\$ /, '')
        .replace(/\s#.*$/, '')
        .trim(),
    )
    .filter((line) => line !== '' && !line.startsWith('#'));
}

/** The anchors that the headings of a page have on GitHub. */
function anchorsOf(path: string): ReadonlySet<string> {
  const headings = [...proseOf(path).matchAll(/^#{1,6} +(.+?) *$/gm)].map((match) => match[1] ?? '');
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}_\- ]/gu, '')
        .replace(/ /g, '-'),
    ),
  );
}

/** The links of a page that lead nowhere: to a file that is not there, or to a heading that its page does not have. */
export function brokenLinksOf(path: string): readonly string[] {
  const targets = [...proseOf(path).matchAll(/\]\(([^)\s]+)(?: "[^"]*")?\)/g)].map((match) => match[1] ?? '');
  return targets.filter((target) => {
    if (/^[a-z][a-z+.-]*:/i.test(target)) return false;
    const [file = '', anchor] = target.split('#');
    const to = file === '' ? path : posix.join(dirname(path), decodeURI(file));
    if (!existsSync(ROOT + to)) return true;
    return anchor !== undefined && to.endsWith('.md') && !anchorsOf(to).has(anchor);
  });
}
