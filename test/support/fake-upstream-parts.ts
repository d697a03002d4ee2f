import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Gzip, gunzipSync } from 'node:zlib';
import type { FakeEnvironment, FakeFilter } from './fake-upstream-environment.ts';

/** A request as it came. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  /** What `Authorization` says. */
  readonly key: string | undefined;
  /** Inflated. */
  body: string;
  /** The status that it was answered with; 0 for none. */
  status: number;
  /** Its connection or answer has ended, whoever ended it. */
  over: boolean;
}

/** What is done to answers instead of giving them. */
export interface FakeRefusal {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Only requests of this path; not given: all. */
  readonly path?: string;
  /** Only so many requests; not given: until {@link FakeUpstream.accept}. */
  times?: number;
}

/** What happens to the next stream or poll. Bytes are those of the body, before compression. */
export type FakeFault =
  /** Not even a head. */
  | { readonly kind: 'stall' }
  /** The first bytes, and then nothing until {@link FakeUpstream.release}. */
  | { readonly kind: 'hold'; readonly bytes: number }
  /** The first bytes, and then the connection is reset. */
  | { readonly kind: 'cut'; readonly bytes: number }
  /** The first bytes, and then a proper end. */
  | { readonly kind: 'truncate'; readonly bytes: number }
  /** This, in place of what there is to tell at first; the stream stays open. */
  | { readonly kind: 'text'; readonly text: string };

export interface FakeUpstreamOptions {
  /** Which of the protocols it speaks: 404 for the other. */
  readonly protocols?: 'both' | 'fdv1' | 'fdv2';
  readonly gzip?: boolean;
  /** A path before every other. */
  readonly prefix?: string;
  readonly autoConfigKey?: string;
}

/** The state that `/relay_auto_config` puts at first. */
export interface FakeAutoConfig {
  readonly environments?: Readonly<Record<string, unknown>>;
  readonly filters?: Readonly<Record<string, unknown>>;
}

/** A stream that is open. */
export interface Stream {
  readonly kind: 'fdv1' | 'fdv2' | 'autoconfig';
  readonly environment: FakeEnvironment | undefined;
  readonly filter: FakeFilter;
  readonly response: ServerResponse;
  readonly gzip: Gzip | undefined;
  /** What waits until the stream is let go on; undefined: it is not held. */
  held: string | undefined;
}

/** Writes to a stream, through its compression. */
export function write(stream: Stream, text: string, written?: () => void): void {
  const { gzip, response } = stream;
  if (stream.held !== undefined) {
    stream.held += text;
    return;
  }
  if (gzip === undefined) {
    response.write(text, written);
    return;
  }
  gzip.write(text);
  gzip.flush(constants.Z_SYNC_FLUSH, written);
}

/** Lets a stream go on that is held. */
export function letGo(stream: Stream): void {
  const text = stream.held ?? '';
  stream.held = undefined;
  write(stream, text);
}

/** Ends a stream properly. */
export function endOf({ gzip, response }: Stream): void {
  if (gzip === undefined) response.end();
  else gzip.end();
}

/** The whole body of a request, inflated. */
export async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  return (request.headers['content-encoding'] === 'gzip' && bytes.length > 0 ? gunzipSync(bytes) : bytes).toString();
}
