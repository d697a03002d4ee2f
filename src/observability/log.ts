import pino from 'pino';
import type { Clock } from '../kernel/index.ts';
import { caughtUp, delivered, failed, lost, refused } from '../protocols/launchdarkly/index.ts';
import { logDecisions } from './decisions.ts';
import { linesOf, namesIn } from './lines.ts';
import { prettyInto } from './pretty.ts';
import { Repeated } from './repeated.ts';
import { Trouble, type TroubleLine } from './trouble.ts';

/** The log of a process. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** What lines call an environment from here on, by its name in facts: one that nobody named is called by a key. */
  call(nameOf: (environment: string) => string): void;
  /** What it warned of last, whatever its level: summed, newest first. */
  trouble(): readonly TroubleLine[];
  /** Writes what is held back and stops listening. */
  close(): void;
}

/** How to log. */
export interface LogOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'none';
  /** One JSON object a line, or lines for people. Default `json`. */
  readonly format?: 'json' | 'pretty';
  readonly clock: Clock;
  /** Where lines go; standard output by default. */
  readonly destination?: { write(line: string): void };
}

/**
 * Opens the log and listens to what the rooms make known: a refusal or a cut is a warning with its cause, a client's own
 * disconnect is for debugging, and repeated ones are summed. Keys never reach a line: rooms do not tell them.
 *
 * @example
 * const lines: string[] = [];
 * const destination = { write: (line: string) => void lines.push(line) };
 * const log = openLog({ level: 'warn', clock: systemClock, destination });
 * log.info({}, 'not at this level');
 * log.warn({ port: 8030 }, 'shown');
 * console.log(lines.length, lines[0]?.includes('"port":8030,"msg":"shown"')); // 1 true
 * log.close();
 */
export function openLog(options: LogOptions): Log {
  const settings = { level: options.level === 'none' ? 'silent' : options.level, base: null };
  const destination = options.destination ?? pino.destination(1);
  const trouble = new Trouble(Date.now);
  let nameOf = (environment: string): string => environment;
  const called = namesIn((environment) => nameOf(environment));
  const pinoLogger = pino(settings, options.format === 'pretty' ? prettyInto(destination) : destination);
  const logger = linesOf(pinoLogger, trouble, called);
  const repeatedWarn = new Repeated((fields) => logger.warn(fields, String(fields['what'])), options.clock);
  const stops = [
    refused.listen(({ environment, route, sdk, remoteAddress, reason, early, waitedMs, retryAfterSeconds }) => {
      const fields = {
        environment,
        route,
        sdk,
        remoteAddress,
        reason,
        early,
        waitedMs: Math.round(waitedMs),
        retryAfterSeconds,
      };
      repeatedWarn.add(`refused/${environment}/${route}/${reason}`, { what: 'refused', ...fields });
    }),
    delivered.listen((fact) => {
      const { environment, route, sdk, remoteAddress, outcome, bytes, encoding } = fact;
      const seconds = Math.round(fact.ms) / 1000;
      const fields = { environment, route, sdk, remoteAddress, outcome, bytes, seconds, encoding, copy: fact.what };
      if (outcome === 'completed' || outcome === 'client_gone') logger.debug(fields, `delivery ${outcome}`);
      else if (outcome === 'error') logger.error({ ...fields, err: fact.error }, 'delivery error');
      else repeatedWarn.add(`cut/${environment}/${route}/${outcome}`, { what: `cut: ${outcome}`, ...fields });
    }),
    failed.listen(({ error, ...fields }) => logger.error({ ...fields, err: error }, 'stream reset: a fault of ours')),
    // by far the most frequent fact: not even made when nobody reads it
    ...(logger.isDebugging ? [caughtUp.listen((fact) => logger.debug(fact, 'caught up'))] : []),
    lost.listen((fact) =>
      repeatedWarn.add(`lost/${fact.environment}/${fact.route}`, { what: 'stream fell off the log', ...fact }),
    ),
  ];
  const stopDecisions = logDecisions(logger, options.clock);
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    call: (names) => void (nameOf = names),
    trouble: () => trouble.lines(),
    close() {
      for (const stop of stops) stop();
      repeatedWarn.flush();
      stopDecisions();
    },
  };
}
