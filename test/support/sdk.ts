import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { ROOT } from './files.ts';
import { type Line, LineProcess } from './line-process.ts';
import { isThereOrSkipped } from './missing.ts';

/** The server SDKs that the tests connect; `test/clients` has a program around each. */
export const SDKS = ['node', 'go', 'python'] as const;
/** Others that are told flags: OpenFeature's provider around Node's SDK, a page in a browser, and a phone. */
type ClientName = 'openfeature' | 'browser' | 'phone';
export type SdkName = (typeof SDKS)[number] | ClientName;

/** The protocol and transport that an SDK is told to use; `test/clients/README.md` explains each. */
export const SDK_MODES = ['fdv1-stream', 'fdv1-poll', 'fdv2', 'fdv2-stream', 'fdv2-poll'] as const;
export type SdkMode = (typeof SDK_MODES)[number];

export interface SdkOptions {
  readonly sdk: SdkName;
  readonly mode: SdkMode;
  readonly baseUrl: string;
  /** Of a browser the ID of its environment, of a phone its mobile key. */
  readonly sdkKey: string;
}

/** Flags and their values for the programs' fixed context. */
export type SdkFlags = Readonly<Record<string, unknown>>;

const CLIENTS = `${ROOT}test/clients`;
const BUILT = `${CLIENTS}/.build`;
const COMMANDS: Readonly<Record<SdkName, readonly string[]>> = {
  node: [process.execPath, `${CLIENTS}/node/driver.mjs`],
  go: [`${BUILT}/go-driver`],
  python: [`${BUILT}/python/bin/python`, `${CLIENTS}/python/driver.py`],
  openfeature: [process.execPath, `${CLIENTS}/node/openfeature.mjs`],
  browser: [process.execPath, `${CLIENTS}/node/browser.mjs`],
  phone: [process.execPath, `${CLIENTS}/node/phone.mjs`],
};
/** What a program needs besides itself. */
const NEEDED: Readonly<Partial<Record<SdkName, string>>> = {
  openfeature: `${BUILT}/node-bouncer/node_modules/@launchdarkly/openfeature-node-server/package.json`,
  browser: '/usr/bin/chromium',
};

/** Long enough for the slowest reconnect of an SDK: three refused tries and the fourth. */
const WAIT_MS_MAX = 30_000;
/** Two polls and a reconnect: whoever polls has the new values by then. */
const FLAGS_WAIT_MS_MAX = 90_000;
/** How often a client is asked that says nothing. */
const ASK_MS = 1000;

/**
 * Whether this SDK can be run here. `test/clients/setup.sh test/clients/.build` makes it so; a browser has to be installed.
 * In CI every one must be there: a missing one is an error, never a skipped test.
 */
export function sdkAvailable(sdk: SdkName): boolean {
  const needed = NEEDED[sdk];
  const missing = [...COMMANDS[sdk], ...(needed === undefined ? [] : [needed])].filter((path) => !existsSync(path));
  const cause = sdk === 'browser' ? 'install it' : 'run test/clients/setup.sh test/clients/.build';
  const problem = `Cannot run the ${sdk} SDK: ${cause} first, got no ${missing[0]}`;
  return isThereOrSkipped(missing.length === 0, problem);
}

/** A running SDK, at the server it was told to connect to. */
export class Sdk {
  readonly name: string;
  /** All flag values, once the SDK is ready. */
  readonly initialized: Promise<SdkFlags>;
  readonly #process: LineProcess;

  constructor(options: SdkOptions) {
    const [command = '', ...args] = COMMANDS[options.sdk];
    this.name = `${options.sdk} ${options.mode}`;
    this.#process = new LineProcess({ command, args: [...args, options.mode, options.baseUrl, options.sdkKey] });
    this.initialized = this.#wait('initialized', (line) => line['event'] === 'initialized').then(
      (line) => line['flags'] as SdkFlags,
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

  /** All flag values as they are now. */
  async flags(): Promise<SdkFlags> {
    const from = this.lines.length;
    this.#process.tell('flags');
    const line = await this.#wait('flags', ({ event }) => event === 'flags', from);
    return line['flags'] as SdkFlags;
  }

  /** Answers when all flags have these values, and there are no others: asked at each change that the SDK tells. */
  async waitForFlags(expected: SdkFlags): Promise<void> {
    const byMs = performance.now() + FLAGS_WAIT_MS_MAX;
    for (;;) {
      const from = this.lines.length;
      const flags = await this.flags();
      if (isDeepStrictEqual(flags, expected)) return;
      if (performance.now() > byMs) {
        throw new Error(
          `Cannot see the flags expected of ${this.name}: not so in ${FLAGS_WAIT_MS_MAX} ms, got ${JSON.stringify(flags)}`,
        );
      }
      await this.#process
        .waitFor('a change', ({ event }) => event === 'change', { msMax: ASK_MS, from })
        .catch(() => undefined);
    }
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
