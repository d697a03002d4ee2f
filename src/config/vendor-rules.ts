import type { Problems } from './problems.ts';
import { listOf, type SettingGroup, textOf, type VendorSettings } from './settings.ts';
import { show } from './scalars.ts';
import { parseInteger } from './values.ts';
import { redisAt } from './vendor-service.ts';

type Check = (settings: VendorSettings, problems: Problems) => void;

/** Settings that mean something only beside another one, which is missing. */
function checkOrphans(
  settings: VendorSettings,
  problems: Problems,
  keys: readonly string[],
  main: readonly [string, string, string],
): void {
  const [section, key, variable] = main;
  if (settings.text(section, key) !== undefined) return;
  for (const each of keys) {
    const orphan = settings.get(section, each);
    const empty = orphan === undefined || orphan.value === '' || listOf(orphan).length === 0;
    if (orphan === undefined || (empty && typeof orphan.value !== 'number')) continue;
    problems.error(
      orphan.where,
      `${orphan.called} needs ${key} of [${section}] (${variable}) as well: set it, or remove ${orphan.called}`,
    );
  }
}

const ENV_OPTIONS = ['envDatastorePrefix', 'envDatastoreTableName', 'envAllowedOrigin', 'envAllowedHeader'];

const checkModes: Check = (settings, problems) => {
  checkOrphans(settings, problems, ENV_OPTIONS, ['AutoConfig', 'key', 'AUTO_CONFIG_KEY']);
  checkOrphans(
    settings,
    problems,
    [...ENV_OPTIONS, 'fileDataSourceMonitoringInterval'],
    ['OfflineMode', 'fileDataSource', 'FILE_DATA_SOURCE'],
  );
  const offline = settings.text('OfflineMode', 'fileDataSource') !== undefined;
  for (const [name, group] of settings.environments) {
    const where = settings.namedAt.get(group) ?? name;
    if (offline)
      problems.error(
        where,
        `environment "${name}" cannot be used in offline mode: the archive names its environments; remove one of the two`,
      );
    if (textOf(group.get('sdkKey')) === undefined) {
      problems.error(where, `environment "${name}" needs an sdkKey (LD_ENV_${name}), got nothing`);
    }
  }
};

const checkFilters: Check = (settings, problems) => {
  if (settings.filters.size === 0) return;
  const first = [...settings.filters.values()][0];
  if (settings.text('AutoConfig', 'key') !== undefined) {
    const where = first === undefined ? 'Filters' : (settings.namedAt.get(first) ?? 'Filters');
    problems.error(
      where,
      'filters cannot be used with automatic configuration, which brings its own: remove one of the two',
    );
    return;
  }
  for (const [name, group] of settings.environments) {
    if (textOf(group.get('projKey')) !== undefined) continue;
    problems.error(
      settings.namedAt.get(group) ?? name,
      `environment "${name}" needs a projKey (LD_PROJ_KEY_${name}), because there are filters`,
    );
  }
  for (const [project, group] of settings.filters) checkFilter(project, group, settings, problems);
};

function checkFilter(project: string, group: SettingGroup, settings: VendorSettings, problems: Problems): void {
  const where = settings.namedAt.get(group) ?? project;
  const known = [...settings.environments.values()].some(
    (environment) => textOf(environment.get('projKey')) === project,
  );
  const keys = listOf(group.get('keys'));
  if (!known) problems.error(where, `there are filters for project "${project}", but no environment has this projKey`);
  else if (keys.length === 0)
    problems.error(where, `filters of project "${project}": expected at least one key, got nothing`);
  else if (keys.includes(''))
    problems.error(where, `filters of project "${project}": expected keys between the commas, got nothing`);
}

/** Host and port of `tcp://host:port`, which container links set, or of a plain port. */
const checkRedis: Check = (settings, problems) => {
  const port = settings.get('Redis', 'port');
  const url = settings.get('Redis', 'url');
  const text = settings.text('Redis', 'port');
  if (port !== undefined && text !== undefined) {
    const number = parseInteger(text.replace(/^tcp:\/\/[^:/]*:/, ''));
    if (!number.ok || number.value < 1 || number.value > 65_535) {
      problems.error(port.where, `${port.called}: expected a port or tcp://host:port, got ${show(text)}`);
    }
  }
  const other = settings.get('Redis', 'host') ?? port;
  if (url !== undefined && other !== undefined && textOf(other) !== undefined) {
    problems.error(url.where, `give Redis either ${url.called} or host and port, not both: remove ${other.called}`);
  }
  const pair = [settings.get('Redis', 'clientCertificateFile'), settings.get('Redis', 'clientKeyFile')];
  const given = pair.filter((setting) => textOf(setting) !== undefined);
  if (given.length === 1 && given[0] !== undefined) {
    problems.error(
      given[0].where,
      `${given[0].called} needs both the certificate and its key: set the other one, or remove it`,
    );
  }
};

/** The databases that are on, and where. */
function databasesOf(settings: VendorSettings): Map<string, string> {
  const databases = new Map<string, string>();
  const redis = redisAt(settings);
  if (redis !== undefined) databases.set('Redis', redis);
  if (settings.flag('Consul', 'USE_CONSUL') === true || settings.text('Consul', 'host') !== undefined) {
    databases.set(
      'Consul',
      settings.where('Consul', settings.get('Consul', 'host') === undefined ? 'USE_CONSUL' : 'host'),
    );
  }
  if (settings.flag('DynamoDB', 'enabled') === true) databases.set('DynamoDB', settings.where('DynamoDB', 'enabled'));
  return databases;
}

const checkDatabases: Check = (settings, problems) => {
  const databases = databasesOf(settings);
  const [, second] = databases.keys();
  if (second === undefined) return;
  problems.error(
    databases.get(second) ?? second,
    `only one database can be used, got ${[...databases.keys()].join(' and ')}: remove all but one`,
  );
};

const checkSizes: Check = (settings, problems) => {
  for (const [section, key] of [
    ['Events', 'maxInboundPayloadSize'],
    ['Main', 'maxClientRequestBodySize'],
  ] as const) {
    const setting = settings.get(section, key);
    if (setting?.value === 0)
      problems.error(setting.where, `${setting.called}: expected more than 0 bytes, got 0; remove it for the default`);
  }
  const port = settings.get('Main', 'port');
  if (typeof port?.value === 'number' && port.value > 65_535) {
    problems.error(port.where, `${port.called}: expected a port between 1 and 65535, got ${port.value}`);
  }
};

const CHECKS: readonly Check[] = [checkModes, checkFilters, checkRedis, checkDatabases, checkSizes];

/** Reports settings that contradict each other, as the vendor refuses them, each with what to do. */
export function checkVendorSettings(settings: VendorSettings, problems: Problems): void {
  for (const check of CHECKS) check(settings, problems);
}

/** Says of each setting that has no effect why that is, and refuses those without which it would be another relay. */
export function tellUnused(settings: VendorSettings, problems: Problems): void {
  const refused = new Set<string>();
  for (const { name, called, value, where } of settings.all()) {
    const asks = value !== name.idle && value !== '' && !(Array.isArray(value) && value.length === 0);
    if (!asks) continue;
    if (name.instead !== undefined)
      problems.warn(where, `${called} is recognised but not supported yet: ${name.instead}`);
    if (name.moot !== undefined) problems.info(where, `${called} has no effect: ${name.moot}`);
    // one sentence for all settings that ask for the same
    if (name.refused === undefined || refused.has(name.refused)) continue;
    refused.add(name.refused);
    problems.error(where, name.refused);
  }
}
