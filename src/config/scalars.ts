import { z } from 'zod';
import { isKeyHash } from './keys.ts';
import {
  formatBytes,
  formatDuration,
  formatLink,
  type Parsed,
  parseBaseUrl,
  parseBytes,
  parseDuration,
  parseLink,
  parseListenAddress,
  parseNetwork,
  parseWord,
} from './values.ts';

/** The least and the most that is allowed, both included. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

/** Longest piece of someone's value that a message repeats. */
const SHOWN_LENGTH_MAX = 60;

/** What came, for a message. Values that may hold a secret never go through here. */
export function show(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  const text = typeof value === 'object' ? kindOf(value) : JSON.stringify(value);
  return text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text;
}

/** The kind of a value in the words of a YAML file. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'a mapping' : `a ${typeof value}`;
}

/** A value that `read` understands; anything else is reported with what was expected and what came. */
function scalar<T>(read: (value: unknown) => Parsed<T>, shown: (value: unknown) => string = show): z.ZodType<T> {
  return z.unknown().transform((value, context): T => {
    const result = read(value);
    if (result.ok) return result.value;
    context.addIssue({ code: 'custom', message: `expected ${result.expected}, got ${shown(value)}` });
    return z.NEVER;
  });
}

/** A scalar as its text; a list or a mapping has none. */
function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

function durationIn(value: unknown, range: Range): Parsed<number> {
  return within(parseDuration(textOf(value)), range, formatDuration);
}

