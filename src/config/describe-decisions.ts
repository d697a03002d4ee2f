import { hasUpstream } from './service-draft.ts';
import type { Config, DecisionSource, LapiSourceConfig } from './types.ts';
import { formatDuration } from './values.ts';

/** Names shown of a list; more would hide the rest of the report. */
const NAMES_SHOWN_MAX = 10;

function namesOf(names: readonly string[]): string {
  const more = names.length - NAMES_SHOWN_MAX;
  return `${names.slice(0, NAMES_SHOWN_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function tlsText({ tls }: LapiSourceConfig): string {
  if (tls === undefined) return '';
  const trust = tls.caPath === undefined ? '' : `, trusts ${tls.caPath}`;
  const name = tls.serverName === undefined ? '' : `, certificate of ${tls.serverName}`;
  return tls.verify ? `${trust}${name}` : ', any certificate is accepted';
}

function sourceLine(source: DecisionSource): string {
  if (source.type === 'file') {
    const { name, paths, intervalMs, durationMs, origin } = source;
    return `  files "${name}" ${paths.join(' ')}, looked at every ${formatDuration(intervalMs)}, rows last ${formatDuration(durationMs)} unless they say otherwise, origin ${origin}`;
  }
  const { name, url, intervalMs, resyncMs, scopes, tls } = source;
  const credential = tls?.certPath === undefined ? 'with a key' : `with the certificate ${tls.certPath}`;
  const extra = scopes.length === 0 ? '' : ` and ${scopes.join(' ')}`;
  return `  local API "${name}" at ${url} ${credential}${tlsText(source)}, pulled every ${formatDuration(intervalMs)}, everything again every ${formatDuration(resyncMs)}, scopes ip range country as${extra}`;
}

function authLine({ decisions }: Config): string {
  const { delegate, keys, keyFilePath, bouncersAllowedOu, trustedProxies } = decisions;
  const known = [
    keys.length === 0 ? undefined : `the keys of ${namesOf(keys.map(({ name }) => name))}`,
    keyFilePath === undefined ? undefined : `the keys in ${keyFilePath}`,
    bouncersAllowedOu.length === 0 ? undefined : `client certificates of ${namesOf(bouncersAllowedOu)}`,
    delegate ? 'keys that the upstream knows' : undefined,
  ];
  const proxies =
    trustedProxies.length === 0 ? 'addresses as they connect' : `addresses as forwarded by ${namesOf(trustedProxies)}`;
  return `  who may ask: ${known.filter((text) => text !== undefined).join(', ')}; ${proxies}`;
}

function passLine({ decisions }: Config): string {
  const upstream = decisions.sources.find(({ type }) => type === 'lapi');
  return decisions.passthrough && upstream !== undefined
    ? `  everything else under /v1/ goes on to "${upstream.name}"`
    : '  everything else under /v1/ is answered 404: pass-through is off';
}

function budgetLine(config: Config): string {
  const { decisions, limits, flags } = config;
  const shared = flags.sources.length > 0 || hasUpstream(config) ? ', which flags share' : '';
  const free = 'deltas that are empty or small and look-ups by address are not limited';
  if (!limits.enabled) return `  budget: none, every pull is served at once; ${free}`;
  const wait =
    decisions.waitMsMax === Number.POSITIVE_INFINITY ? 'as long as it likes' : formatDuration(decisions.waitMsMax);
  return `  budget: a pull or a large delta takes one of ${limits.slots} slots${shared}, and waits ${wait} for it; ${free}`;
}

/** The decisions part of the report: sources, who may ask, the budget. Empty when there is no source. */
export function describeDecisions(config: Config): string[] {
  const { decisions } = config;
  if (!decisions.enabled) return [];
  const { granularityMs, startWaitMs, cursorsPerKeyMax, pollMs } = decisions;
  return [
    'Decisions:',
    ...decisions.sources.map((source) => sourceLine(source)),
    authLine(config),
    passLine(config),
    budgetLine(config),
    `  a ban may end up to ${formatDuration(granularityMs)} late, never early; a longer end is told ${formatDuration(3 * pollMs)} before the one that bouncers know`,
    `  answers wait up to ${formatDuration(startWaitMs)} for the first pull after a start; ${cursorsPerKeyMax} cursors per key`,
  ];
}
