import { type Config, loadConfig, machineMemory, type Problem } from '../config/index.ts';
import { probeLowWater } from '../delivery/index.ts';
import { HeadgateError, messageOf, systemClock } from '../kernel/index.ts';
import { type Log, openLog, Relay } from '../relay.ts';

/** Where the configuration is. */
export interface ConfigOptions {
  readonly config?: string;
  readonly allowMissingFile?: boolean;
  readonly fromEnv?: boolean;
}

/** Reads the configuration that a command names. Without a file and without `--from-env`, the vendor's default file. */
export async function readConfig(
  options: ConfigOptions,
): Promise<{ config: Config | undefined; problems: readonly Problem[] }> {
  const file = options.config ?? (options.fromEnv === true ? undefined : '/etc/ld-relay.conf');
  return loadConfig({
    ...(file === undefined ? {} : { file }),
    allowMissingFile: options.allowMissingFile === true,
    fromEnv: options.fromEnv === true,
    env: process.env,
    machine: { ...machineMemory(), lowWater: await probeLowWater() },
  });
}

/** `headgate serve`: runs until SIGTERM or SIGINT. Answers the exit code. */
export async function serve(options: ConfigOptions): Promise<number> {
  const { config, problems } = await readConfig(options);
  const log = openLog({ level: config?.log.level ?? 'info', format: config?.log.format ?? 'json', clock: systemClock });
  for (const problem of problems) logProblem(log, problem);
  if (config === undefined) {
    log.error({}, 'cannot start: the configuration has errors');
    return 1;
  }
  return run(config, log);
}

/** Runs a relay until it is told to stop. Answers the exit code. */
export async function run(
  config: Config,
  log: Log,
  onStart: (relay: Relay) => void = () => undefined,
): Promise<number> {
  // before it says that it listens: without a listener a hangup ends the process, and the first of a container is deaf to SIGTERM
  let reload = (): void => {
    isReloadAsked = true;
  };
  let isReloadAsked = false;
  let isStopping = false;
  process.on('SIGHUP', () => reload());
  const asked = new Promise<void>((resolve) => {
    const stop = (): void => {
      isStopping = true;
      resolve();
    };
    process.once('SIGTERM', stop);
    process.once('SIGINT', stop);
  });
  let relay: Relay;
  try {
    relay = await Relay.start({ config, log, listen: !config.exit.always });
  } catch (error) {
    const code = error instanceof HeadgateError ? error.code : undefined;
    log.error({ code }, messageOf(error));
    return 1;
  }
  reload = () => relay.reload();
  if (isReloadAsked) reload();
  const stopped = asked.then(() => relay.stop());
  if (config.exit.always || config.exit.onError) {
    const loaded = await relay.loaded;
    if (!isStopping && !loaded) log.error({}, 'a source could not be read');
    if (!isStopping && (config.exit.always || !loaded)) {
      await relay.stop();
      return loaded ? 0 : 1;
    }
  }
  onStart(relay);
  await stopped;
  // idle keep-alive connections of clients that do not leave must not hold the process
  setImmediate(() => process.exit(0));
  return 0;
}

function logProblem(log: Log, { severity, where, message }: Problem): void {
  if (severity === 'error') log.error({ where }, message);
  else if (severity === 'warning') log.warn({ where }, message);
  else log.info({ where }, message);
}
