import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonText, textOfJson, writeJson } from './json-text.ts';

/** Any UTF-16 code units, so that surrogates come alone as well. */
const anyText = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 })
  .map((codes) => String.fromCharCode(...codes));

describe('jsonText', () => {
  it('escapes what the encoder of Go 1.22 and later escapes, and nothing else', () => {
    expect(jsonText('a"\\/<>&\u2028\u2029\b\f\n\r\t\0\x1f\x7f é€😀')).toBe(
      'a\\"\\\\/\\u003c\\u003e\\u0026\\u2028\\u2029\\b\\f\\n\\r\\t\\u0000\\u001f\x7f é€😀',
    );
  });

  it('makes U+FFFD of a lone surrogate, as the decoder of Go does', () => {
    expect(jsonText('a\ud83d b\ude00 😀')).toBe('a\ufffd b\ufffd 😀');
  });

  it('is JSON of the text, without what matters in HTML, and comes back', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'grapheme' }), anyText), (text) => {
        const json = jsonText(text);
        const wellFormed = Buffer.from(text).toString();
        expect(JSON.parse(`"${json}"`)).toBe(wellFormed);
        expect(json).not.toMatch(/[<>&\u2028\u2029]/);
        expect(textOfJson(json)).toBe(wellFormed);
      }),
    );
  });

  it('is what writeJson writes', () => {
    const into = Buffer.alloc(256);
    fc.assert(
      fc.property(fc.oneof(fc.string(), anyText), fc.nat(9), (text, at) => {
        const end = writeJson(text, into, at);
        expect(into.toString('utf8', at, end)).toBe(jsonText(text));
      }),
    );
  });
});
