import { HeadgateError } from '../kernel/index.ts';

/** What a client is given to come back with. */
export interface Position {
  /** Digest of what it holds: 43 characters of base64url. */
  readonly digest: string;
  /** Sum of all versions seen when it was given out: a hint of age. */
  readonly clock: number;
  /** Name of the view that it was given out for, `[a-z0-9-]{1,128}`. A position of another view says nothing. */
  readonly view: string;
}

/** 32 bytes are 42 full characters and one whose last two bits are zero: any other last character is not ours. */
const DIGEST = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;
const CLOCK = /^(?:0|[1-9][0-9]{0,15})$/;
/** 128: room for a context hash, a filter and a revision; a bound, since clients send it back to us. */
const VIEW = /^[a-z0-9-]{1,128}$/;
/** 43 + 16 + 128 and two dots. Longer is not ours, and is refused before any of it is looked at. */
const LENGTH_MAX = 189;

/**
 * A position as text of URL-safe characters, `digest.clock.view`: it travels in a query un-encoded (a client was seen
 * to send it so) and in an event's `id:`.
 *
 * @throws HeadgateError HG_POSITION when a part is not of the form given out.
 * @example
 * const digest = new DataSet({ name: 'production', kinds: ['flags'] }).snapshot().digest;
 * console.log(formatPosition({ digest, clock: 7, view: 'fdv2' }).slice(-12)); // AAAAA.7.fdv2
 */
export function formatPosition(position: Position): string {
  const text = `${position.digest}.${position.clock}.${position.view}`;
  if (parsePosition(text) === undefined) {
    throw new HeadgateError(
      'HG_POSITION',
      `Cannot format a position: it must be a digest, a safe integer and a name in [a-z0-9-], got ${text.slice(0, LENGTH_MAX)}`,
    );
  }
  return text;
}

/**
 * The position that a text says, or undefined when it is none of ours: a client with an unknown position gets a full
 * copy, never an error.
 *
 * @example
 * console.log(parsePosition('(p:5A46PZ79FQ9D08YYKT79DECDNV:461)')); // undefined
 */
export function parsePosition(text: string): Position | undefined {
  if (text.length > LENGTH_MAX) return undefined;
  const [digest = '', clock = '', view, ...more] = text.split('.');
  if (view === undefined || more.length > 0) return undefined;
  if (!DIGEST.test(digest) || !CLOCK.test(clock) || !VIEW.test(view)) return undefined;
  if (!Number.isSafeInteger(Number(clock))) return undefined;
  return { digest, clock: Number(clock), view };
}
