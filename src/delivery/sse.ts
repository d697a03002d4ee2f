import { HeadgateError } from '../kernel/index.ts';
import type { Block } from './channel.ts';

/** One event of a `text/event-stream` (HTML Living Standard, section 9.2). */
export interface SseEvent {
  /** No line breaks. Left out: the client calls it `message`. */
  readonly event?: string;
  /** Line breaks in it become several `data` lines, which the client joins again with LF. */
  readonly data: string;
  /** What the client sends back as Last-Event-ID. No NUL, CR or LF. */
  readonly id?: string;
  /** How long the client waits before it reconnects, in milliseconds. */
  readonly retryMs?: number;
}

const LINE_BREAK = /\r\n|\r|\n/;

/**
 * The text of an event. Its `id` is the last field before the blank line, so a cut event never leaves its position behind.
 *
 * @throws HeadgateError `HG_OPTION` for an event name, id or retry that would break the framing.
 * @example
 * const text = encodeEvent({ event: 'put', data: '{}', id: '7' });
 * console.log(JSON.stringify(text)); // "event: put\ndata: {}\nid: 7\n\n"
 */
export function encodeEvent(event: SseEvent): string {
  const data = LINE_BREAK.test(event.data) ? event.data.split(LINE_BREAK).join('\ndata: ') : event.data;
  const retry = event.retryMs === undefined ? '' : `retry: ${retryOf(event.retryMs)}\n`;
  return `${retry}${openEvent(event.event)}${data}${closeEvent(event.id)}`;
}

/**
 * What stands before the data of an event, for data that is sent in pieces. The data must have no line breaks.
 *
 * @example
 * console.log(JSON.stringify(openEvent('put') + '[1]' + closeEvent('7'))); // "event: put\ndata: [1]\nid: 7\n\n"
 */
export function openEvent(event?: string): string {
  return event === undefined ? 'data: ' : `event: ${nameOf(event)}\ndata: `;
}

/**
 * What stands after the data of an event that was begun with `openEvent`.
 *
 * @example
 * console.log(JSON.stringify(closeEvent('7'))); // "\nid: 7\n\n"
 */
export function closeEvent(id?: string): string {
  return id === undefined ? '\n\n' : `\nid: ${idOf(id)}\n\n`;
}

/**
 * A comment: keeps connections open, means nothing to the client.
 *
 * @example
 * console.log(JSON.stringify(encodeComment())); // ":\n"
 */
export function encodeComment(text = ''): string {
  if (LINE_BREAK.test(text)) throw optionError('write a comment: it must be one line', text);
  return `:${text}\n`;
}

/**
 * Bytes as a block, and the same as one HTTP/1.1 chunk, in one buffer.
 *
 * Of nothing it makes an empty block, which channels skip: an empty chunk would be the last one of its response.
 *
 * @example
 * console.log(JSON.stringify(Buffer.from(blockOf('a').chunk).toString())); // "1\r\na\r\n"
 */
export function blockOf(content: string | Uint8Array): Block {
  const size = typeof content === 'string' ? Buffer.byteLength(content) : content.byteLength;
  if (size === 0) return EMPTY;
  const head = `${size.toString(16)}\r\n`;
  // of its own memory: a slice of Node's shared pool would keep 8 KiB alive for as long as the log keeps the block
  const chunk = Buffer.allocUnsafeSlow(head.length + size + 2);
  chunk.write(head, 0, 'latin1');
  if (typeof content === 'string') chunk.write(content, head.length, 'utf8');
  else chunk.set(content, head.length);
  chunk.write('\r\n', head.length + size, 'latin1');
  return { bytes: chunk.subarray(head.length, head.length + size), chunk };
}

const NO_BYTES = new Uint8Array(0);
const EMPTY: Block = { bytes: NO_BYTES, chunk: NO_BYTES };

/**
 * An event encoded and framed.
 *
 * @example
 * console.log(eventBlock({ data: 'x' }).bytes.byteLength); // 9
 */
export function eventBlock(event: SseEvent): Block {
  return blockOf(encodeEvent(event));
}

function nameOf(event: string): string {
  if (LINE_BREAK.test(event)) throw optionError('write an event: its name must be one line', event);
  return event;
}

function idOf(id: string): string {
  // a NUL makes the client ignore the id, and it would come back with an older position
  if (LINE_BREAK.test(id) || id.includes('\0'))
    throw optionError('write an event: its id must have no NUL, CR or LF', id);
  return id;
}

function retryOf(retryMs: number): number {
  if (!Number.isSafeInteger(retryMs) || retryMs < 0) {
    throw optionError('write an event: retryMs must be a whole number of milliseconds', retryMs);
  }
  return retryMs;
}

function optionError(what: string, got: string | number): HeadgateError {
  return new HeadgateError('HG_OPTION', `Cannot ${what}, got ${JSON.stringify(got)}`);
}
