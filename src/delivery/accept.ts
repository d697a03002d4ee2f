/**
 * Whether a client accepts gzip, by its `Accept-Encoding`: RFC 9110, section 12.5.3.
 *
 * @example
 * console.log(acceptsGzip('br, gzip;q=0.5'), acceptsGzip('gzip;q=0'), acceptsGzip(undefined)); // true false false
 */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false;
  return acceptEncoding.split(',').some((part) => /^\s*(gzip|x-gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*$).*)?$/i.test(part));
}
