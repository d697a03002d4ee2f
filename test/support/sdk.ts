import { existsSync } from 'node:fs';
import { ROOT } from './files.ts';
import { type Line, LineProcess } from './line-process.ts';

/** The server SDKs that the tests connect; `test/clients` has a program around each. */
export const SDKS = ['node', 'go', 'python'] as const;
export type SdkName = (typeof SDKS)[number];

/** The protocol and transport that an SDK is told to use; `test/clients/README.md` explains each. */
export const SDK_MODES = ['fdv1-stream', 'fdv1-poll', 'fdv2', 'fdv2-stream', 'fdv2-poll'] as const;
type SdkMode = (typeof SDK_MODES)[number];

export interface SdkOptions {
  readonly sdk: SdkName;
  readonly mode: SdkMode;
  readonly baseUrl: string;
  readonly sdkKey: string;
}

const BUILT = `${ROOT}test/clients/.build`;
const COMMANDS: Readonly<Record<SdkName, readonly string[]>> = {
  node: [process.execPath, `${ROOT}test/clients/node/driver.mjs`],
  go: [`${BUILT}/go-driver`],
  python: [`${BUILT}/python/bin/python`, `${ROOT}test/clients/python/driver.py`],
};

/** Long enough for the slowest reconnect of an SDK: three refused tries and the fourth. */
const WAIT_MS_MAX = 30_000;

/**
 * Whether this SDK can be run here. `test/clients/setup.sh test/clients/.build` makes it so.
 * In CI every one must be there: a missing one is an error, never a skipped test.
 */
export function sdkAvailable(sdk: SdkName): boolean {
  const missing = COMMANDS[sdk].filter((path) => !existsSync(path));
  if (missing.length === 0) return true;
  const problem = `Cannot run the ${sdk} SDK: run test/clients/setup.sh test/clients/.build first, got no ${missing[0]}`;
  if (process.env['CI'] === 'true') throw new Error(problem);
  process.stderr.write(`${problem}; its tests are skipped\n`);
  return false;
}

/** A running SDK, at the server it was told to connect to. */
export class Sdk {
  readonly name: string;
  /** All flag values for the programs' fixed context, once the SDK is ready. */
  readonly initialized: Promise<Readonly<Record<string, unknown>>>;
  readonly #process: LineProcess;

  constructor(options: SdkOptions) {
    const [command = '', ...args] = COMMANDS[options.sdk];
    this.name = `${options.sdk} ${options.mode}`;
    this.#process = new LineProcess({ command, args: [...args, options.mode, options.baseUrl, options.sdkKey] });
    this.initialized = this.#wait('initialized', (line) => line['event'] === 'initialized').then(
      (line) => line['flags'] as Readonly<Record<string, unknown>>,
    );
    // whoever starts several may look at the others first: a failure is told where it is awaited
    this.initialized.catch(() => {});
  }

  /** Everything the program said so far. */
  get lines(): readonly Line[] {
    return this.#process.lines;
  }

  /** What the SDK itself logged. */
  get log(): string {
    return this.#process.stderr;
  }

  /** The value of a flag when the SDK says that it changed: to `value` when that is given, in line `from` or a later one. */
  async waitForChange(key: string, options: { value?: unknown; from?: number } = {}): Promise<unknown> {
    const { value, from = 0 } = options;
    const line = await this.#wait(
      `change of ${key}`,
      (said) => said['event'] === 'change' && said['key'] === key && (value === undefined || said['value'] === value),
      from,
    );
    return line['value'];
  }

  /** Answers when the SDK says that its connection is in this state, for example `VALID` or `INTERRUPTED`. Node's SDK never does. */
  async waitForStatus(state: string, from = 0): Promise<void> {
    await this.#wait(`state ${state}`, (line) => line['event'] === 'status' && line['state'] === state, from);
  }

  /** Ends the program. */
  async stop(): Promise<void> {
    await this.#process.stop('stdin');
  }

  #wait(what: string, matches: (line: Line) => boolean, from = 0): Promise<Line> {
    return this.#process.waitFor(`${what} (${this.name})`, matches, { msMax: WAIT_MS_MAX, from });
  }
}

/** Starts an SDK; `initialized` of what it answers tells when it is ready. */
export function startSdk(options: SdkOptions): Sdk {
  return new Sdk(options);
}
