/** The polynomial of CRC-32 (RFC 1952, section 8), its bits reflected: the highest bit is x^0. */
const POLYNOMIAL = 0xedb88320;
const X_TO_0 = 0x80000000;

/** x^(2^n) mod P for n = 0 .. 31. x^(2^32) is x^(2^0) again, so the table goes round. */
const POWERS: Uint32Array = powers();

/**
 * The CRC-32 of two byte strings joined, from the CRC-32 of each and the length of the second.
 *
 * What is appended shifts the first's remainder by its length: a multiplication by x^(8 * length) modulo the
 * polynomial. So the trailer of a gzip member costs a few multiplications per page, not a pass over its bytes.
 *
 * @example
 * import { crc32 } from 'node:zlib';
 *
 * console.log(crc32Combine(crc32('ab'), crc32('cde'), 3) === crc32('abcde')); // true
 */
export function crc32Combine(first: number, second: number, secondBytes: number): number {
  return (multiply(shiftOf(secondBytes), first) ^ second) >>> 0;
}

/** x^(8 * bytes) mod P. */
function shiftOf(bytes: number): number {
  let shift = X_TO_0;
  // divided instead of shifted, since a shift would cut a length above 2^31
  for (let left = bytes, n = 3; left > 0; left = Math.floor(left / 2), n++) {
    if (left % 2 === 1) shift = multiply(POWERS[n % 32]!, shift);
  }
  return shift;
}

/** The product of two polynomials mod P. `a` is a power of x here, hence never zero, so the loop ends. */
function multiply(a: number, b: number): number {
  let product = 0;
  let factor = b;
  for (let bit = X_TO_0; ; bit >>>= 1) {
    if ((a & bit) !== 0) {
      product ^= factor;
      if ((a & (bit - 1)) === 0) return product >>> 0;
    }
    factor = (factor & 1) === 1 ? (factor >>> 1) ^ POLYNOMIAL : factor >>> 1;
  }
}

function powers(): Uint32Array {
  const table = new Uint32Array(32);
  table[0] = X_TO_0 >>> 1;
  for (let n = 1; n < 32; n++) table[n] = multiply(table[n - 1]!, table[n - 1]!);
  return table;
}
