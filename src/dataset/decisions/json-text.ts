/** Printable ASCII that JSON and Go's encoder leave alone: no quote, backslash, angle bracket or ampersand. */
const PLAIN = /^[ !#-%'-;=?-[\]-~]*$/;
const LONE_SURROGATES = /\p{Surrogate}/gu;
/** What Go's encoder escapes beyond JSON: characters that matter in HTML, and two that JavaScript takes for line ends. */
const ESCAPED_BY_GO = /[<>&\u2028\u2029]/g;

/** A text without lone surrogates: each becomes U+FFFD, as it does in UTF-8. */
export function wellFormed(text: string): string {
  return text.replace(LONE_SURROGATES, '\ufffd');
}

/**
 * A text as Go's encoder writes it between the quotes of a JSON string. A lone surrogate becomes U+FFFD, as it does in
 * Go's decoder.
 *
 * @example
 * console.log(jsonText('a<b "c"')); // a\u003cb \"c\"
 */
export function jsonText(text: string): string {
  if (PLAIN.test(text)) return text;
  const quoted = JSON.stringify(wellFormed(text));
  return quoted
    .slice(1, -1)
    .replace(ESCAPED_BY_GO, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** What {@link jsonText} made of a text, back to that text. */
export function textOfJson(json: string): string {
  return json.includes('\\') ? (JSON.parse(`"${json}"`) as string) : json;
}

/** By character below 128: whether {@link jsonText} leaves it alone. */
const IS_PLAIN: Uint8Array = Uint8Array.from({ length: 128 }, (_, code) =>
  PLAIN.test(String.fromCharCode(code)) ? 1 : 0,
);

/** Writes {@link jsonText} of a text as UTF-8, and answers where it ends. There must be room. */
export function writeJson(text: string, into: Buffer, at: number): number {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code > 127 || IS_PLAIN[code] === 0) return at + into.write(jsonText(text), at);
    into[at + index] = code;
  }
  return at + text.length;
}
