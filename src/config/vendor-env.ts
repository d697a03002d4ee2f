import { DECISION_VARIABLES, isDecisionVariable } from './decisions-env.ts';
import { OBSOLETE_VARIABLES, SECTION_SWITCHES, VENDOR_NAMES, type VendorName } from './names.ts';
import type { Problems } from './problems.ts';
import { SERVICE_VARIABLES } from './service-env.ts';
import { readSetting, type VendorSettings } from './settings.ts';
import { closest, didYouMean } from './suggest.ts';
import { TELEMETRY_VARIABLES } from './telemetry.ts';
import type { Variables } from './types.ts';
import { parseBoolean } from './values.ts';

/** Variables of our own. */
const OWN_VARIABLES: readonly string[] = [
  'HEADGATE_LIMITS',
  'HEADGATE_LINK',
  'HEADGATE_LOW_WATER',
  'HEADGATE_V8_HEAP',
  ...SERVICE_VARIABLES,
  ...TELEMETRY_VARIABLES,
];

/** Known to the vendor, without any effect on what is served. */
const HARMLESS: ReadonlySet<string> = new Set(['LD_TRACE_LOG_BIG_SEGMENTS']);

/** Variables whose name goes on: the environment's name, the project's key, the tag. */
const FAMILIES = VENDOR_NAMES.filter((name) => name.env.endsWith('_'));
const PLAIN = VENDOR_NAMES.filter((name) => !name.env.endsWith('_'));
/** Prefixes that are ours and the vendor's alone, so that a slip of the finger can be told from another program's. */
const WATCHED_PREFIXES = ['LD_', 'INIT_'] as const;

const FAMILY_EXAMPLES: Readonly<Record<string, string>> = {
  Environment: 'production',
  Filters: 'my-project',
  Datadog: 'region',
};

class EnvironmentReader {
  readonly #variables: ReadonlyMap<string, string>;
  readonly #settings: VendorSettings;
  readonly #problems: Problems;

  constructor(variables: Variables, settings: VendorSettings, problems: Problems) {
    const set = Object.entries(variables).filter((entry): entry is [string, string] => entry[1] !== undefined);
    this.#variables = new Map(set);
    this.#settings = settings;
    this.#problems = problems;
  }

  read(): void {
    for (const name of PLAIN) {
      if (this.#counts(name) && !this.#isShared(name)) this.#take(name, name.env);
    }
    this.#takeShared();
    this.#takeEnvironments();
    for (const [project, variable] of this.#family('LD_FILTER_KEYS_'))
      this.#takeNamed('Filters', project, variable, 'LD_FILTER_KEYS_');
    if (this.#switchedOn('Datadog')) this.#takeTags();
    this.#rejectObsolete();
    this.#noticeSlips();
  }

  #take(name: VendorName, variable: string, group = this.#settings.group(name.section)): void {
    const text = this.#variables.get(variable);
    if (text === undefined) return;
    readSetting(group, name, { text, called: variable, where: variable, dialect: 'env' }, this.#problems);
  }

  /** Whether variables of this section are for us: its switch is on, or the file has the section. */
  #switchedOn(section: string): boolean {
    const variable = SECTION_SWITCHES.get(section);
    if (variable === undefined || this.#settings.inFile.has(section)) return true;
    const parsed = parseBoolean(this.#variables.get(variable) ?? '', 'env');
    return parsed.ok && parsed.value;
  }

  #counts(name: VendorName): boolean {
    return name.env === SECTION_SWITCHES.get(name.section) || this.#switchedOn(name.section);
  }

  /** AutoConfig and OfflineMode have four variables in common, since only one of the two can be on. */
  #isShared(name: VendorName): boolean {
    return name.env.startsWith('ENV_');
  }

  #takeShared(): void {
    const offline =
      this.#settings.text('AutoConfig', 'key') === undefined &&
      this.#settings.text('OfflineMode', 'fileDataSource') !== undefined;
    for (const name of PLAIN) {
      if (this.#isShared(name) && name.section === (offline ? 'OfflineMode' : 'AutoConfig')) this.#take(name, name.env);
    }
  }

  /** The variables of a family with what follows its prefix; one without a name is an error. */
  *#family(prefix: string): Generator<readonly [suffix: string, variable: string]> {
    for (const variable of this.#variables.keys()) {
      if (!variable.startsWith(prefix)) continue;
      if (variable !== prefix) yield [variable.slice(prefix.length), variable];
      else {
        const section = FAMILIES.find((name) => name.env === prefix)?.section ?? '';
        this.#problems.error(
          variable,
          `expected a name after ${prefix}, as in ${prefix}${FAMILY_EXAMPLES[section] ?? 'name'}, got nothing`,
        );
      }
    }
  }

