import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';

/** A conversion that worked, or why it did not and where. */
export type YamlResult =
  | { readonly ok: true; readonly json: Uint8Array; readonly lines: ReadonlyMap<string, number> }
  | { readonly ok: false; readonly cause: string; readonly line: number; readonly column: number };

/**
 * Converts YAML text to JSON text.
 *
 * `lines` tells where the items stand that the JSON holds: the line of `section` and `key` under `section\0key`.
 */
export function convertYaml(bytes: Uint8Array): YamlResult {
  const lineCounter = new LineCounter();
  const text = decode(bytes);
  if (text === undefined) return { ok: false, cause: 'expected valid UTF-8', line: 1, column: 1 };
  const document = parseDocument(text, { lineCounter, prettyErrors: false, logLevel: 'silent' });
  const error = document.errors[0];
  if (error !== undefined) {
    const { line, col } = lineCounter.linePos(error.pos[0]);
    return { ok: false, cause: error.message, line, column: col };
  }
  try {
    const json = JSON.stringify(document.toJS(), onlyFinite) ?? 'null';
    return { ok: true, json: Buffer.from(json), lines: linesOf(document.contents, lineCounter) };
  } catch (thrown) {
    return { ok: false, cause: thrown instanceof Error ? thrown.message : String(thrown), line: 1, column: 1 };
  }
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** JSON has no word for these, and would say null in silence. */
function onlyFinite(key: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new Error(`"${key}" must be a finite number, got ${value}`);
  return value;
}

function linesOf(root: unknown, lineCounter: LineCounter): Map<string, number> {
  const lines = new Map<string, number>();
  if (!isMap(root)) return lines;
  for (const section of root.items) {
    if (!isScalar(section.key) || !isMap(section.value)) continue;
    for (const item of section.value.items) {
      if (!isScalar(item.key) || !item.key.range) continue;
      lines.set(`${String(section.key.value)}\0${String(item.key.value)}`, lineCounter.linePos(item.key.range[0]).line);
    }
  }
  return lines;
}
