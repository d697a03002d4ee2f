import { decisionFiles, lapiSource } from './decisions-apply.ts';
import { addSource, type DecisionsDraft } from './decisions-draft.ts';
import { hashOfKey } from './keys.ts';
import type { Problems } from './problems.ts';
import { messageOf } from '../kernel/index.ts';
import type { Config, Mutable, Variables } from './types.ts';
import { parseBaseUrl, parseBoolean, parseList } from './values.ts';

/** Variables of our own that configure decisions; those of upstreams may have a number, as in HEADGATE_LAPI_URL_2. */
export const DECISION_VARIABLES: readonly string[] = [
  'HEADGATE_LAPI_URL',
  'HEADGATE_LAPI_KEY',
  'HEADGATE_LAPI_KEY_FILE',
  'HEADGATE_DECISIONS_FILE',
  'HEADGATE_PASSTHROUGH',
];

const UPSTREAM = /^(HEADGATE_LAPI_(?:URL|KEY|KEY_FILE))(?:_([2-9]|[1-9]\d{1,2}))?$/;
const KEY_PREFIX = 'BOUNCER_KEY_';
/** Where container runtimes put secrets, each in a file of its own. */
const SECRETS_FOLDER = '/run/secrets';
const SECRET = /^bouncer_key_(.+)$/i;

/** What the reader of decision variables needs besides the variables. */
export interface DecisionsEnvironment {
  readonly variables: Variables;
  readonly readFile: (path: string) => Promise<string>;
  /** The names in a folder; rejects when there is none. */
  readonly readFolder: (path: string) => Promise<readonly string[]>;
}

/** Whether a variable is one of ours for decisions. */
export function isDecisionVariable(variable: string): boolean {
  return DECISION_VARIABLES.includes(variable) || UPSTREAM.test(variable);
}

class DecisionsReader {
  readonly #environment: DecisionsEnvironment;
  readonly #config: Mutable<Config>;
  readonly #open: DecisionsDraft;
  readonly #problems: Problems;

  constructor(environment: DecisionsEnvironment, config: Mutable<Config>, open: DecisionsDraft, problems: Problems) {
    this.#environment = environment;
    this.#config = config;
    this.#open = open;
    this.#problems = problems;
  }

  async read(): Promise<void> {
    for (const number of this.#numbers()) this.#takeUpstream(number === 1 ? '' : `_${number}`);
    this.#takeFiles();
    this.#takePassthrough();
    this.#takeKeys();
    await this.#takeSecrets();
  }

  /** The text of a variable; empty counts as unset. */
  #text(variable: string): string | undefined {
    const text = this.#environment.variables[variable]?.trim();
    return text === '' ? undefined : text;
  }

