import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import * as admission from './index.ts';

/** Every example in the doc comments of this room: `console.log(...); // what it prints`. */
function examples(): Array<[name: string, code: string]> {
  const room = new URL('.', import.meta.url);
  const found: Array<[string, string]> = [];
  for (const file of readdirSync(room).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))) {
    const text = readFileSync(new URL(file, room), 'utf8');
    for (const [, comment = '', after = ''] of text.matchAll(/\/\*\*([\s\S]*?)\*\/\s*(.*)/g)) {
      const code = comment.split('@example')[1]?.replaceAll(/^\s*\* ?/gm, '');
      if (code !== undefined) found.push([`${file}: ${after}`, code]);
    }
  }
  return found;
}

type Run = (...names: unknown[]) => Promise<void>;
const AsyncFunction = (async () => undefined).constructor as new (...source: string[]) => Run;

it.each(examples())('%s', async (_, code) => {
  const printed: string[] = [];
  const log = (...values: unknown[]): void => void printed.push(values.join(' '));
  const names = { ...admission, console: { log } };
  await new AsyncFunction(...Object.keys(names), code)(...Object.values(names));
  const expected = [...code.matchAll(/console\.log\(.*\); \/\/ (.*)/g)].map(([, text]) => text);
  expect(printed).toEqual(expected);
  expect(printed.length).toBeGreaterThan(0);
});

it('there is one for every export', () => {
  const exported =
    readFileSync(new URL('index.ts', import.meta.url), 'utf8')
      .match(/\{ (.*) \}/g)
      ?.join(', ') ?? '';
  const documented = examples().map(([name]) => name);
  const names = exported.split(/\W+/).filter((name) => name !== '' && name !== 'type');
  const isDocumented = (name: string): boolean =>
    documented.some((where) => new RegExp(`(class|type|interface) ${name}\\b`).test(where));
  expect(names.filter((name) => !isDocumented(name))).toEqual([]);
  expect(names).toContain('Limiter');
});
