import { HeadgateError } from '../kernel/index.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
const CLOSE_OBJECT = 0x7d;
const CLOSE_ARRAY = 0x5d;

/**
 * The same JSON object with another version in its top-level "version" member.
 *
 * Only that member's value is replaced; every other character stays, because a text that was parsed and written
 * again could lose what a client needs (1.0 becomes 1, big integers are rounded, members with numeric names move).
 * A name written with escapes is recognised. Of a name that stands twice each value is replaced, so it does not
 * matter which one a parser takes. Without the member it is put first.
 *
 * @throws HeadgateError HG_SOURCE when the text is not one JSON object.
 * @example
 * console.log(withVersion('{"key":"a","version":3}', 4)); // {"key":"a","version":4}
 * console.log(withVersion('{"key":"a"}', 4)); // {"version":4,"key":"a"}
 */
export function withVersion(text: string, version: number): string {
  const open = skipSpace(text, 0);
  if (text.charCodeAt(open) !== OPEN_OBJECT) throw notAnObject(text);
  let out = '';
  let copied = 0;
  let found = false;
  let at = skipSpace(text, open + 1);
  const empty = text.charCodeAt(at) === CLOSE_OBJECT;
  let more = !empty;
  while (more) {
    const nameEnd = endOfString(text, at);
    const valueStart = skipSpace(text, skipColon(text, nameEnd));
    const valueEnd = endOfValue(text, valueStart);
    if (isVersionName(text, at, nameEnd)) {
      out += `${text.slice(copied, valueStart)}${version}`;
      copied = valueEnd;
      found = true;
    }
    at = skipSpace(text, valueEnd);
    more = text.charCodeAt(at) === COMMA;
    if (more) at = skipSpace(text, at + 1);
  }
  if (text.charCodeAt(at) !== CLOSE_OBJECT || skipSpace(text, at + 1) !== text.length) throw notAnObject(text);
  if (found) return out + text.slice(copied);
  return `${text.slice(0, open + 1)}"version":${version}${empty ? '' : ','}${text.slice(open + 1)}`;
}

function isVersionName(text: string, start: number, end: number): boolean {
  const name = text.slice(start, end);
  if (name === '"version"') return true;
  // the shortest escaped spelling is longer than the plain one
  return name.length > 9 && name.includes('\\') && nameOf(text, name) === 'version';
}

function nameOf(text: string, literal: string): unknown {
  try {
    return JSON.parse(literal);
  } catch (cause) {
    throw notAnObject(text, cause);
  }
}

/** Where the string that starts at `start` ends, its closing quote included. */
function endOfString(text: string, start: number): number {
  if (text.charCodeAt(start) !== QUOTE) throw notAnObject(text);
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let before = at - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    // an even number of backslashes before it escape each other, not the quote
    if ((at - before) % 2 === 1) return at + 1;
  }
  throw notAnObject(text);
}

/** Where the value that starts at `start` ends. Follows nesting and strings; what else stands inside is not judged. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  let at = start;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      depth++;
      at++;
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      if (depth === 0) break;
      depth--;
      at++;
    } else if (code === COMMA && depth === 0) break;
    else if (Number.isNaN(code)) throw notAnObject(text);
    else at++;
  }
  let end = at;
  while (end > start && isSpace(text.charCodeAt(end - 1))) end--;
  if (end === start) throw notAnObject(text);
  return end;
}

function skipColon(text: string, from: number): number {
  const at = skipSpace(text, from);
  if (text[at] !== ':') throw notAnObject(text);
  return at + 1;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

/** RFC 8259, section 2: space, tab, line feed, carriage return. */
function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d;
}

function notAnObject(text: string, cause?: unknown): HeadgateError {
  const shown = text.length > 80 ? `${text.slice(0, 80)}...` : text;
  const message = `Cannot set a version: the text must be one JSON object, got ${shown}`;
  return new HeadgateError('HG_SOURCE', message, cause === undefined ? undefined : { cause });
}
