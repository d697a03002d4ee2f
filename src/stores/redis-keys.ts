// Keys in Redis are bytes in the order of UTF-8. JSON can hold what UTF-8 cannot, a surrogate without its other half: it
// gets the three bytes that UTF-8 would give its code point if it were allowed to (known as WTF-8). So every key has bytes
// of its own, and those of well-formed ones are plain UTF-8.

const LONE_SURROGATE = /\p{Surrogate}/u;
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function bytesOfKey(key: string): Buffer {
  if (!LONE_SURROGATE.test(key)) return Buffer.from(key);
  const pieces: Buffer[] = [];
  let from = 0;
  for (let at = 0; at < key.length; at++) {
    const unit = key.charCodeAt(at);
    if (isPair(key, at)) at++;
    else if (isSurrogate(unit)) {
      pieces.push(Buffer.from(key.slice(from, at)));
      pieces.push(Buffer.of(0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)));
      from = at + 1;
    }
  }
  pieces.push(Buffer.from(key.slice(from)));
  return Buffer.concat(pieces);
}

export function keyOfBytes(bytes: Buffer): string {
  try {
    return strict.decode(bytes);
  } catch {
    return lenient(bytes);
  }
}

/** 0xED before 0xA0 to 0xBF is where a surrogate begins, and nothing else is. */
function lenient(bytes: Buffer): string {
  let text = '';
  let from = 0;
  for (let at = bytes.indexOf(0xed); at !== -1; at = bytes.indexOf(0xed, at + 1)) {
    const second = bytes[at + 1] ?? 0;
    if (second < 0xa0) continue;
    text += bytes.toString('utf8', from, at);
    text += String.fromCharCode(0xd000 | ((second & 0x3f) << 6) | ((bytes[at + 2] ?? 0) & 0x3f));
    from = at + 3;
  }
  return text + bytes.toString('utf8', from);
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xe000;
}

function isPair(key: string, at: number): boolean {
  const [first, second] = [key.charCodeAt(at), key.charCodeAt(at + 1)];
  return first >= 0xd800 && first < 0xdc00 && second >= 0xdc00 && second < 0xe000;
}
