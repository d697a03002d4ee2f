import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { ROOT } from './files.ts';

/** Some rooms of the sources as Node runs them, in a folder of their own: for child processes and threads of a test. */
export interface Compiled {
  readonly folder: string;
  /** The URL of the compiled form of `src/<path>.ts`. */
  url(path: string): string;
}

const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.ESNext,
  target: ts.ScriptTarget.ES2023,
  verbatimModuleSyntax: true,
  rewriteRelativeImportExtensions: true,
};

/**
 * Compiles rooms as they are now, file by file and unchecked. Whoever calls removes the folder.
 *
 * @param withPackages - whether they find the packages that the project depends on
 */
export function compileRooms(rooms: readonly string[], withPackages = true): Compiled {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-compiled-'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
  if (withPackages) symlinkSync(`${ROOT}node_modules`, join(folder, 'node_modules'));
  for (const room of rooms) {
    for (const name of readdirSync(`${ROOT}src/${room}`, { recursive: true, encoding: 'utf8' })) {
      if (!name.endsWith('.ts') || name.endsWith('.test.ts')) continue;
      const source = readFileSync(`${ROOT}src/${room}/${name}`, 'utf8');
      const target = join(folder, 'src', room, name.replace(/\.ts$/, '.js'));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, ts.transpileModule(source, { compilerOptions: OPTIONS }).outputText);
    }
  }
  return { folder, url: (path) => pathToFileURL(join(folder, 'src', `${path}.js`)).href };
}
