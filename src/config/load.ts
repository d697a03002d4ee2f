import { readdir, readFile } from 'node:fs/promises';
import { messageOf } from '../kernel/index.ts';
import { newDecisionsDraft } from './decisions-draft.ts';
import { readDecisionVariables } from './decisions-env.ts';
import { adviseDecisions, readKeyFiles, servesFlags, settleDecisions } from './decisions-settle.ts';
import { deepFreeze, draftConfig, thisMachine } from './defaults.ts';
import { resolveLimits } from './limits.ts';
import { limitsAsked } from './limits-asked.ts';
import { Problems } from './problems.ts';
import { readLink } from './scalars.ts';
import { type Asked, NOTHING_ASKED } from './schema.ts';
import { readServiceVariables } from './service-env.ts';
import { adviseService, settleService } from './service-settle.ts';
import { VendorSettings } from './settings.ts';
import { settleTelemetry } from './telemetry.ts';
import type { Config, LimitsSpec, Machine, Mutable, Problem, Variables } from './types.ts';
import { parseWord } from './values.ts';
import { applyVendorSettings, vendorLimits } from './vendor-apply.ts';
import { noticeOwnSlips, readVendorVariables } from './vendor-env.ts';
import { readVendorFile } from './vendor-file.ts';
import { checkVendorSettings, tellUnused } from './vendor-rules.ts';
import { readYaml } from './yaml.ts';

/** Where a configuration comes from. */
export interface LoadOptions {
  /** A file under the vendor's names or our own YAML; told apart by its ending, else by its first line. */
  readonly file?: string | undefined;
  /** Go on without the file when there is none. */
  readonly allowMissingFile?: boolean | undefined;
  /** Environment variables. `HEADGATE_…` always count, the vendor's only with `fromEnv`. */
  readonly env?: Variables | undefined;
  /** Read the vendor's environment variables too; they win over the file. */
  readonly fromEnv: boolean;
  /** Reads a file as text; a test gives its own. */
  readonly readFile?: ((path: string) => Promise<string>) | undefined;
  /** The names in a folder, for the secrets of a container; a test gives its own. */
  readonly readFolder?: ((path: string) => Promise<readonly string[]>) | undefined;
  /** What the limits are computed from; this machine, without the low-water mark, when absent. */
  readonly machine?: Machine | undefined;
}

/** A configuration, or the reasons why there is none. `config` is undefined exactly when a problem is an error. */
export interface Loaded {
  readonly config: Config | undefined;
  readonly problems: readonly Problem[];
}

type FileKind = 'none' | 'vendor' | 'yaml';