function within(parsed: Parsed<number>, range: Range, write: (value: number) => string): Parsed<number> {
  if (!parsed.ok || (parsed.value >= range.min && parsed.value <= range.max)) return parsed;
  const most = range.max === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${write(range.max)}`;
  return { ok: false, expected: `${parsed.ok ? 'at least ' : ''}${write(range.min)}${most}` };
}

/** A duration with its unit; `0` needs none. */
export function duration(range: Range): z.ZodType<number> {
  return scalar((value) => durationIn(value, range));
}

/** A duration, or `word`, which stands for `instead`. */
export function durationOr<T>(word: string, instead: T, range: Range): z.ZodType<number | T> {
  return scalar<number | T>((value) => {
    if (value === word) return { ok: true, value: instead };
    const parsed = durationIn(value, range);
    return parsed.ok ? parsed : { ok: false, expected: `${parsed.expected}, or ${word}` };
  });
}

/** A size in bytes. */
export function bytes(range: Range): z.ZodType<number> {
  return scalar((value) => within(parseBytes(textOf(value)), range, formatBytes));
}

/** A size in bytes, or `word`, which stands for `instead`. `64KiB/s` is read as `64KiB`. */
export function bytesOr<T>(word: string, instead: T, range: Range): z.ZodType<number | T> {
  return scalar<number | T>((value) => {
    if (value === word) return { ok: true, value: instead };
    const parsed = within(parseBytes(textOf(value).replace(/\/s$/, '')), range, formatBytes);
    return parsed.ok ? parsed : { ok: false, expected: `${parsed.expected}, or ${word}` };
  });
}

/** Slower than any link that serves somebody: a slip of the finger. */
const LINK_RANGE: Range = { min: 125_000, max: Number.MAX_SAFE_INTEGER };

/** The speed of a link in bytes per second, in a file or a variable; `off` is `Infinity`. */
export function readLink(text: string): Parsed<number> {
  if (text === 'off') return { ok: true, value: Number.POSITIVE_INFINITY };
  const parsed = parseLink(text);
  const ranged = within(parsed, LINK_RANGE, formatLink);
  return ranged.ok ? ranged : { ok: false, expected: `${parsed.ok ? ranged.expected : parsed.expected}, or off` };
}

/** See {@link readLink}. */
export function link(): z.ZodType<number> {
  return scalar((value) => readLink(textOf(value)));
}

/** A whole number. */
export function integer(range: Range): z.ZodType<number> {
  return scalar((value) => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) return { ok: false, expected: 'a whole number' };
    return within({ ok: true, value }, range, String);
  });
}

/** A whole number, or `word`, which stands for itself. */
export function numberOr<const Word extends string>(word: Word, range: Range): z.ZodType<number | Word> {
  return scalar<number | Word>((value) => {
    if (value === word) return { ok: true, value: word };
    const whole = typeof value === 'number' && Number.isSafeInteger(value);
    const parsed: Parsed<number> = whole
      ? within({ ok: true, value }, range, String)
      : { ok: false, expected: 'a whole number' };
    return parsed.ok ? parsed : { ok: false, expected: `${parsed.expected}, or ${word}` };
  });
}

/** `true` or `false`. */
export function boolean(): z.ZodType<boolean> {
  return scalar((value) =>
    typeof value === 'boolean' ? { ok: true, value } : { ok: false, expected: 'true or false' },
  );
}

/** One of some words. */
export function word<const Word extends string>(...words: readonly Word[]): z.ZodType<Word> {
  return scalar((value) => parseWord(textOf(value), words));
}

/** Text that is not empty. */
export function text(what: string): z.ZodType<string> {
  return scalar((value) =>
    typeof value === 'string' && value.trim() !== ''
      ? { ok: true, value }
      : { ok: false, expected: `${what}, as text` },
  );
}

/** Text that is never repeated in a message. */
export function secret(what: string): z.ZodType<string> {
  return scalar(
    (value) =>
      typeof value === 'string' && /^\S+$/.test(value)
        ? { ok: true, value }
        : { ok: false, expected: `${what}, as text without spaces` },
    kindOf,
  );
}

/** The SHA-512 of a key in hex, given back in lower case; never repeated in a message. */
export function keyHash(): z.ZodType<string> {
  return scalar(
    (value) =>
      typeof value === 'string' && isKeyHash(value)
        ? { ok: true, value: value.toLowerCase() }
        : { ok: false, expected: 'the SHA-512 of a key, as 128 hexadecimal digits' },
    kindOf,
  );
}

/** The base address of an HTTP service. One that may hold a password is not repeated in a message. */
export function baseUrl(): z.ZodType<string> {
  return scalar(
    (value) => parseBaseUrl(textOf(value)),
    (value) => (textOf(value).includes('@') ? 'one with a user or password, not shown here' : show(value)),
  );
}

/** Text of which a message must not repeat any, since it may hold a password. */
export function hidden(what: string): z.ZodType<string> {
  return scalar(
    (value) =>
      typeof value === 'string' && value.trim() !== ''
        ? { ok: true, value: value.trim() }
        : { ok: false, expected: `${what}, as text` },
    kindOf,
  );
}

function textsIn(value: unknown, what: string): Parsed<readonly string[]> {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const good = list.filter((item) => typeof item === 'string').filter((item) => item.trim() !== '');
  return good.length === list.length
    ? { ok: true, value: good }
    : { ok: false, expected: `${what}, as a list of texts` };
}

/** An address to listen on as Go writes it: `127.0.0.1:8080`, `[::1]:8080`, `:8080`. */
export function listenAddress(): z.ZodType<{ readonly host: string | undefined; readonly port: number }> {
  return scalar((value) => parseListenAddress(textOf(value)));
}

/** Some texts, or a single one. */
export function texts(what: string): z.ZodType<readonly string[]> {
  return scalar((value) => textsIn(value, what));
}

/** Some IP addresses or networks, or a single one. */
export function networks(): z.ZodType<readonly string[]> {
  return scalar(
    (value) => {
      const parsed = textsIn(value, 'IP addresses or networks');
      const ill = parsed.ok ? parsed.value.map(parseNetwork).find((network) => !network.ok) : undefined;
      return ill?.ok === false ? ill : parsed;
    },
    (value) => show(Array.isArray(value) ? value.find((item) => !parseNetwork(textOf(item)).ok) : value),
  );
}

/** A mapping with these keys and no others. The message about a strange key is the list of those known here. */
export function strict<const Shape extends z.core.$ZodLooseShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  const known = Object.keys(shape).join(' ');
  return z.strictObject(shape, { error: (issue) => (issue.code === 'unrecognized_keys' ? known : undefined) });
}

/** As {@link strict}; one whose keys are all commented out counts as empty. */
export function section<const Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
): z.ZodType<z.infer<z.ZodObject<Shape>>> {
  return z.preprocess((value) => (value === null ? {} : value), strict(shape)) as unknown as z.ZodType<
    z.infer<z.ZodObject<Shape>>
  >;
}
