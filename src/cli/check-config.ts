import { describeConfig } from '../config/index.ts';
import { type ConfigOptions, readConfig } from './serve.ts';

/** `headgate check-config`: prints what would happen and every problem with its line. Answers the exit code. */
export async function checkConfig(options: ConfigOptions): Promise<number> {
  const { config, problems } = await readConfig(options);
  for (const { severity, where, message } of problems) process.stdout.write(`${severity}: ${where}: ${message}\n`);
  if (config !== undefined) process.stdout.write(`${describeConfig(config)}\n`);
  return config === undefined ? 1 : 0;
}
