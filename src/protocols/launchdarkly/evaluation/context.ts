import { createHash } from 'node:crypto';
import { messageOf } from '../../../kernel/index.ts';

/** A context that can be evaluated. */
export interface ParsedContext {
  /** Its JSON with sorted members: the same context has the same text, however it was written. */
  readonly canonical: string;
  /** SHA-256 of `canonical` in hex. */
  readonly hash: string;
  /** What is signed in secure mode: the plain key of a user, otherwise `kind:key`, joined by `:` for several kinds. */
  readonly key: string;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Beyond it, recursion could end the process; real contexts have a depth of three or four. */
const DEPTH_MAX = 100;
/** As the vendor's SDKs: `kind` itself names no kind, and `multi` is the form that holds several. */
const KIND = /^[A-Za-z0-9._-]+$/;

/**
 * Reads a context of the vendor's SDKs: a legacy user without a kind, one kind, or several. An answer with `error` says
 * in words what is wrong with it.
 *
 * @example
 * const context = parseContext('{"kind":"org","name":"Example","key":"a:b"}');
 * if ('key' in context) console.log(context.key, context.canonical); // org:a%3Ab {"key":"a:b","kind":"org","name":"Example"}
 * console.log(parseContext('{"kind":"user"}')); // { error: 'the key of kind "user" must be a string that is not empty' }
 */
export function parseContext(json: string): ParsedContext | { readonly error: string } {
  try {
    const context: unknown = JSON.parse(json);
    if (!isObject(context)) return { error: 'a context must be a JSON object' };
    const key = keyOf(context);
    const canonical = canonicalJson(context, 0);
    return { canonical, hash: createHash('sha256').update(canonical).digest('hex'), key };
  } catch (thrown) {
    return { error: thrown instanceof WrongContext ? thrown.message : `it is not JSON: ${messageOf(thrown)}` };
  }
}

class WrongContext extends Error {}

function keyOf(context: JsonObject): string {
  const { kind } = context;
  if (!Object.hasOwn(context, 'kind')) return legacyKeyOf(context);
  if (typeof kind !== 'string') throw new WrongContext('the kind of a context must be a string');
  if (kind !== 'multi') {
    checkSingle(kind, context);
    return qualified(kind, context['key'] as string);
  }
  const kinds = Object.keys(context).filter((name) => name !== 'kind');
  if (kinds.length === 0) throw new WrongContext('a context of several kinds must hold at least one');
  for (const name of kinds) {
    const part = context[name];
    if (!isObject(part)) throw new WrongContext(`kind ${JSON.stringify(name)} must be an object`);
    checkSingle(name, part);
  }
  const keys = kinds.toSorted().map((name) => [name, (context[name] as JsonObject)['key'] as string] as const);
  // several kinds of which there is one are that one kind
  if (keys.length === 1) return qualified(...keys[0]!);
  return keys.map(([name, key]) => `${name}:${escaped(key)}`).join(':');
}

/** Users from before there were kinds may have an empty key. */
function legacyKeyOf(user: JsonObject): string {
  const { key, custom, anonymous, privateAttributeNames } = user;
  if (typeof key !== 'string') throw new WrongContext('the key of a user must be a string');
  if (isThere(custom) && !isObject(custom)) throw new WrongContext('the custom attributes of a user must be an object');
  if (isThere(anonymous) && typeof anonymous !== 'boolean') throw new WrongContext('anonymous must be a boolean');
  checkStrings('privateAttributeNames', privateAttributeNames);
  return key;
}

function checkSingle(kind: string, context: JsonObject): void {
  const said = JSON.stringify(kind);
  if (kind === 'kind' || kind === 'multi' || !KIND.test(kind)) throw new WrongContext(`${said} cannot be a kind`);
  const { key, name, anonymous, _meta: meta } = context;
  if (typeof key !== 'string' || key === '') {
    throw new WrongContext(`the key of kind ${said} must be a string that is not empty`);
  }
  if (isThere(name) && typeof name !== 'string') throw new WrongContext(`the name of kind ${said} must be a string`);
  if (isThere(anonymous) && typeof anonymous !== 'boolean') throw new WrongContext('anonymous must be a boolean');
  if (!isThere(meta)) return;
  if (!isObject(meta)) throw new WrongContext('_meta must be an object');
  checkStrings('privateAttributes', meta['privateAttributes']);
}

function checkStrings(name: string, list: unknown): void {
  if (!isThere(list)) return;
  if (!Array.isArray(list) || !list.every((entry) => typeof entry === 'string')) {
    throw new WrongContext(`${name} must be a list of strings`);
  }
}

function qualified(kind: string, key: string): string {
  return kind === 'user' ? key : `${kind}:${escaped(key)}`;
}

/** A colon parts kinds and keys, so that it is escaped within a key, and so is what escapes. */
function escaped(key: string): string {
  return key.replaceAll('%', '%25').replaceAll(':', '%3A');
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function canonicalJson(value: unknown, depth: number): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (depth === DEPTH_MAX) throw new WrongContext(`a context may be ${DEPTH_MAX} levels deep`);
  if (Array.isArray(value)) return `[${value.map((entry) => canonicalJson(entry, depth + 1)).join(',')}]`;
  const members = value as JsonObject;
  // by name and not by entry: pairs would sort by their values as well
  const texts = Object.keys(members)
    .toSorted()
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(members[name], depth + 1)}`);
  return `{${texts.join(',')}}`;
}
