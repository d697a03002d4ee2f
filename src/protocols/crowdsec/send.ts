import type { Slot } from '../../admission/index.ts';
import type { Copy, CopyPayload } from '../../dataset/decisions/index.ts';
import { acceptsGzip, type Exchange, type Report, type Stages } from '../../delivery/index.ts';
import type { FrontOptions } from './deps.ts';
import { aboutOf, type BouncerFact, delivered } from './facts.ts';

export type Encoding = 'identity' | 'gzip';

/** A smaller body fits into a packet or two as it is. */
const GZIP_BYTES_MIN = 4096;

/** How a copy goes out. HTTP/1.0 knows no chunks, and without a length its end could not be told from a cut. */
function encodingFor(exchange: Exchange, bytes: number): Encoding {
  if (bytes < GZIP_BYTES_MIN || exchange.httpVersion === '1.0') return 'identity';
  return acceptsGzip(exchange.header('accept-encoding')) ? 'gzip' : 'identity';
}

/** One charged delivery. */
export interface Charged {
  readonly exchange: Exchange;
  readonly copy: Copy;
  readonly slot: Slot;
  readonly what: 'full' | 'delta' | 'list';
  readonly contentType: string;
  readonly fact: () => BouncerFact;
  readonly stages: Stages;
}

/**
 * Sends under a slot, as the limits say, and makes known how it ended. The slot is free and the copy let go when it has. A
 * body that does not reach its end is cut: never ended, whatever was sent.
 */
export async function sendCharged(
  front: Pick<FrontOptions, 'limiter' | 'deliveries' | 'guarded' | 'parking' | 'capMs'>,
  charged: Charged,
): Promise<Report> {
  const { exchange, copy, slot, what, contentType, fact, stages } = charged;
  const { limiter, deliveries, guarded, parking, capMs } = front;
  const { waitedMs } = slot;
  const encoding = encodingFor(exchange, copy.bytes);
  const payload = copy.payload(encoding);
  try {
    const channel = exchange.open(200, headersOf(contentType, encoding, payload));
    const report = await deliveries.deliver({
      channel,
      source: delivered.isHeard ? stages.source(payload) : payload,
      slot,
      guarded,
      about: () => aboutOf(fact()),
      ...(capMs === undefined ? {} : { capMs }),
      ...(parking ? { parking: () => limiter.waiting + limiter.waitingOpen > 0 } : {}),
    });
    if (report.outcome === 'completed') channel.end();
    const { added, deleted } = copy;
    delivered.publish(() => ({
      ...fact(),
      what,
      encoding,
      waitedMs,
      added,
      deleted,
      ...(encoding === 'gzip' ? { plainBytes: copy.bytes } : {}),
      ...report,
      stages: stages.times(),
    }));
    return report;
  } finally {
    payload.release();
    copy.release();
    // the slot was freed before its pages were: whoever waits for pinned bytes fits only now
    limiter.recheck();
  }
}

function headersOf(contentType: string, encoding: Encoding, { bytes }: CopyPayload): Record<string, string> {
  const headers: Record<string, string> = { 'content-type': contentType };
  if (bytes !== undefined) headers['content-length'] = String(bytes);
  if (encoding === 'gzip') headers['content-encoding'] = encoding;
  return headers;
}

/**
 * A small copy as one body, with its headers. Its pages are copied: they may be changed in place once it is let go, and
 * Node may still hold them then.
 */
export async function bodyOf(exchange: Exchange, copy: Copy): Promise<{ body: Buffer; encoding: Encoding }> {
  const encoding = encodingFor(exchange, copy.bytes);
  const payload = copy.payload(encoding);
  try {
    const parts: Buffer[] = [];
    for (;;) {
      const next = payload.next();
      const pieces = next instanceof Promise ? await next : next;
      if (pieces === undefined) return { body: Buffer.concat(parts), encoding };
      parts.push(Buffer.concat(pieces));
    }
  } finally {
    payload.release();
  }
}
