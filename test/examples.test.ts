import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { formatWithOptions } from 'node:util';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Example, readExamples } from './support/examples.ts';
import { ROOT } from './support/files.ts';

// A folder whose name begins with a dot: neither the compiler nor a test run looks into it by itself.
const FOLDER = 'test/.examples';
const COMPILE_MS_MAX = 60_000;
const PRINT_MS_MAX = 5000;
/** The first example of a room loads the room. */
const RUN_MS_MAX = 30_000;

const examples = readExamples(FOLDER);
const pathOf = (example: Example): string => `${ROOT}${FOLDER}/${example.print}.ts`;

beforeAll(() => {
  rmSync(ROOT + FOLDER, { recursive: true, force: true });
  mkdirSync(ROOT + FOLDER);
  for (const example of examples) writeFileSync(pathOf(example), example.code);
});
afterAll(() => rmSync(ROOT + FOLDER, { recursive: true, force: true }));

function compile(): readonly ts.Diagnostic[] {
  const { config } = ts.readConfigFile(`${ROOT}tsconfig.json`, (path) => ts.sys.readFile(path));
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  const strictness = { noUnusedLocals: false, isolatedDeclarations: false, declaration: false, declarationMap: false };
  const program = ts.createProgram(examples.map(pathOf), { ...options, ...strictness, noEmit: true });
  return examples.flatMap((example) => {
    const file = program.getSourceFile(pathOf(example));
    return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  });
}

/** The lines of the example that say what they print, with what was printed there: once, or in a loop as `a, b, c`. */
function outputs(example: Example, printed: ReadonlyMap<number, string[]>): Record<string, string | undefined> {
  const lines = example.expected.flatMap((text, line) => (text === undefined ? [] : [line]));
  return Object.fromEntries(lines.map((line) => [`console.log ${line}`, printed.get(line)?.join(', ')]));
}

function expectations(example: Example): Record<string, string> {
  const said = example.expected.flatMap((text, line) => (text === undefined ? [] : [[`console.log ${line}`, text]]));
  return Object.fromEntries(said) as Record<string, string>;
}

describe('the examples in doc comments', () => {
  it(
    'compile',
    () => {
      const found = compile().map(({ file, messageText }) => {
        const example = examples.find((candidate) => pathOf(candidate) === file?.fileName);
        return `${example?.place}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
      });
      expect(found).toEqual([]);
    },
    COMPILE_MS_MAX,
  );

  it.each(examples.filter(({ runs }) => runs))(
    'print what they say: $place',
    { timeout: RUN_MS_MAX },
    async (example) => {
      const printed = new Map<number, string[]>();
      vi.stubGlobal(example.print, (line: number, ...values: unknown[]) => {
        const text = formatWithOptions({ breakLength: Infinity, compact: true }, ...values);
        printed.set(line, [...(printed.get(line) ?? []), text]);
      });
      await import(pathOf(example));
      // an example may print from a timer or a promise that it does not wait for
      await vi.waitFor(() => expect(outputs(example, printed)).toEqual(expectations(example)), {
        timeout: PRINT_MS_MAX,
      });
    },
  );
});
