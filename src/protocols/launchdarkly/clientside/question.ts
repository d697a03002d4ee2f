import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../../../delivery/index.ts';
import { BodyRoom } from '../body-room.ts';
import type { ClientInfo } from '../client.ts';
import type { EnvironmentInfo } from '../credentials.ts';
import type { Audience } from '../directory.ts';
import type { Environment } from '../environment.ts';
import type { ParsedContext } from '../evaluation/context.ts';
import type { ClientSideOptions } from './deps.ts';
import { Turns } from './turns.ts';

/** A request whose environment is known. */
export interface Asked {
  readonly exchange: Exchange;
  readonly environment: Environment;
  readonly audience: Audience;
  /** What it showed: a stream ends with its key. */
  readonly credential: string | undefined;
  readonly route: string;
  readonly info: ClientInfo;
}

/** For whom flags are to be evaluated, and how. */
export interface Question {
  /** Canonical JSON. */
  readonly context: string;
  readonly withReasons: boolean;
  /** What a view is called but for what is known of big segments: audience, options and context in 40 characters. */
  readonly name: string;
}

/**
 * A context is read, sorted and hashed in one call, before it is known whether there is a slot: of 128 KiB that takes 10 ms,
 * of the largest body that a server's events may have, half a second. Anybody can send one who knows a public ID.
 */
const CONTEXT_BYTES_MAX = 128 * 1024;
/** Larger ones are read one in a turn of the event loop: those that come at once would hold it for the sum of them. */
const CONTEXT_LENGTH_AT_ONCE = 4096;
/** As many large ones may wait for that, a second or two; usual ones never wait. */
const LARGE_WAITING_MAX = 200;

/** What contexts on their way share. */
export class ContextIntake {
  readonly room: BodyRoom;
  readonly #turns = new Turns(1);

  /** @param bytesMax - of all bodies that are on their way. */
  constructor(bytesMax: number) {
    this.room = new BodyRoom(bytesMax);
  }

  /** Reads a context when the event loop has time for it. Undefined: too many wait already. */
  async parse<T>(json: string, parse: (json: string) => T): Promise<T | undefined> {
    if (json.length <= CONTEXT_LENGTH_AT_ONCE) return parse(json);
    if (this.#turns.waiting >= LARGE_WAITING_MAX) return undefined;
    return this.#turns.run(async () => {
      await new Promise<void>((resolve) => setImmediate(resolve));
      return parse(json);
    });
  }
}

const TEXT = {
  contentType: 'Content-Type must be application/json.',
  base64: 'context part of URL path did not decode as valid base64',
  pathContext: 'context part of URL path did not decode to valid evaluation context as JSON',
  bodyContext: 'request body was not a valid evaluation context as JSON',
  noRoom: 'Too many request bodies are on their way.',
  hash: 'Environment is in secure mode, and context hash does not match.',
} as const;

/** Reads the context of a request, from its path or its body. Undefined: it was answered, with what is wrong. */
export async function questionOf(
  asked: Asked,
  encoded: string | undefined,
  options: Pick<ClientSideOptions, 'evaluations' | 'bodyBytesMax'> & { readonly intake: ContextIntake },
): Promise<Question | undefined> {
  const { exchange, environment, audience } = asked;
  const json = encoded === undefined ? await jsonOfBody(exchange, options) : jsonOfPath(exchange, encoded);
  if (json === undefined) return undefined;
  const context = await options.intake.parse(json, (text) => options.evaluations.parseContext(text));
  if (context === undefined) return replyText(exchange, 503, TEXT.noRoom);
  if (exchange.closed) return undefined;
  if ('error' in context) return refuse(exchange, encoded === undefined ? TEXT.bodyContext : TEXT.pathContext);
  if (audience === 'client' && environment.info.secureMode === true) {
    if (!isSigned(environment.info, context, exchange.query.get('h'))) return refuse(exchange, TEXT.hash);
  }
  return questionAbout(context, audience, exchange.query.get('withReasons') === 'true');
}

/** @param audience - part of the name: the same context sees other flags with another key */
function questionAbout(context: ParsedContext, audience: Audience, withReasons: boolean): Question {
  const name = sha256(`${audience}\n${withReasons}\n${context.hash}`).slice(0, 40);
  return { context: context.canonical, withReasons, name };
}

/**
 * The view of a question, as positions name it.
 *
 * @param revision - what was known of big segments; where they had no say the same data give the same values, whenever
 */
export function viewOf(question: Question, revision: string): string {
  return `eval-${question.name}-${revision === '' ? '0' : sha256(revision).slice(0, 16)}`;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function refuse(exchange: Exchange, message: string): undefined {
  exchange.reply(400, { 'content-type': 'application/json' }, JSON.stringify({ message }));
  return undefined;
}

/** Either alphabet of RFC 4648, padded or not. */
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

function jsonOfPath(exchange: Exchange, encoded: string): string | undefined {
  const length = encoded.replace(/=+$/, '').length;
  if (!BASE64.test(encoded) || length % 4 === 1) return refuse(exchange, TEXT.base64);
  return Buffer.from(encoded, 'base64').toString('utf8');
}

async function jsonOfBody(
  exchange: Exchange,
  { intake, bodyBytesMax }: Pick<ClientSideOptions, 'bodyBytesMax'> & { readonly intake: ContextIntake },
): Promise<string | undefined> {
  const [type = ''] = (exchange.header('content-type') ?? '').split(';');
  if (type.trim().toLowerCase() !== 'application/json') return replyText(exchange, 415, TEXT.contentType);
  const bytesMax = Math.min(bodyBytesMax, CONTEXT_BYTES_MAX);
  const body = await intake.room.read(exchange, bytesMax);
  if (body === 'gone') return undefined;
  if (body === 'no room') return replyText(exchange, 503, TEXT.noRoom);
  if (body === 'too large') return replyText(exchange, 413, `Request body must have at most ${bytesMax} bytes.`);
  return body.toString('utf8');
}

function replyText(exchange: Exchange, status: number, text: string): undefined {
  exchange.reply(status, { 'content-type': 'text/plain; charset=utf-8' }, text);
  return undefined;
}

/** HMAC-SHA256 in hex. */
const HASH_LENGTH = 64;

/**
 * Whether a page proved that its server let it ask about this context. Every valid key is tried, in a time that does not
 * depend on how much of the hash is right.
 */
function isSigned(info: EnvironmentInfo, context: Pick<ParsedContext, 'key'>, hash: string | null): boolean {
  const shown = Buffer.from(hash ?? '', 'utf8');
  if (shown.length !== HASH_LENGTH) return false;
  const nowMs = Date.now();
  let isRight = false;
  for (const { value, expiresMs } of info.sdkKeys) {
    if (expiresMs !== undefined && expiresMs <= nowMs) continue;
    const right = createHmac('sha256', value).update(context.key).digest('hex');
    isRight = timingSafeEqual(shown, Buffer.from(right, 'utf8')) || isRight;
  }
  return isRight;
}
