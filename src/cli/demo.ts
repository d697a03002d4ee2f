import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Config, defaultConfig, machineMemory } from '../config/index.ts';
import { probeLowWater } from '../delivery/index.ts';
import { messageOf, systemClock } from '../kernel/index.ts';
import { openLog, type Relay } from '../relay.ts';
import {
  DEMO_BANNED,
  DEMO_BOUNCER_KEY,
  DEMO_DATA,
  DEMO_DECISIONS,
  DEMO_ENV_ID,
  DEMO_MOBILE_KEY,
  DEMO_SDK_KEY,
} from './demo-data.ts';
import { run } from './serve.ts';

/** How often the demo's files are looked at: an edit should be seen to arrive. */
const INTERVAL_MS = 200;

/** How often the npx that started it is looked for. */
const PARENT_INTERVAL_MS = 500;

/** The longest time that a timer takes. */
const EXIT_MS_MAX = 2 ** 31 - 1;

/** How long a ban outlasts the demo at most. */
const BAN_MS = 3_600_000;

/** The files that the demo serves, to be edited. */
interface Files {
  readonly flags: string;
  readonly decisions: string;
}

/** Where the demo listens. */
interface Ports {
  readonly port: number;
  readonly adminPort: number;
}

/**
 * `headgate demo`: sample flags and decisions in files of their own, protective limits, and what to try. Answers the exit
 * code.
 */
export async function demo(options: { port: string; adminPort: string; exitAfter?: string }): Promise<number> {
  const ports = { port: Number(options.port), adminPort: Number(options.adminPort) };
  for (const [name, text, max] of [
    ['--port', options.port, 65_535],
    ['--admin-port', options.adminPort, 65_535],
    ['--exit-after', options.exitAfter ?? '0', EXIT_MS_MAX],
  ] as const) {
    if (/^\d+$/.test(text) && Number(text) <= max) continue;
    process.stderr.write(`Cannot start the demo: ${name} must be a number from 0 to ${max}, got ${text}\n`);
    return 2;
  }
  const folder = await mkdtemp(join(tmpdir(), 'headgate-demo-')).catch((error: unknown) => {
    process.stderr.write(`Cannot start the demo: its files need a folder in ${tmpdir()}, got ${messageOf(error)}\n`);
  });
  if (folder === undefined) return 1;
  const files = { flags: join(folder, 'flags.json'), decisions: join(folder, 'bans.csv') };
  const log = openLog({ level: 'info', clock: systemClock });
  try {
    await writeFile(files.flags, `${JSON.stringify(DEMO_DATA, undefined, 2)}\n`);
    await writeFile(files.decisions, DEMO_DECISIONS);
    const code = await run(await demoConfig(ports, files), log, (relay) => {
      process.stdout.write(whatToTry(relay, files));
      stopWithTerminal();
      if (options.exitAfter !== undefined) setTimeout(stop, Number(options.exitAfter));
    });
    if (code !== 0)
      process.stderr.write('The demo did not start. When its port is taken: --port 0 takes any free one.\n');
    return code;
  } finally {
    // at once: when it has stopped, the process ends in its next turn
    rmSync(folder, { recursive: true, force: true });
  }
}

function stop(): void {
  process.kill(process.pid, 'SIGTERM');
}

/**
 * A demo ends with the terminal that it was started in, and with the npx, which passes no signal on: left behind it would
 * hold its ports.
 */
function stopWithTerminal(): void {
  process.removeAllListeners('SIGHUP').once('SIGHUP', stop);
  if (process.env['npm_command'] !== 'exec') return;
  const { ppid } = process;
  const timer = setInterval(() => {
    if (process.ppid === ppid) return;
    clearInterval(timer);
    stop();
  }, PARENT_INTERVAL_MS);
}

async function demoConfig({ port, adminPort }: Ports, files: Files): Promise<Config> {
  const machine = { memoryLimitBytes: machineMemory().memoryLimitBytes, lowWater: await probeLowWater() };
  const config = defaultConfig(machine);
  const flags = {
    type: 'file',
    name: 'demo',
    paths: [files.flags],
    intervalMs: INTERVAL_MS,
    sdkKey: DEMO_SDK_KEY,
    mobileKey: DEMO_MOBILE_KEY,
    envId: DEMO_ENV_ID,
    projectKey: undefined,
    ttlMs: 0,
    secureMode: false,
    allowedOrigins: [],
    allowedHeaders: [],
  } as const;
  const decisions = {
    type: 'file',
    name: 'demo',
    paths: [files.decisions],
    intervalMs: INTERVAL_MS,
    durationMs: BAN_MS,
    origin: 'demo',
    scenario: 'manual',
    decisionType: 'ban',
  } as const;
  const key = { name: 'demo', sha512: createHash('sha512').update(DEMO_BOUNCER_KEY).digest('hex') };
  return {
    ...config,
    server: { ...config.server, port, host: '127.0.0.1', drainDelayMs: 0, graceMs: 1000 },
    admin: { ...config.admin, host: '127.0.0.1', port: adminPort },
    flags: { ...config.flags, sources: [flags] },
    decisions: { ...config.decisions, enabled: true, sources: [decisions], keys: [key] },
  };
}

function whatToTry({ port, adminPort }: Relay, files: Files): string {
  const url = `http://127.0.0.1:${port}`;
  const context = Buffer.from('{"kind":"user","key":"ada"}').toString('base64url');
  const page =
    adminPort === undefined
      ? 'The dashboard is not open, for the reason that the log gives. --admin-port 0 takes any free port.'
      : `Watch it:                        http://127.0.0.1:${adminPort}/`;
  return `
Headgate serves three flags and four decisions on ${url}. Try, in another terminal:

  a server SDK's stream (FDv1):  curl -N -H 'Authorization: ${DEMO_SDK_KEY}' ${url}/all
  the same in FDv2:              curl -N -H 'Authorization: ${DEMO_SDK_KEY}' ${url}/sdk/stream
  one flag, as PHP asks:         curl -H 'Authorization: ${DEMO_SDK_KEY}' ${url}/sdk/flags/dark-mode
  flags for one browser:         curl ${url}/sdk/evalx/${DEMO_ENV_ID}/contexts/${context}
  all that a bouncer is told:    curl -H 'X-Api-Key: ${DEMO_BOUNCER_KEY}' '${url}/v1/decisions/stream?startup=true'
  and then what changed:         curl -H 'X-Api-Key: ${DEMO_BOUNCER_KEY}' ${url}/v1/decisions/stream
  decisions on one address:      curl -H 'X-Api-Key: ${DEMO_BOUNCER_KEY}' '${url}/v1/decisions?ip=${DEMO_BANNED}'
  what it serves:                curl ${url}/status

${page}

Edit a file and save it; the change arrives, and nothing else is sent. Ctrl-C stops.

  flags:      ${files.flags}
  decisions:  ${files.decisions}

`;
}
