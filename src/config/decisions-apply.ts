import { addSource, type DecisionsDraft } from './decisions-draft.ts';
import { hashOfKey } from './keys.ts';
import type { DecisionFileSettings, DecisionsSettings, LapiSettings } from './schema-decisions.ts';
import { put } from './schema-parts.ts';
import type { Config, DecisionFileConfig, LapiSourceConfig, Mutable } from './types.ts';

/** Where a setting of the file stands. */
export type WhereOf = (path: readonly (string | number)[]) => string;

/** A local API with every default filled in; its name is settled with those of the others. */
export function lapiSource(settings: LapiSettings): Mutable<LapiSourceConfig> {
  const { tls } = settings;
  return {
    type: 'lapi',
    name: settings.name ?? '',
    url: settings.url,
    key: settings.key ?? '',
    intervalMs: settings.interval ?? 5000,
    resyncMs: settings.resync ?? Math.max(600_000, settings.interval ?? 0),
    scopes: [...(settings.scopes ?? [])],
    tls:
      tls === undefined
        ? undefined
        : {
            ...(tls.ca === undefined ? {} : { caPath: tls.ca }),
            ...(tls.cert === undefined ? {} : { certPath: tls.cert }),
            ...(tls.key === undefined ? {} : { keyPath: tls.key }),
            ...(tls.serverName === undefined ? {} : { serverName: tls.serverName }),
            verify: tls.verify ?? true,
          },
  };
}

/** Files with every default filled in, which are those of the vendor's import. */
export function decisionFiles(settings: DecisionFileSettings): Mutable<DecisionFileConfig> {
  return {
    type: 'file',
    name: settings.name ?? '',
    paths: [...settings.paths],
    intervalMs: settings.interval ?? 1000,
    durationMs: settings.duration ?? 4 * 3_600_000,
    origin: settings.origin ?? 'cscli-import',
    scenario: settings.scenario ?? 'manual',
    decisionType: settings.decisionType ?? 'ban',
  };
}

/** Lays the `decisions` section over `config`, and notes in `open` what is settled with the environment. */
export function applyDecisions(
  settings: DecisionsSettings,
  config: Mutable<Config>,
  open: DecisionsDraft,
  whereOf: WhereOf,
): void {
  const at = (...path: readonly (string | number)[]): string => whereOf(['decisions', ...path]);
  const { decisions } = config;
  if (Object.values(settings).some((value) => value !== undefined)) open.named = at();
  for (const [index, each] of (settings.sources ?? []).entries()) {
    const path = ['sources', index];
    if (each.type === 'lapi' && each.keyFile !== undefined) {
      open.keyFiles.push({ source: decisions.sources.length, path: each.keyFile, where: at(...path, 'keyFile') });
    }
    addSource(config, open, each.type === 'lapi' ? lapiSource(each) : decisionFiles(each), at(...path, 'name'));
  }
  for (const [index, { name, key, sha512 }] of (settings.keys ?? []).entries()) {
    decisions.keys.push({ name, sha512: sha512 ?? hashOfKey(key ?? '') });
    open.keysAt.set(name, at('keys', index));
  }
  put(decisions, 'keyFilePath', settings.keyFile);
  put(decisions, 'passthrough', settings.passthrough);
  put(decisions, 'granularityMs', settings.durationGranularity);
  put(decisions, 'startWaitMs', settings.startWait);
  put(decisions, 'cursorsPerKeyMax', settings.cursorsPerKey);
  put(decisions, 'pollMs', settings.pollInterval);
  put(decisions, 'trustedProxies', settings.trustedProxies && [...settings.trustedProxies]);
  put(decisions, 'bouncersAllowedOu', settings.bouncersAllowedOu && [...settings.bouncersAllowedOu]);
  if (settings.keyFile !== undefined) open.keyFileAt = at('keyFile');
  if (settings.auth !== undefined) open.auth = { value: settings.auth, where: at('auth') };
  if (settings.passthrough === true) open.passthroughAt = at('passthrough');
  if (settings.bouncersAllowedOu !== undefined) open.bouncersAllowedOuAt = at('bouncersAllowedOu');
}
