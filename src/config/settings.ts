import type { VendorName } from './names.ts';
import type { Problems } from './problems.ts';
import { show } from './scalars.ts';
import {
  type Parsed,
  parseBoolean,
  parseDuration,
  parseInteger,
  parseList,
  parseUrl,
  parseVendorBytes,
  parseWord,
} from './values.ts';

type SettingValue = string | number | boolean | readonly string[];

/** A setting of the vendor's relay, read. */
export interface Setting {
  readonly name: VendorName;
  /** The name it was written under: `port` or `PORT`. */
  readonly called: string;
  readonly value: SettingValue;
  readonly where: string;
}

export type SettingGroup = Map<string, Setting>;

/** Where a piece of text stands, and in which dialect it is written. */
export interface Written {
  readonly text: string;
  readonly called: string;
  readonly where: string;
  readonly dialect: 'env' | 'ini';
}

const LEVELS = ['debug', 'info', 'warn', 'error', 'none'] as const;
const TLS_VERSIONS = ['1.0', '1.1', '1.2', '1.3'] as const;

function parse(name: VendorName, written: Written): Parsed<SettingValue> {
  const { text } = written;
  switch (name.type) {
    case 'bytes':
      return parseVendorBytes(text);
    case 'boolean':
      return parseBoolean(text, written.dialect);
    case 'duration': {
      const parsed = parseDuration(text);
      // Only the time limit of a delivery has a meaning below zero: the vendor raises it to its least value.
      const negative = parsed.ok && parsed.value < 0 && name.env !== 'INIT_SEND_TIMEOUT';
      return negative ? { ok: false, expected: 'a duration of 0 or more' } : parsed;
    }
    case 'integer':
      return parseInteger(text);
    case 'positive': {
      const parsed = parseInteger(text);
      return parsed.ok && parsed.value > 0 ? parsed : { ok: false, expected: 'a whole number above 0' };
    }
    case 'level':
      return parseWord(text, LEVELS);
    case 'tls':
      return parseWord(text, TLS_VERSIONS);
    case 'url':
      return parseUrl(text);
    case 'list':
      return { ok: true, value: parseList(text) };
    case 'multi':
      return { ok: true, value: [text] };
    case 'text':
      return { ok: true, value: text };
  }
}

/** All settings under the vendor's names, from the file and from the environment laid over it. */
export class VendorSettings {
  readonly #sections: Map<string, SettingGroup> = new Map();
  readonly environments: Map<string, SettingGroup> = new Map();
  readonly filters: Map<string, SettingGroup> = new Map();
  /** Sections that the file has, so that their variables count as well. */
  readonly inFile: Set<string> = new Set();
  /** Where each environment and each filter was first named. */
  readonly namedAt: Map<SettingGroup, string> = new Map();

  /** The group of a section, or of one of its names. */
  group(section: string, name?: string, where?: string): SettingGroup {
    const groups =
      section === 'Environment' ? this.environments : section === 'Filters' ? this.filters : this.#sections;
    const key = groups === this.#sections ? section : (name ?? '');
    let group = groups.get(key);
    if (group === undefined) {
      group = new Map();
      groups.set(key, group);
      if (where !== undefined) this.namedAt.set(group, where);
    }
    return group;
  }

  /** Every setting outside environments and filters. */
  *single(): Generator<Setting> {
    for (const group of this.#sections.values()) yield* group.values();
  }

  /** Every setting. */
  *all(): Generator<Setting> {
    yield* this.single();
    for (const group of [...this.environments.values(), ...this.filters.values()]) yield* group.values();
  }

  get(section: string, key: string): Setting | undefined {
    return this.#sections.get(section)?.get(key);
  }

  where(section: string, key: string): string {
    return this.get(section, key)?.where ?? section;
  }

  number(section: string, key: string): number | undefined {
    return numberOf(this.get(section, key));
  }

  text(section: string, key: string): string | undefined {
    return textOf(this.get(section, key));
  }

  flag(section: string, key: string): boolean | undefined {
    return flagOf(this.get(section, key));
  }

  list(section: string, key: string): readonly string[] {
    return listOf(this.get(section, key));
  }
}

/** The key under which a setting is kept: its name in the file, or its variable where the file has none. */
export function keyOf(name: VendorName): string {
  return name.key ?? name.env;
}

/**
 * Reads one value into its group, or reports what was expected. Empty text leaves anything but text as it was;
 * a list grows with each repetition, and the environment's items come after the file's.
 */
export function readSetting(group: SettingGroup, name: VendorName, written: Written, problems: Problems): void {
  if (written.text === '' && name.type !== 'text' && name.type !== 'multi') return;
  const parsed = parse(name, written);
  if (!parsed.ok) {
    const got = name.secret === true ? 'a value that is not shown here' : show(written.text);
    problems.error(written.where, `${written.called}: expected ${parsed.expected}, got ${got}`);
    return;
  }
  const before = group.get(keyOf(name))?.value;
  const value = Array.isArray(before) && Array.isArray(parsed.value) ? [...before, ...parsed.value] : parsed.value;
  group.set(keyOf(name), { name, called: written.called, value, where: written.where });
}

export function numberOf(setting: Setting | undefined): number | undefined {
  return typeof setting?.value === 'number' ? setting.value : undefined;
}

/** Empty text counts as unset. */
export function textOf(setting: Setting | undefined): string | undefined {
  return typeof setting?.value === 'string' && setting.value !== '' ? setting.value : undefined;
}

export function flagOf(setting: Setting | undefined): boolean | undefined {
  return typeof setting?.value === 'boolean' ? setting.value : undefined;
}

export function listOf(setting: Setting | undefined): readonly string[] {
  return typeof setting?.value === 'object' ? setting.value : [];
}
