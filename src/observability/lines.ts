import type { Logger } from 'pino';
import type { Trouble } from './trouble.ts';

/** Where lines of the log are written. */
export interface Lines {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** Whether lines for debugging are wanted: some are not even made otherwise. */
  readonly isDebugging: boolean;
}

/** Writes to the logger, and keeps warnings and errors in mind, whether its level shows them or not. */
export function linesOf(logger: Logger, trouble: Trouble): Lines {
  return {
    isDebugging: logger.isLevelEnabled('debug'),
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn(fields, message) {
      trouble.add('warn', fields, message);
      logger.warn(fields, message);
    },
    error(fields, message) {
      trouble.add('error', fields, message);
      logger.error(fields, message);
    },
  };
}