  /** The numbers that upstreams have, in order; one without a number is the first. */
  #numbers(): readonly number[] {
    const found = Object.keys(this.#environment.variables).flatMap((variable) => {
      const match = UPSTREAM.exec(variable);
      return match === null || this.#text(variable) === undefined ? [] : [Number(match[2] ?? 1)];
    });
    return [...new Set(found)].toSorted((left, right) => left - right);
  }

  #takeUpstream(suffix: string): void {
    const [urlName, keyName, fileName] = ['URL', 'KEY', 'KEY_FILE'].map((name) => `HEADGATE_LAPI_${name}${suffix}`);
    if (urlName === undefined || keyName === undefined || fileName === undefined) return;
    const [url, key, path] = [this.#text(urlName), this.#text(keyName), this.#text(fileName)];
    if (url === undefined) {
      const lonely = key === undefined ? fileName : keyName;
      this.#problems.error(lonely, `expected ${urlName} beside it, the address of the local API, got nothing`);
      return;
    }
    const parsed = parseBaseUrl(url);
    if (!parsed.ok) {
      const got = url.includes('@') ? 'one with a user or password, not shown here' : JSON.stringify(url);
      this.#problems.error(urlName, `expected ${parsed.expected}, got ${got}`);
      return;
    }
    if ((key === undefined) === (path === undefined)) {
      const got = key === undefined ? 'neither' : 'both';
      this.#problems.error(urlName, `expected either ${keyName} or ${fileName} beside it, got ${got}`);
      return;
    }
    if (key !== undefined && !/^\S+$/.test(key)) {
      this.#problems.error(keyName, 'expected a key without spaces, got text that is not shown here');
      return;
    }
    if (path !== undefined) {
      this.#open.keyFiles.push({ source: this.#config.decisions.sources.length, path, where: fileName });
    }
    addSource(this.#config, this.#open, lapiSource({ type: 'lapi', url: parsed.value, key }), urlName);
  }

  #takeFiles(): void {
    const variable = 'HEADGATE_DECISIONS_FILE';
    const text = this.#text(variable);
    if (text === undefined) return;
    const paths = parseList(text);
    if (paths.includes('')) {
      this.#problems.error(variable, `expected paths between the commas, got ${JSON.stringify(text)}`);
      return;
    }
    addSource(this.#config, this.#open, decisionFiles({ type: 'file', paths }), variable);
  }

  #takePassthrough(): void {
    const variable = 'HEADGATE_PASSTHROUGH';
    const text = this.#text(variable);
    if (text === undefined) return;
    const parsed = parseBoolean(text, 'env');
    if (!parsed.ok) {
      this.#problems.error(variable, `expected ${parsed.expected}, got ${JSON.stringify(text)}`);
      return;
    }
    this.#config.decisions.passthrough = parsed.value;
    this.#open.passthroughAt = variable;
  }

  #takeKeys(): void {
    for (const variable of Object.keys(this.#environment.variables)) {
      const key = variable.startsWith(KEY_PREFIX) ? this.#text(variable) : undefined;
      if (key === undefined) continue;
      const name = variable.slice(KEY_PREFIX.length);
      if (name === '') {
        this.#problems.error(variable, `expected a name after ${KEY_PREFIX}, as in ${KEY_PREFIX}nginx, got nothing`);
      } else this.#addKey(name, key, variable);
    }
  }

  async #takeSecrets(): Promise<void> {
    const { readFile, readFolder } = this.#environment;
    let names: readonly string[];
    try {
      names = await readFolder(SECRETS_FOLDER);
    } catch {
      return; // most machines have no such folder, and then there are no secrets
    }
    for (const file of names.toSorted()) {
      const name = SECRET.exec(file)?.[1];
      if (name === undefined) continue;
      const path = `${SECRETS_FOLDER}/${file}`;
      try {
        const key = (await readFile(path)).trim();
        // the variable is looked at first, and a name keeps the key it has
        if (key !== '' && this.#open.keysAt.get(name)?.startsWith(KEY_PREFIX) !== true) this.#addKey(name, key, path);
      } catch (error) {
        this.#problems.error(path, `Cannot read the key: ${messageOf(error)}`);
      }
    }
  }

  /** Adds a key, in place of one of this name that the file has. */
  #addKey(name: string, key: string, where: string): void {
    if (!/^\S+$/.test(key)) {
      this.#problems.error(where, 'expected a key without spaces, got text that is not shown here');
      return;
    }
    const { keys } = this.#config.decisions;
    const known = { name, sha512: hashOfKey(key) };
    const index = keys.findIndex((each) => each.name === name);
    if (index === -1) keys.push(known);
    else keys[index] = known;
    this.#open.keysAt.set(name, where);
  }
}

/** Reads what containers say about decisions into `config`, over and beside what the file says. */
export async function readDecisionVariables(
  environment: DecisionsEnvironment,
  config: Mutable<Config>,
  open: DecisionsDraft,
  problems: Problems,
): Promise<void> {
  await new DecisionsReader(environment, config, open, problems).read();
}
