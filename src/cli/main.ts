#!/usr/bin/env node
import { Command } from 'commander';
import { VERSION } from '../relay.ts';
import { checkConfig, type ExplainOptions } from './check-config.ts';
import { demo } from './demo.ts';
import { preferSmallHeap } from './heap.ts';
import { type HerdArguments, herd } from './herd.ts';
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

const repeated = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

program
  .command('herd')
  .description('send a herd of clients to a server, as real SDKs and bouncers behave, and report what became of them')
  .argument('<url>', 'where it goes, such as http://127.0.0.1:8030')
  .option(
    '--kind <kinds>',
    'fdv1, fdv2, fdv1-poll, fdv2-poll, php, bouncer, several as fdv1:3,bouncer:1, or mix',
    'fdv1',
  )
  .option('--sdk <names>', 'go, node, python; for bouncers go, lua, python, node, php, traefik (default: all in turn)')
  .option(
    '--key <key>',
    'SDK key, may be repeated; rather in HEADGATE_HERD_KEY, since the process list shows options',
    repeated,
  )
  .option('--bouncer-key <key>', 'the same for bouncers, or HEADGATE_HERD_BOUNCER_KEY', repeated)
  .option('--clients <number>', 'how many, at most 20000', '100')
  .option('--arrive <time>', 'the time over which they arrive, such as 30s (default: all at once)')
  .option('--stalled <share>', 'those that read 10KiB, or 30%@SIZE, and then nothing, such as 30%')
  .option('--slow <share>', 'those that read at a rate, such as 10%@64KiB/s')
  .option('--leaving <share>', 'those that read 64KiB, or 5%@SIZE, and leave for good')
  .option('--deadline <time>', 'how long after its arrival a client must have its full copy (default: 60s)')
  .option('--duration <time>', 'go on for so long (default: until every steady client is served)')
  .option('--drop <time>', 'so long after the start every client loses its connection; wants --duration')
  .option('--every <time>', "from one poll to the next (default: the SDK's own interval)")
  .option('--flag <name>', 'the one flag that PHP clients ask for (default: all)')
  .option('--reconnect', "come again after a failure with the SDK's own waits; this is the default", true)
  .option('--no-reconnect', 'one attempt each')
  .option('--max-bytes <size>', 'end when so much has come')
  .option('--plain', 'ask for no compression, whatever the SDK does')
  .option('--insecure', 'do not check the certificate')
  .option('--allow-remote', 'allow a target that is not on this machine')
  .option('--admin <url>', "the server's admin listener, for its own figures; a token goes into HEADGATE_ADMIN_TOKEN")
  .option('--seed <number>', 'another one gives the roles to other clients', '1')
  .option('--json <file>', 'write the report as JSON; - for stdout, instead of text')
  .option('--html <file>', 'write the report as a page with plots')
  .option('--quiet', 'no progress')
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .action(async (url: string, options: HerdArguments) => {
    process.exitCode = await herd(url, options);
  });

await program.parseAsync();
