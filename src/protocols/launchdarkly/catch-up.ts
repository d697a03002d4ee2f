import type { Source } from '../../delivery/index.ts';

/** From this size on, in bytes, a catch-up is a delivery: it needs a slot. */
export const CATCH_UP_BYTES_FREE: number = 256 * 1024;

/** One write of a large catch-up, in bytes. */
const PART_BYTES = 64 * 1024;

/** A large catch-up, encoded while it is sent, a part at a time: its text never exists as a whole. */
export function catchUpSource(parts: Iterable<string>): Source {
  const iterator = parts[Symbol.iterator]();
  return {
    bytes: undefined,
    next() {
      const texts: string[] = [];
      let length = 0;
      while (length < PART_BYTES) {
        const part = iterator.next();
        if (part.done === true) break;
        texts.push(part.value);
        length += part.value.length;
      }
      return texts.length === 0 ? undefined : [Buffer.from(texts.join(''))];
    },
  };
}

/** Bytes that exist already, as something to deliver. */
export function bytesSource(bytes: Uint8Array): Source {
  let sent = false;
  return {
    bytes: bytes.length,
    next() {
      if (sent) return undefined;
      sent = true;
      return [bytes];
    },
  };
}