  #takeNamed(section: string, suffix: string, variable: string, prefix: string): void {
    const name = FAMILIES.find((family) => family.env === prefix);
    if (name !== undefined) this.#take(name, variable, this.#settings.group(section, suffix, variable));
  }

  #takeEnvironments(): void {
    for (const [environment, variable] of this.#family('LD_ENV_'))
      this.#takeNamed('Environment', environment, variable, 'LD_ENV_');
    for (const family of FAMILIES) {
      if (family.section !== 'Environment' || family.env === 'LD_ENV_') continue;
      for (const [environment, variable] of this.#family(family.env)) {
        if (this.#variables.has(`LD_ENV_${environment}`))
          this.#takeNamed('Environment', environment, variable, family.env);
        else if (!this.#isObsolete(variable)) {
          this.#problems.warn(
            variable,
            `${variable} is ignored: there is no LD_ENV_${environment} to give the environment its key`,
          );
        }
      }
    }
  }

  #takeTags(): void {
    const name = FAMILIES.find((family) => family.env === 'DATADOG_TAG_');
    if (name === undefined) return;
    for (const [tag, variable] of this.#family(name.env)) {
      const text = `${tag}:${this.#variables.get(variable) ?? ''}`;
      readSetting(
        this.#settings.group('Datadog'),
        name,
        { text, called: variable, where: variable, dialect: 'env' },
        this.#problems,
      );
    }
  }

  #isObsolete(variable: string): boolean {
    return (
      variable.startsWith('LD_TTL_MINUTES_') &&
      this.#variables.has(`LD_ENV_${variable.slice('LD_TTL_MINUTES_'.length)}`)
    );
  }

  /** Obsolete variables that are set are errors: ignored, they would leave out what somebody thinks is configured. */
  #rejectObsolete(): void {
    const reject = (variable: string, replacement: string | undefined): void =>
      this.#problems.error(
        variable,
        `no longer supported: ${replacement === undefined ? 'remove it' : `use ${replacement}`}`,
      );
    for (const [variable, text] of this.#variables) {
      if (text === '') continue;
      if (this.#isObsolete(variable)) reject(variable, variable.replace('LD_TTL_MINUTES_', 'LD_TTL_'));
      if (!OBSOLETE_VARIABLES.has(variable)) continue;
      if (variable !== 'REDIS_TTL' || this.#switchedOn('Redis')) reject(variable, OBSOLETE_VARIABLES.get(variable));
    }
  }

  /** The environment is full of other programs' names, so unknown ones pass; but those that look like ours are named. */
  #noticeSlips(): void {
    for (const variable of this.#variables.keys()) {
      const meant = HARMLESS.has(variable) ? undefined : meantBy(variable);
      if (meant !== undefined)
        this.#problems.warn(variable, `${variable} is ignored: no variable has this name (did you mean "${meant}"?)`);
    }
  }
}

/** The variable that was probably meant, for a name with a prefix that nobody else uses. */
function meantBy(variable: string): string | undefined {
  if (!WATCHED_PREFIXES.some((prefix) => variable.startsWith(prefix))) return undefined;
  if (PLAIN.some((name) => name.env === variable) || FAMILIES.some((name) => variable.startsWith(name.env)))
    return undefined;
  const plain = closest(
    variable,
    PLAIN.map((name) => name.env).filter((env) => env.startsWith('INIT_')),
  );
  if (plain !== undefined) return plain;
  for (let end = variable.lastIndexOf('_'); end > 'LD_'.length; end = variable.lastIndexOf('_', end - 1)) {
    const family = closest(
      variable.slice(0, end),
      FAMILIES.map((name) => name.env),
    );
    if (family !== undefined) return `${family}${variable.slice(end + 1)}`;
  }
  return undefined;
}

/** Reads the vendor's environment variables into `settings`, over what the file says. */
export function readVendorVariables(variables: Variables, settings: VendorSettings, problems: Problems): void {
  new EnvironmentReader(variables, settings, problems).read();
}

/** Names our own prefix where nothing of ours has the name, since it is nobody else's, or where it does not count. */
export function noticeOwnSlips(variables: Variables, fromEnv: boolean, problems: Problems): void {
  for (const variable of Object.keys(variables)) {
    if (!variable.startsWith('HEADGATE_') || OWN_VARIABLES.includes(variable)) continue;
    if (!isDecisionVariable(variable)) {
      const known = [...OWN_VARIABLES, ...DECISION_VARIABLES];
      problems.warn(variable, `${variable} is ignored: no variable has this name${didYouMean(variable, known)}`);
    } else if (!fromEnv) problems.warn(variable, `${variable} is ignored: it counts only with --from-env`);
  }
}
