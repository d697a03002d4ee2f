import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import ts from 'typescript';
import { projectFiles, ROOT } from './files.ts';

/** An `@example` of a doc comment, made into a module of its own. */
export interface Example {
  /** Where it stands: file and line. */
  readonly place: string;
  /** The module: the example, its imports added, each `console.log` replaced by a call of `print` with its number. */
  readonly code: string;
  /** The global function that the module prints with; its first argument is the number. */
  readonly print: string;
  /** What each `console.log` is to print, by its number; `undefined` where the example does not say. */
  readonly expected: readonly (string | undefined)[];
  /** Whether it is to be run, or only compiled: ```` ```ts no-run ````, for one that listens on a fixed port or never ends. */
  readonly runs: boolean;
}

/** A source file and what it exports: each name, and whether it is a type alone. */
interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly exports: ReadonlyMap<string, { readonly isType: boolean }>;
}

interface Block {
  readonly line: number;
  readonly text: string;
  readonly runs: boolean;
}

/**
 * Every example in the doc comments of the sources.
 *
 * An example imports from the package by name, or not at all: what it uses and does not declare is imported from its
 * own file, else from its room, else from the kernel. Everything else it has to import or declare.
 *
 * @param folder - where the modules will be written, as a path from the root.
 */
export function readExamples(folder: string): readonly Example[] {
  const paths = projectFiles().filter((path) => /^src\/.*\.ts$/.test(path) && !path.endsWith('.test.ts'));
  const sources = paths.map(readSource);
  const subpaths = readSubpaths();
  const examples: Example[] = [];
  for (const { source, tree } of sources) {
    const near = sources.map((other) => other.source).filter((other) => distance(source, other) !== undefined);
    const nearest = near.toSorted((a, b) => (distance(source, a) ?? 0) - (distance(source, b) ?? 0));
    for (const block of blocksOf(tree)) {
      const print = `printExample${examples.length}`;
      const toRoot = `${posix.relative(folder, '.')}/`;
      examples.push({
        place: `${source.path}:${block.line}`,
        print,
        runs: block.runs,
        ...moduleOf({ text: block.text, print, toRoot, nearest, subpaths }),
      });
    }
  }
  return examples;
}

/** How near an example in one file is to what another exports; `undefined` when it has to import it by name. */
function distance(from: SourceFile, to: SourceFile): number | undefined {
  if (from.path === to.path) return 0;
  if (from.room === to.room) return 1;
  return to.room === 'kernel' ? 2 : undefined;
}

function parse(path: string, text: string): ts.SourceFile {
  return ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true, ts.ScriptKind.TS);
}

function readSource(path: string): { source: SourceFile; tree: ts.SourceFile } {
  const tree = parse(path, readFileSync(ROOT + path, 'utf8'));
  return { tree, source: { path, room: path.split('/')[1] ?? '', exports: exportsOf(tree) } };
}

function exportsOf(tree: ts.SourceFile): SourceFile['exports'] {
  const found = new Map<string, { isType: boolean }>();
  for (const statement of tree.statements) {
    const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined;
    if (!modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) continue;
    const isType = ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement);
    for (const name of namesDeclaredBy(statement)) found.set(name, { isType });
  }
  return found;
}

function namesDeclaredBy(statement: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  const { name } = statement as ts.Statement & { name?: ts.Identifier };
  return name === undefined ? [] : [name.text];
}

/** `headgate/admission` to `src/admission/index.ts`, as the package's exports have it. */
function readSubpaths(): ReadonlyMap<string, string> {
  const { name, exports } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
    name: string;
    exports: Record<string, string | { default: string }>;
  };
  const found = new Map<string, string>();
  for (const [subpath, target] of Object.entries(exports)) {
    if (typeof target === 'string') continue;
    found.set(posix.join(name, subpath), target.default.replace(/^\.\/dist\/(.*)\.js$/, 'src/$1.ts'));
  }
  return found;
}

function blocksOf(tree: ts.SourceFile): readonly Block[] {
  const blocks = new Map<number, Block>();
  walk(tree, (node) => {
    for (const tag of ts.getJSDocTags(node)) {
      if (tag.tagName.text !== 'example') continue;
      const comment = ts.getTextOfJSDocComment(tag.comment) ?? '';
      const [, info = '', fenced] = /```(.*)\n([\s\S]*?)```/.exec(comment) ?? [];
      const { line } = tree.getLineAndCharacterOfPosition(tag.getStart(tree));
      blocks.set(tag.pos, { line: line + 1, text: fenced ?? comment, runs: !info.includes('no-run') });
    }
  });
  return [...blocks.values()];
}

function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

interface ModuleParts {
  readonly text: string;
  readonly print: string;
  readonly toRoot: string;
  readonly nearest: readonly SourceFile[];
  readonly subpaths: ReadonlyMap<string, string>;
}

function moduleOf({ text, print, toRoot, nearest, subpaths }: ModuleParts): Pick<Example, 'code' | 'expected'> {
  const tree = parse('example.ts', text);
  const edits: { start: number; end: number; text: string }[] = [];
  const expected: (string | undefined)[] = [];
  walk(tree, (node) => {
    if (isConsoleLog(node)) {
      const { expression, arguments: printed, end } = node;
      const open = printed.length === 0 ? `${print}(${expected.length}` : `${print}(${expected.length}, `;
      edits.push({ start: expression.getStart(tree), end: text.indexOf('(', expression.end) + 1, text: open });
      expected.push(/^[^\n]*?\/\/ ?(.*)/.exec(text.slice(end))?.[1]?.trim());
    }
    if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
      const path = subpaths.get(node.moduleSpecifier.text);
      const { end } = node.moduleSpecifier;
      if (path !== undefined)
        edits.push({ start: node.moduleSpecifier.getStart(tree), end, text: `'${toRoot}${path}'` });
    }
  });
  let code = text;
  for (const edit of edits.toSorted((a, b) => b.start - a.start)) {
    code = code.slice(0, edit.start) + edit.text + code.slice(edit.end);
  }
  const head = `declare const ${print}: (line: number, ...values: unknown[]) => void;`;
  return { code: [...importsFor(tree, nearest, toRoot), head, code, 'export {};', ''].join('\n'), expected };
}

function isConsoleLog(node: ts.Node): node is ts.CallExpression {
  return ts.isCallExpression(node) && node.expression.getText() === 'console.log';
}

function importsFor(tree: ts.SourceFile, nearest: readonly SourceFile[], toRoot: string): readonly string[] {
  const used = new Set<string>();
  const declared = new Set<string>();
  walk(tree, (node) => {
    if (ts.isIdentifier(node)) used.add(node.text);
    const { name } = node as ts.Node & { name?: ts.Node };
    const declares = ts.isImportSpecifier(node) || ts.isVariableDeclaration(node) || ts.isParameter(node);
    const binds = ts.isBindingElement(node) || ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node);
    if (name !== undefined && ts.isIdentifier(name) && (declares || binds)) declared.add(name.text);
  });
  const imports: string[] = [];
  for (const name of used) {
    const from = declared.has(name) ? undefined : nearest.find((source) => source.exports.has(name));
    if (from === undefined) continue;
    const type = from.exports.get(name)?.isType === true ? 'type ' : '';
    imports.push(`import { ${type}${name} } from '${toRoot}${from.path}';`);
  }
  return imports;
}
