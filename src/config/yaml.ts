import { type Document, isAlias, isMap, isNode, isScalar, isSeq, LineCounter, parseDocument, visit } from 'yaml';
import { messageOf } from '../kernel/index.ts';
import type { Problems } from './problems.ts';
import type { DecisionsDraft } from './decisions-draft.ts';
import { applySettings, type Asked, NOTHING_ASKED } from './schema.ts';
import type { SchemaIssue } from './schema-parts.ts';
import { didYouMean } from './suggest.ts';
import type { Config, Mutable } from './types.ts';

/**
 * Where the setting at `path` stands: its value when that is a scalar, else its name. When the path ends early, as it
 * does for a setting that is missing, the last mapping on it stands for it.
 */
function offsetOf(document: Document, path: readonly (string | number)[], unknownKey?: string): number {
  let node: unknown = document.contents;
  let offset = 0;
  const settle = (candidate: unknown): void => {
    if (isNode(candidate) && candidate.range) offset = candidate.range[0];
  };
  settle(node);
  for (const part of unknownKey === undefined ? path : [...path, unknownKey]) {
    if (isAlias(node)) node = node.resolve(document);
    if (isSeq(node) && typeof part === 'number') {
      node = node.items[part];
      settle(node);
      continue;
    }
    const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === part) : undefined;
    if (pair === undefined) return offset;
    settle(pair.key);
    node = pair.value;
    if (isScalar(node) && node.value !== null && part !== unknownKey) settle(node);
  }
  return offset;
}

/** Where the first alias without an anchor stands. */
function danglingAlias(document: Document): number {
  let offset = 0;
  visit(document, {
    Alias(_key, alias) {
      if (alias.resolve(document) !== undefined) return undefined;
      offset = alias.range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset;
}

function messageFor(issue: SchemaIssue): string {
  const name = issue.path.join('.').replace(/\.(\d+)(?=\.|$)/g, '[$1]');
  const unknown = issue.unknownKey;
  if (unknown === undefined) return name === '' ? issue.message : `${name}: ${issue.message}`;
  const under = name === '' ? '' : ` under ${name}`;
  return `${issue.message}${under}${didYouMean(unknown.key, unknown.known)}; known here: ${unknown.known.join(', ')}`;
}

/** What {@link readYaml} reads into. */
export interface YamlTarget {
  readonly draft: Mutable<Config>;
  readonly open: DecisionsDraft;
  readonly problems: Problems;
}

/** What the file asks for, and where in it a setting stands. */
export interface YamlRead {
  readonly asked: Asked;
  readonly whereOf: (path: readonly (string | number)[]) => string;
}

/** Reads our own YAML and reports each problem with its line and column. */
export function readYaml(text: string, file: string, { draft, open, problems }: YamlTarget): YamlRead {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false });
  const at = (offset: number): string => {
    const { line, col } = counter.linePos(offset);
    return `${file}:${Math.max(1, line)}:${Math.max(1, col)}`;
  };
  const whereOf = (path: readonly (string | number)[]): string => at(offsetOf(document, path));
  for (const error of document.errors) problems.error(at(error.pos[0]), `not valid YAML: ${error.message}`);
  for (const warning of document.warnings) problems.warn(at(warning.pos[0]), warning.message);
  if (document.errors.length > 0) return { asked: NOTHING_ASKED, whereOf };
  let value: unknown;
  try {
    value = document.toJS();
  } catch (error) {
    // An alias without an anchor, or so many that they were made to exhaust memory.
    problems.error(at(danglingAlias(document)), `not valid YAML: ${messageOf(error)}`);
    return { asked: NOTHING_ASKED, whereOf };
  }
  const { asked, issues } = applySettings(value, draft, open, whereOf);
  for (const issue of issues) {
    const where = at(offsetOf(document, issue.path, issue.unknownKey?.key));
    if (issue.severity === undefined) problems.error(where, messageFor(issue));
    else if (issue.severity === 'warning') problems.warn(where, messageFor(issue));
    else problems.info(where, messageFor(issue));
  }
  return { asked, whereOf };
}
