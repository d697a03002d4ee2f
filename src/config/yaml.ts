import { isAlias, isMap, isNode, isPair, isScalar, isSeq, LineCounter, type Document, parseDocument } from 'yaml';
import { messageOf } from '../kernel/index.ts';
import type { Problems } from './problems.ts';
import { applySettings, type SchemaIssue } from './schema.ts';
import { didYouMean } from './suggest.ts';
import type { Config, LimitsSpec, Mutable } from './types.ts';

/** Where the node at `path` begins; when the path ends early, where the last node on it begins. */
function offsetOf(document: Document, path: readonly (string | number)[], key?: string): number {
  let node: unknown = document.contents;
  let offset = 0;
  const settle = (candidate: unknown): void => {
    if (isNode(candidate) && candidate.range) offset = candidate.range[0];
  };
  settle(node);
  for (const part of key === undefined ? path : [...path, key]) {
    if (isAlias(node)) node = node.resolve(document);
    if (isSeq(node) && typeof part === 'number') {
      node = node.items[part];
      settle(node);
    } else if (isMap(node)) {
      const pair = node.items.find(
        (item) => isPair(item) && isScalar(item.key) && String(item.key.value) === String(part),
      );
      if (pair === undefined) return offset;
      settle(pair.key);
      // A setting without a value is reported where its name stands.
      const empty = isScalar(pair.value) && pair.value.value === null;
      node = pair.value;
      if (!empty && part !== key) settle(node);
    } else {
      return offset;
    }
  }
  return offset;
}

function messageFor(issue: SchemaIssue): string {
  const name = issue.path.join('.').replace(/\.(\d+)(?=\.|$)/g, '[$1]');
  const unknown = issue.unknownKey;
  if (unknown === undefined) return name === '' ? issue.message : `${name}: ${issue.message}`;
  const under = name === '' ? '' : ` under ${name}`;
  return `${issue.message}${under}${didYouMean(unknown.key, unknown.known)}; known here: ${unknown.known.join(', ')}`;
}

/**
 * Reads our own YAML into `draft` and reports each problem with its line and column.
 *
 * @returns what was asked of the limits.
 */
export function readYaml(text: string, file: string, draft: Mutable<Config>, problems: Problems): LimitsSpec {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false });
  const at = (offset: number): string => {
    const { line, col } = counter.linePos(offset);
    return `${file}:${Math.max(1, line)}:${Math.max(1, col)}`;
  };
  for (const error of document.errors) problems.error(at(error.pos[0]), `not valid YAML: ${error.message}`);
  for (const warning of document.warnings) problems.warn(at(warning.pos[0]), warning.message);
  if (document.errors.length > 0) return { mode: 'auto' };
  let value: unknown;
  try {
    value = document.toJS();
  } catch (error) {
    // An alias without an anchor, or so many that they were made to exhaust memory.
    problems.error(`${file}:1:1`, `not valid YAML: ${messageOf(error)}`);
    return { mode: 'auto' };
  }
  const { limits, issues } = applySettings(value, draft);
  for (const issue of issues) {
    problems.error(at(offsetOf(document, issue.path, issue.unknownKey?.key)), messageFor(issue));
  }
  return limits;
}
