import ts from 'typescript';
import { ROOT } from './files.ts';

/** A name that an index file exports, with what its doc comment has. */
export interface Exported {
  readonly place: string;
  readonly documented: boolean;
  /** Whether it can be called or made, and so owes an example. */
  readonly callable: boolean;
  readonly hasExample: boolean;
}

/** What each of the index files exports, seen through to the declaration that it comes from. */
export function exportsOf(indexes: readonly string[]): readonly Exported[] {
  const { config } = ts.readConfigFile(`${ROOT}tsconfig.json`, (path) => ts.sys.readFile(path));
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  const program = ts.createProgram(
    indexes.map((path) => ROOT + path),
    { ...options, noEmit: true },
  );
  const checker = program.getTypeChecker();
  return indexes.flatMap((path) => {
    const file = program.getSourceFile(ROOT + path);
    const module = file && checker.getSymbolAtLocation(file);
    if (module === undefined) return [];
    return checker.getExportsOfModule(module).map((symbol) => describeSymbol(path, symbol, checker));
  });
}

function describeSymbol(path: string, symbol: ts.Symbol, checker: ts.TypeChecker): Exported {
  const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
  const origin = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
  const tags = origin.getJsDocTags(checker);
  return {
    place: `${path}: ${symbol.name}`,
    documented: origin.getDocumentationComment(checker).length > 0,
    callable: (origin.flags & (ts.SymbolFlags.Function | ts.SymbolFlags.Class)) !== 0,
    hasExample: tags.some((tag) => tag.name === 'example'),
  };
}
