/** Every error that Headgate raises on purpose, by code. `docs/errors.md` explains each; a test holds the two in step. */
export const ERROR_CODES = {
  HG_OPTION: 'An option has a value of the wrong type or out of range.',
  HG_CONFIG: 'A configuration file or environment variable cannot be used.',
  HG_SOURCE: 'A source delivered data that cannot be read.',
  HG_UPSTREAM: 'An upstream cannot be reached, refuses what it was asked, or answers what cannot be read.',
  HG_ARCHIVE: 'An archive is damaged, too large, or not laid out as expected.',
  HG_STORE: 'The store cannot be opened, read or written.',
  HG_POSITION: 'A position does not have the form that this server gives out.',
  HG_LISTEN: 'The server cannot listen on the address it was given.',
  HG_TLS: 'A certificate or key cannot be used.',
} as const;

/** A code of the catalogue. */
export type ErrorCode = keyof typeof ERROR_CODES;

/**
 * An error with a code from the catalogue.
 *
 * Messages read `Cannot <act>: <cause>, got <value>`, so that the person who reads one at night knows what to change.
 *
 * @example
 * const error = new HeadgateError('HG_OPTION', 'Cannot make a limiter: maxConcurrent must be positive, got -1');
 * console.log(error.code); // HG_OPTION
 */
export class HeadgateError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'HeadgateError';
    this.code = code;
  }
}

/**
 * The message of anything that was thrown.
 *
 * @example
 * console.log(messageOf(new Error('socket closed'))); // socket closed
 * console.log(messageOf('socket closed')); // socket closed
 */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
