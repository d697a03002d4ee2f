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

/** Fields of a line, with what people call the environment in them. */
export function namesIn(nameOf: (environment: string) => string): (fields: object) => object {
  return (fields) => {
    if (!('environment' in fields) || typeof fields.environment !== 'string') return fields;
    return { ...fields, environment: nameOf(fields.environment) };
  };
}

/**
 * Writes to the logger, and keeps warnings and errors in mind, whether its level shows them or not. Trouble is told with names
 * of its own when it is read.
 */
export function linesOf(logger: Logger, trouble: Trouble, called: (fields: object) => object): Lines {
  return {
    isDebugging: logger.isLevelEnabled('debug'),
    debug: (fields, message) => logger.debug(called(fields), message),
    info: (fields, message) => logger.info(called(fields), message),
    warn(fields, message) {
      trouble.add('warn', fields, message);
      logger.warn(called(fields), message);
    },
    error(fields, message) {
      trouble.add('error', fields, message);
      logger.error(called(fields), message);
    },
  };
}