function kindOf(file: string, text: string): FileKind {
  if (/\.(ya?ml|json)$/i.test(file)) return 'yaml';
  if (/\.(conf|ini|cfg)$/i.test(file)) return 'vendor';
  const first = /^[ \t\uFEFF]*(?![ \t\r\n#;])(.*)$/m.exec(text)?.[1] ?? '';
  return first.startsWith('[') ? 'vendor' : 'yaml';
}

/** The vendor's own behaviour where ours differs and it has no setting for it. */
function asVendor(draft: Mutable<Config>): void {
  draft.origin = 'vendor';
  draft.flags.compression = 'off';
  draft.server.drainDelayMs = 0;
}

class Loader {
  readonly #options: LoadOptions;
  readonly #problems = new Problems();
  readonly #settings = new VendorSettings();
  readonly #draft: Mutable<Config>;
  readonly #open = newDecisionsDraft();
  readonly #read: (path: string) => Promise<string>;
  #kind: FileKind = 'none';
  /** What our own file asks for. */
  #asked: Asked = NOTHING_ASKED;
  /** Where the vendor's numbers of our own file stand. */
  #streamAt = { section: '', slots: '', wait: '' };

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#read = options.readFile ?? ((path) => readFile(path, 'utf8'));
    this.#draft = draftConfig(options.machine ?? thisMachine());
  }

  async load(): Promise<Loaded> {
    await this.#readFile();
    const { env = {}, fromEnv } = this.#options;
    noticeOwnSlips(env, fromEnv, this.#problems);
    this.#readLowWater();
    readServiceVariables(env, this.#draft, this.#open, this.#problems);
    if (fromEnv) await this.#readVariables(env);
    checkVendorSettings(this.#settings, this.#problems);
    applyVendorSettings(this.#settings, this.#draft, this.#open.places, this.#problems);
    await readKeyFiles(this.#draft, this.#open, this.#read, this.#problems);
    this.#open.portGiven ||= this.#settings.number('Main', 'port') !== undefined;
    settleDecisions(this.#draft, this.#open, this.#problems);
    settleService(this.#draft, this.#open, this.#problems);
    this.#draft.limits = { ...resolveLimits(this.#limits(), this.#draft.machine) };
    this.#draft.decisions.waitMsMax = this.#draft.limits.waitDecisionsMsMax;
    const sources = { variables: env, settings: this.#settings, asked: this.#asked.telemetry };
    settleTelemetry(this.#draft, sources, this.#problems);
    tellUnused(this.#settings, this.#problems);
    this.#checkServes();
    if (this.#problems.failed) return { config: undefined, problems: this.#problems.list() };
    this.#adviseLimits();
    adviseDecisions(this.#draft, this.#problems);
    adviseService(this.#draft, this.#open.places, env, this.#problems);
    return { config: deepFreeze(this.#draft), problems: this.#problems.list() };
  }

  async #readVariables(variables: Variables): Promise<void> {
    readVendorVariables(variables, this.#settings, this.#problems);
    const readFolder = this.#options.readFolder ?? readdir;
    const environment = { variables, readFile: this.#read, readFolder };
    await readDecisionVariables(environment, this.#draft, this.#open, this.#problems);
    if (this.#kind !== 'none') return;
    // without flags and their limits every name is our own, and so are the defaults
    if (this.#draft.decisions.sources.length > 0 && !this.#namesFlags()) this.#draft.origin = 'environment';
    else asVendor(this.#draft);
  }

  /** Whether a setting under the flags vendor's names says what is served, or how many at once. */
  #namesFlags(): boolean {
    const sections = ['AutoConfig', 'OfflineMode', 'Concurrency'];
    const named = [...this.#settings.single()].some(({ name }) => sections.includes(name.section));
    return named || this.#settings.environments.size > 0;
  }

  async #readFile(): Promise<void> {
    const { file, allowMissingFile } = this.#options;
    if (file === undefined) return;
    let text: string;
    try {
      text = await this.#read(file);
    } catch (error) {
      const missing = (error as { code?: unknown } | null)?.code === 'ENOENT';
      if (missing && allowMissingFile === true) this.#problems.info(file, 'there is no such file; going on without it');
      else this.#problems.error(file, `Cannot read the file: ${messageOf(error)}`);
      return;
    }
    this.#draft.file = file;
    this.#kind = kindOf(file, text);
    if (this.#kind === 'yaml') {
      this.#draft.origin = 'yaml';
      const target = { draft: this.#draft, open: this.#open, problems: this.#problems };
      const { asked, whereOf } = readYaml(text, file, target);
      const at = (...key: readonly string[]): string => whereOf(['api', 'server', 'decisions_stream', ...key]);
      this.#asked = asked;
      this.#streamAt = { section: at(), slots: at('max_concurrent_requests'), wait: at('max_queue_wait') };
    } else {
      asVendor(this.#draft);
      readVendorFile(text, file, this.#settings, this.#problems);
    }
  }

  #limits(): LimitsSpec {
    const { enabled } = this.#draft.decisions;
    if (!enabled && this.#asked.stream !== undefined) {
      // or flags would lose their limits to a section that is about something else
      this.#problems.warn(this.#streamAt.section, 'has no effect: there is no source of decisions');
    }
    return limitsAsked(
      {
        origin: this.#draft.origin,
        wanted: this.#wantedMode(),
        link: this.#link(),
        own: this.#asked.limits,
        waitDecisionsMs: this.#asked.waitDecisionsMs,
        stream: enabled ? this.#asked.stream : undefined,
        streamAt: this.#streamAt,
        relay: vendorLimits(this.#settings, this.#problems),
      },
      this.#problems,
    );
  }

  #wantedMode(): 'auto' | 'off' | undefined {
    const text = this.#options.env?.['HEADGATE_LIMITS'] ?? '';
    if (text === '') return undefined;
    const parsed = parseWord(text, ['auto', 'off']);
    if (parsed.ok) return parsed.value;
    this.#problems.error('HEADGATE_LIMITS', `expected ${parsed.expected}, got ${JSON.stringify(text)}`);
    return undefined;
  }

  #link(): number | undefined {
    const text = this.#options.env?.['HEADGATE_LINK'] ?? '';
    if (text === '') return undefined;
    const parsed = readLink(text);
    if (parsed.ok) return parsed.value;
    this.#problems.error('HEADGATE_LINK', `expected ${parsed.expected}, got ${JSON.stringify(text)}`);
    return undefined;
  }

  /** The low-water mark can be left alone from outside, should it ever be in the way. */
  #readLowWater(): void {
    const text = this.#options.env?.['HEADGATE_LOW_WATER'] ?? '';
    if (text === '') return;
    const parsed = parseWord(text, ['auto', 'off']);
    if (!parsed.ok)
      this.#problems.error('HEADGATE_LOW_WATER', `expected ${parsed.expected}, got ${JSON.stringify(text)}`);
    else if (parsed.value === 'off') this.#draft.machine.lowWater = false;
  }

  #checkServes(): void {
    // An unreadable file may well have named a source; that it did not is then not worth a second error.
    if (servesFlags(this.#draft) || this.#draft.decisions.enabled || this.#problems.failed) return;
    const place = this.#options.file ?? (this.#options.fromEnv ? 'environment' : 'configuration');
    this.#problems.error(
      place,
      'expected something to serve, got nothing: name an environment ([Environment "name"], LD_ENV_name, or flags.environments), an archive (FILE_DATA_SOURCE, or fileDataSource in [OfflineMode]) or a local API (HEADGATE_LAPI_URL), or list flags.sources or decisions.sources',
    );
  }

  #adviseLimits(): void {
    const { limits, file } = this.#draft;
    if (limits.enabled || limits.mode !== 'vendor') return;
    this.#problems.info(
      file ?? 'environment',
      'no limit is set, so nothing bounds what a reconnecting fleet takes: HEADGATE_LIMITS=auto (limits: auto in our own file) protects, from the memory limit',
    );
  }
}

/**
 * Reads a configuration from a file, environment variables, or both. Never throws for bad input: everything that is
 * wrong is reported, each with its line.
 *
 * @example
 * const { config } = await loadConfig({ env: { FILE_DATA_SOURCE: 'flags.tar.gz', PORT: '9000' }, fromEnv: true });
 * console.log(config?.server.port); // 9000
 *
 * const text = '[Main]\nprot = 9000';
 * const { problems } = await loadConfig({ file: 'relay.conf', readFile: async () => text, fromEnv: false });
 * console.log(problems[0]?.where); // relay.conf:2
 */
export async function loadConfig(options: LoadOptions): Promise<Loaded> {
  return await new Loader(options).load();
}
