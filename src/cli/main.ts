#!/usr/bin/env node
import { Command } from 'commander';
import { VERSION } from '../relay.ts';
import { checkConfig, type ExplainOptions } from './check-config.ts';
import { demo } from './demo.ts';
import { preferSmallHeap } from './heap.ts';
import { serve } from './serve.ts';

preferSmallHeap();

const program = new Command('headgate')
  .description('Hands a large, changing data set to a whole fleet, and stays up when all of it reconnects at once.')
  .version(VERSION, '--version', 'print the version');

program
  .command('serve')
  .description('run with a configuration file (our YAML, or the ini file of the vendor relay) or environment variables')
  .option('--config <file>', 'YAML or ini file')
  .option('--allow-missing-file', 'start without the file if it is not there')
  .option('--from-env', 'read the environment variables of the vendor relay')
  .action(async (options: { config?: string; allowMissingFile?: boolean; fromEnv?: boolean }) => {
    process.exitCode = await serve(options);
  });

program
  .command('check-config')
  .description('print what a configuration does, and every problem with its line; nothing is started')
  .argument('[file]', 'YAML or ini file')
  .option('--from-env', 'read the environment variables of the vendor relay')
  .option('--explain', 'print the arithmetic of the limits, line by line; the next three imply it')
  .option('--clients <n>', 'what a herd of so many clients would see')
  .option('--data <size>', 'size of a full copy, such as 1.3MB; without it, that of the files that are configured')
  .option('--link <speed>', 'what the network carries, such as 1Gbit/s')
  .action(async (file: string | undefined, options: { fromEnv?: boolean } & ExplainOptions) => {
    process.exitCode = await checkConfig({ ...options, ...(file === undefined ? {} : { config: file }) });
  });

program
  .command('demo')
  .description('run with sample flags and decisions and protective limits, no files needed, and print what to try')
  .option('--port <port>', 'where to listen', '8030')
  .option('--admin-port <port>', 'where the dashboard is', '8031')
  .option('--exit-after <ms>', 'stop after this many milliseconds')
  .action(async (options: { port: string; adminPort: string; exitAfter?: string }) => {
    process.exitCode = await demo(options);
  });

await program.parseAsync();
