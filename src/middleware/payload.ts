import type { Source } from '../delivery/index.ts';
import { HeadgateError } from '../kernel/index.ts';
import type { Payload } from './types.ts';

/** A payload as the engine takes it, with a way to let go of what gives it. */
export interface OpenPayload {
  readonly source: Source;
  /** Whether the engine waits for the next piece: then the time is the handler's. */
  readonly isReading: () => boolean;
  /** To be called when not all of it was taken: ends what gives the pieces. */
  readonly abandon: () => void;
}

/**
 * Opens a payload.
 *
 * @throws HeadgateError `HG_OPTION` for what is none.
 */
export function openPayload(payload: Payload): OpenPayload {
  if (typeof payload === 'string' || ArrayBuffer.isView(payload)) return atHand([bytesOf(payload)]);
  if (Array.isArray(payload)) return atHand((payload as readonly (Uint8Array | string)[]).map(bytesOf));
  if (typeof payload !== 'object' || payload === null) throw noPayload(payload);
  if (payload instanceof ReadableStream) return fromAsync(readerOf(payload), payload);
  if (Symbol.asyncIterator in payload) return fromAsync(payload[Symbol.asyncIterator](), payload);
  if (Symbol.iterator in payload) return fromIterator(payload[Symbol.iterator]());
  if (!('next' in payload) || typeof payload.next !== 'function') throw noPayload(payload);
  return fromSource(payload);
}

function atHand(pieces: readonly Uint8Array[]): OpenPayload {
  let rest: readonly Uint8Array[] | undefined = pieces;
  const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const next = (): readonly Uint8Array[] | undefined => {
    const all = rest;
    rest = undefined;
    return all;
  };
  return { source: { bytes, next }, isReading: () => false, abandon: () => undefined };
}

/** Gathers pieces up to what is wanted: a row at a time would be a write for each row. */
function fromIterator(iterator: Iterator<Uint8Array | string>): OpenPayload {
  const next = (bytesWanted = 65_536): readonly Uint8Array[] | undefined => {
    const pieces: Uint8Array[] = [];
    for (let bytes = 0; bytes < bytesWanted; ) {
      const { done, value } = iterator.next();
      if (done === true) return pieces.length === 0 ? undefined : pieces;
      const piece = bytesOf(value);
      pieces.push(piece);
      // an endless run of empty pieces must not hold the loop
      bytes += Math.max(1, piece.byteLength);
    }
    return pieces;
  };
  return { source: { bytes: undefined, next }, isReading: () => false, abandon: () => void iterator.return?.() };
}

function fromAsync(iterator: AsyncIterator<Uint8Array | string>, payload: object): OpenPayload {
  let reading = false;
  const next = async (): Promise<readonly Uint8Array[] | undefined> => {
    reading = true;
    try {
      const { done, value } = await iterator.next();
      return done === true ? undefined : [bytesOf(value)];
    } finally {
      reading = false;
    }
  };
  return {
    source: { bytes: undefined, next },
    isReading: () => reading,
    abandon: () => {
      // a stream that is waited for would be told only once it has given what it was asked for
      if ('destroy' in payload && typeof payload.destroy === 'function') payload.destroy();
      else iterator.return?.().catch(() => undefined);
    },
  };
}

function fromSource(source: Source): OpenPayload {
  let reading = false;
  const next = (bytesWanted?: number): ReturnType<Source['next']> => {
    const pieces = source.next(bytesWanted);
    if (pieces === undefined || !('then' in pieces)) return pieces;
    reading = true;
    return pieces.finally(() => {
      reading = false;
    });
  };
  return { source: { bytes: source.bytes, next }, isReading: () => reading, abandon: () => undefined };
}

/** A stream of the web is told at once that nobody wants it; its own iterator would wait for what it was asked for. */
function readerOf(stream: ReadableStream): AsyncIterator<Uint8Array | string> {
  const reader = stream.getReader();
  return {
    next: () => reader.read() as Promise<IteratorResult<Uint8Array | string>>,
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}

function bytesOf(piece: Uint8Array | string): Uint8Array {
  if (typeof piece === 'string') return Buffer.from(piece);
  if (ArrayBuffer.isView(piece)) return piece;
  throw new HeadgateError('HG_OPTION', `Cannot deliver: a piece must be text or a Uint8Array, got ${kindOf(piece)}`);
}

function noPayload(got: unknown): HeadgateError {
  const expected = 'bytes, text, something that gives them one by one, or a source';
  return new HeadgateError('HG_OPTION', `Cannot deliver: a payload must be ${expected}, got ${kindOf(got)}`);
}

function kindOf(got: unknown): string {
  return got === null ? 'null' : typeof got;
}
