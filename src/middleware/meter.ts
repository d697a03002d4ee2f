import type { ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** What can be known about a response that somebody else writes. */
export interface Meter {
  /** Bytes that the kernel (HTTP/1.1) or HTTP/2's framing has taken of it; never falls. */
  taken(): number;
  /** Bytes that were written to it, whether taken or not; never falls. */
  given(): number;
  /** Whether something that was written still waits for the client. */
  waits(): boolean;
}

/** What libuv's streams say of themselves: not in Node's documentation, looked at with care, and done without if missing. */
interface UvStream {
  readonly bytesWritten?: unknown;
  readonly writeQueueSize?: unknown;
  /** Under TLS, what it writes to. */
  readonly _parent?: UvStream | null;
}

/**
 * Reads a response over HTTP/1.1 off its connection, which is its own as long as it is not over.
 *
 *      given ──────────────────────────────► socket.bytesWritten      as soon as it is written
 *      taken ─────────► bytesWritten of the TCP handle less its writeQueueSize     as far as the kernel has room
 *
 * The callback of a write comes when all of it was taken, which for a body of ten megabytes in one write is the end; the
 * handle shows each part. Under TLS it is the encrypted bytes that are counted.
 */
export class Http1Meter implements Meter {
  readonly #res: ServerResponse;
  readonly #socket: Socket;
  readonly #raw: Socket | undefined;
  readonly #takenBefore: number;
  readonly #givenBefore: number;
  #taken = 0;

  /** @param raw - the TCP socket; undefined under TLS on a server that is not known: then it is looked for under TLS. */
  constructor(res: ServerResponse, socket: Socket, raw: Socket | undefined) {
    this.#res = res;
    this.#socket = socket;
    this.#raw = raw;
    this.#takenBefore = this.#takenByConnection() ?? 0;
    this.#givenBefore = this.#written();
  }

  taken(): number {
    this.#taken = Math.max(this.#taken, (this.#takenByConnection() ?? 0) - this.#takenBefore);
    return this.#taken;
  }

  given(): number {
    return this.#written() - this.#givenBefore;
  }

  waits(): boolean {
    return this.#res.socket === this.#socket && this.#socket.writableLength > 0;
  }

  #takenByConnection(): number | undefined {
    const isHidden = this.#raw === undefined && this.#socket instanceof TLSSocket;
    const handle = isHidden ? handleOf(this.#socket)?._parent : handleOf(this.#raw ?? this.#socket);
    // closed: what it said last stands
    if (handle === null) return undefined;
    const { bytesWritten, writeQueueSize } = handle ?? {};
    if (typeof bytesWritten === 'number' && typeof writeQueueSize === 'number') return bytesWritten - writeQueueSize;
    return this.#written() - (this.#standIn.writableLength ?? 0);
  }

  /** What stands in for a socket where a framework calls itself (`inject`) counts nothing. */
  get #standIn(): { readonly bytesWritten?: number; readonly writableLength?: number } {
    return this.#socket;
  }

  #written(): number {
    return this.#standIn.bytesWritten ?? 0;
  }
}

function handleOf(socket: Socket): UvStream | null | undefined {
  return (socket as unknown as { readonly _handle?: UvStream | null })._handle;
}

/** Above this a write is cut; one of the engine's own never is. */
const WRITE_BYTES_MAX = 128 * 1024;
/** What a write is cut into: a callback comes for each. More would count against the session's memory, too. */
const PIECE_BYTES = 64 * 1024;

interface Chunk {
  readonly chunk: Buffer | string;
  readonly encoding: BufferEncoding;
}

type Done = (error?: Error | null) => void;

/**
 * Reads a response over HTTP/2 off its stream. There the only sign of progress is the callback of a write, so a large write
 * is handed on in pieces, below the stream's own buffer: what `write` answers, 'drain', 'finish' and every callback are
 * as they were. A file that Node sends by itself (`respondWithFile`) is counted by the stream's handle as it is read.
 */
export class Http2Meter implements Meter {
  readonly #stream: ServerHttp2Stream;
  #given = 0;
  #taken = 0;
  #cuts = false;
  #sendsFile = false;

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream;
    const write = stream._write.bind(stream);
    const writev = stream._writev?.bind(stream);
    stream._write = (chunk: Buffer | string, encoding, done) => {
      const bytes = byteLength({ chunk, encoding });
      if (this.#mayCut(bytes)) this.#writePieces(piecesOf({ chunk, encoding }), write, done);
      else write(chunk, encoding, this.#counting(bytes, done));
    };
    if (writev !== undefined) {
      stream._writev = (chunks: Chunk[], done) => {
        const bytes = chunks.reduce((sum, chunk) => sum + byteLength(chunk), 0);
        if (this.#mayCut(bytes)) this.#writePieces(chunks.flatMap(piecesOf), write, done);
        else writev(chunks, this.#counting(bytes, done));
      };
    }
    // a stream without trailers is ended along with what Node takes for its last write, which a piece is not
    const respond = stream.respond.bind(stream);
    stream.respond = (headers, options) => {
      this.#cuts = options?.waitForTrailers === true;
      respond(headers, options);
    };
    this.#watchFiles();
  }

  taken(): number {
    if (this.#sendsFile) this.#taken = Math.max(this.#taken, this.#writtenByHandle() ?? 0);
    return this.#taken;
  }

  given(): number {
    return this.#given;
  }

  waits(): boolean {
    return this.#given > this.#taken || (this.#sendsFile && this.#writtenByHandle() !== undefined);
  }

  #watchFiles(): void {
    const stream = this.#stream;
    for (const name of ['respondWithFile', 'respondWithFD'] as const) {
      const send = stream[name].bind(stream) as (...given: unknown[]) => void;
      stream[name] = (...given: unknown[]) => {
        this.#sendsFile = true;
        send(...given);
      };
    }
  }

  #writtenByHandle(): number | undefined {
    const stream = this.#stream as unknown as Record<symbol, UvStream | undefined>;
    const key = Object.getOwnPropertySymbols(stream).find(({ description }) => description === 'kHandle');
    const bytes = key === undefined ? undefined : stream[key]?.bytesWritten;
    return typeof bytes === 'number' ? bytes : undefined;
  }

  #mayCut(bytes: number): boolean {
    this.#given += bytes;
    return this.#cuts && bytes > WRITE_BYTES_MAX;
  }

  #counting(bytes: number, done: Done): Done {
    return (error) => {
      this.#taken += bytes;
      done(error);
    };
  }

  #writePieces(pieces: readonly Buffer[], write: ServerHttp2Stream['_write'], done: Done): void {
    let at = 0;
    const next: Done = (error) => {
      const piece = pieces[at++];
      if (error || piece === undefined || this.#stream.destroyed) return done(error);
      write(piece, 'buffer' as BufferEncoding, this.#counting(piece.byteLength, next));
    };
    next();
  }
}

function byteLength({ chunk, encoding }: Chunk): number {
  return typeof chunk === 'string' ? Buffer.byteLength(chunk, encoding) : chunk.byteLength;
}

/** Views of a chunk, never copies; what Node calls their encoding is 'buffer'. */
function piecesOf({ chunk, encoding }: Chunk): Buffer[] {
  const data = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
  const pieces: Buffer[] = [];
  for (let at = 0; at < data.byteLength; at += PIECE_BYTES) pieces.push(data.subarray(at, at + PIECE_BYTES));
  return pieces;
}
