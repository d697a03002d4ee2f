import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Config, defaultConfig, machineMemory } from '../config/index.ts';
import { probeLowWater } from '../delivery/index.ts';
import { systemClock } from '../kernel/index.ts';
import { openLog } from '../relay.ts';
import { DEMO_DATA, DEMO_ENV_ID, DEMO_MOBILE_KEY, DEMO_SDK_KEY } from './demo-data.ts';
import { run } from './serve.ts';

/** How often the demo's file is looked at: an edit should be seen to arrive. */
const INTERVAL_MS = 200;

/** `headgate demo`: sample flags in a file of their own, protective limits, and what to try. Answers the exit code. */
export async function demo(options: { port: string; exitAfter?: string }): Promise<number> {
  const port = Number(options.port);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    process.stderr.write(`Cannot start the demo: --port must be a number from 0 to 65535, got ${options.port}\n`);
    return 2;
  }
  const folder = await mkdtemp(join(tmpdir(), 'headgate-demo-'));
  const file = join(folder, 'flags.json');
  await writeFile(file, `${JSON.stringify(DEMO_DATA, undefined, 2)}\n`);
  const log = openLog({ level: 'info', clock: systemClock });
  try {
    return await run(await demoConfig(port, file), log, (relay) => {
      process.stdout.write(whatToTry(relay.port, file));
      if (options.exitAfter !== undefined)
        setTimeout(() => process.kill(process.pid, 'SIGTERM'), Number(options.exitAfter));
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function demoConfig(port: number, file: string): Promise<Config> {
  const machine = { memoryLimitBytes: machineMemory().memoryLimitBytes, lowWater: await probeLowWater() };
  const config = defaultConfig(machine);
  const source = {
    type: 'file',
    name: 'demo',
    paths: [file],
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
  return {
    ...config,
    server: { ...config.server, port, host: '127.0.0.1', drainDelayMs: 0, graceMs: 1000 },
    flags: { ...config.flags, sources: [source] },
  };
}

function whatToTry(port: number, file: string): string {
  const url = `http://127.0.0.1:${port}`;
  const context = Buffer.from('{"kind":"user","key":"ada"}').toString('base64url');
  return `
Headgate serves three flags on ${url}. Try, in another terminal:

  a server SDK's stream (FDv1):  curl -N -H 'Authorization: ${DEMO_SDK_KEY}' ${url}/all
  the same in FDv2:              curl -N -H 'Authorization: ${DEMO_SDK_KEY}' ${url}/sdk/stream
  one flag, as PHP asks:         curl -H 'Authorization: ${DEMO_SDK_KEY}' ${url}/sdk/flags/dark-mode
  flags for one browser:         curl ${url}/sdk/evalx/${DEMO_ENV_ID}/contexts/${context}
  what it serves:                curl ${url}/status

Edit ${file}
and save it: the change arrives on both streams, and nothing else is sent. Ctrl-C stops.

`;
}
