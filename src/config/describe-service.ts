import { hasUpstream } from './service-draft.ts';
import type { ArchiveSource, AutoConfigConfig, Config, EnvironmentConfig, FileSource, RedisConfig } from './types.ts';
import { formatBytes, formatDuration, maskKey, withoutUser } from './values.ts';

function keys(
  credentials: Pick<EnvironmentConfig, 'mobileKey' | 'envId'> & { readonly sdkKey: string | undefined },
): string {
  const parts = [
    credentials.sdkKey === undefined ? undefined : `server key ${maskKey(credentials.sdkKey)}`,
    credentials.mobileKey === undefined ? undefined : `mobile key ${maskKey(credentials.mobileKey)}`,
    credentials.envId === undefined ? undefined : `client-side ID ${maskKey(credentials.envId)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

function manners(source: Pick<EnvironmentConfig, 'ttlMs' | 'secureMode'>): string {
  const ttl = source.ttlMs === 0 ? '' : `, polls cached for ${formatDuration(source.ttlMs)}`;
  return `${ttl}${source.secureMode ? ', secure mode' : ''}`;
}

function browsers(source: Pick<EnvironmentConfig, 'allowedOrigins' | 'allowedHeaders'>): string {
  const { allowedOrigins, allowedHeaders } = source;
  const origins = allowedOrigins.length === 0 ? '' : `, browsers of ${allowedOrigins.join(' ')} only`;
  return `${origins}${allowedHeaders.length === 0 ? '' : `, which may send ${allowedHeaders.join(' ')}`}`;
}

interface Placed {
  readonly prefix?: string | undefined;
  readonly tableName?: string | undefined;
  readonly filterKeys?: readonly string[];
}

/** Where in the database an environment is kept; empty when there is no database. */
function keptUnder({ prefix, tableName, filterKeys = [] }: Placed, { redis, dynamoDb }: Config): string {
  const under = prefix ?? redis?.prefix ?? dynamoDb?.prefix;
  const filtered = filterKeys.map((key) => `"${under === undefined ? key : `${under}.${key}`}"`).join(' ');
  const apart = filtered === '' ? '' : `, by filter under ${filtered}`;
  const whole = under === undefined ? '' : ` under "${under}"`;
  if (redis !== undefined) return `, in Redis${whole}${apart}`;
  if (dynamoDb === undefined) return '';
  return `, in the DynamoDB table "${tableName ?? dynamoDb.tableName ?? ''}"${whole}${apart}`;
}

function archiveLine(source: ArchiveSource, config: Config): string {
  return `  archive ${source.path}, looked at every ${formatDuration(source.intervalMs)}, environments and keys as it says${keptUnder(source, config)}${browsers(source)}`;
}

function filesLine(source: FileSource, config: Config): string {
  return `  environment "${source.name}" from ${source.paths.join(' ')}, looked at every ${formatDuration(source.intervalMs)}, ${keys(source)}${manners(source)}${keptUnder(source, config)}${browsers(source)}`;
}

function environmentLine(environment: EnvironmentConfig, config: Config): string {
  const { name, filterKeys } = environment;
  const filters = filterKeys.length === 0 ? '' : `, filters ${filterKeys.join(' ')}`;
  return `  environment "${name}" from the service, ${keys(environment)}${filters}${manners(environment)}${keptUnder(environment, config)}${browsers(environment)}`;
}

function cacheLine({ cache }: AutoConfigConfig, { store }: Config): string {
  if (cache === undefined) return '  that list is kept nowhere, so that there is no start without the service';
  const where = store.type === 'redis' ? 'Redis' : store.path;
  return `  that list is kept encrypted in ${where} as "${cache.name}", for a start without the service`;
}

function upstreamLines(config: Config): string[] {
  if (!hasUpstream(config)) return [];
  const { upstream, flags, autoConfig, exit } = config;
  const { streamUri, baseUri, clientSideBaseUri } = upstream;
  const protocol = {
    auto: 'FDv2 where it has it, else FDv1',
    fdv1: 'FDv1 only',
    fdv2: 'FDv2 only',
  }[flags.upstreamProtocol];
  const lost = flags.disconnectedStatusMs;
  const first = exit.ignoreConnectionErrors ? ', errors at start are ignored' : '';
  return [
    `  service: flags from ${withoutUser(streamUri)} (${protocol}), polls from ${withoutUser(baseUri)}, goals from ${withoutUser(clientSideBaseUri)}`,
    ...(autoConfig === undefined
      ? []
      : [
          `  environments as the service lists them for the key ${maskKey(autoConfig.key)}${keptUnder(autoConfig, config)}${browsers(autoConfig)}`,
          cacheLine(autoConfig, config),
        ]),
    `  ready when every environment has data, or after ${formatDuration(flags.initTimeoutMs)} when some have${first}; while one has none, its polls are answered 503 and its streams wait`,
    `  /status says disconnected when the service is lost for ${formatDuration(lost)}`,
    `  expired keys are looked for every ${formatDuration(flags.credentialCleanupMs)}`,
  ];
}

function evaluationLine({ flags }: Config): string {
  const { threads, cacheBytesMax } = flags.evaluation;
  const on = threads === 'auto' ? 'a thread for each core but one' : `${threads} thread${threads === 1 ? '' : 's'}`;
  const results = cacheBytesMax === 0 ? 'no results kept' : `${formatBytes(cacheBytesMax)} of results kept`;
  const pings =
    flags.pingJitterMs === 0 ? 'pings at once' : `pings held back by up to ${formatDuration(flags.pingJitterMs)}`;
  return `  browsers and phones are evaluated for on ${on}, ${results}, ${pings}`;
}

/** The flags part of the report. Empty when there are decisions and no flags. */
export function describeFlags(config: Config): string[] {
  const { flags: front, environments, decisions } = config;
  const served = front.sources.length > 0 || hasUpstream(config);
  // without a source there is no front, unless nothing else is served either
  if (decisions.enabled && !served) return [];
  const lines = ['Flags:'];
  for (const source of front.sources)
    lines.push(source.type === 'archive' ? archiveLine(source, config) : filesLine(source, config));
  for (const environment of environments) lines.push(environmentLine(environment, config));
  lines.push(...upstreamLines(config));
  if (!served) lines.push('  no source');
  const closed =
    front.connectionMsMax === undefined
      ? 'streams stay open'
      : `streams are closed after ${formatDuration(front.connectionMsMax)}`;
  lines.push(
    `  heartbeat every ${formatDuration(front.heartbeatMs)}, ${closed}, compression ${front.compression}, catch-up ${front.catchUp}`,
    `  change log of ${front.logBatchesMax} batches or ${formatBytes(front.logBytesMax)} per environment`,
    evaluationLine(config),
  );
  return [...lines, ...eventLines(config), ...outboundLines(config), ...bigSegmentLines(config)];
}

function eventLines({ events, server }: Config): string[] {
  if (!events.send) return [];
  const body = formatBytes(events.inboundPayloadBytesMax ?? server.bodyBytesMax);
  const inline = events.inlineUsers ? ', whole contexts in each' : '';
  return [
    `Events: sent to ${withoutUser(events.uri)} every ${formatDuration(events.flushIntervalMs)}${inline}; at most ${events.capacity} held per environment and ${formatBytes(events.heldBytesMax)} in all, requests up to ${body}`,
  ];
}

function outboundLines(config: Config): string[] {
  const { proxy, caPaths } = config.outbound;
  if (!hasUpstream(config) && !config.events.send) return [];
  const trust = caPaths.length === 0 ? '' : `trusting ${caPaths.join(' ')} as well`;
  if (proxy === undefined) return trust === '' ? [] : [`Outbound: directly, ${trust}`];
  const who = proxy.user === undefined ? '' : ` as "${proxy.user}"`;
  return [`Outbound: through the proxy ${withoutUser(proxy.url)}${who}${trust === '' ? '' : `, ${trust}`}`];
}

function bigSegmentLines({ redis, dynamoDb, flags }: Config): string[] {
  if (redis === undefined && dynamoDb === undefined) return [];
  const { staleAsDegraded, staleThresholdMs } = flags.bigSegments;
  return [
    `Big segments: looked up in ${redis === undefined ? 'DynamoDB' : 'Redis'}, where something else must keep them up to date; stale after ${formatDuration(staleThresholdMs)}, ${staleAsDegraded ? 'and then /status says degraded' : 'which /status shows'}`,
  ];
}

function redisText({ url, username, tls, connectTimeoutMs, readTimeoutMs }: RedisConfig): string {
  const user = username === undefined ? '' : ` as "${username}"`;
  const trust = tls?.caPath === undefined ? '' : `, trusting ${tls.caPath}`;
  const own = tls?.certPath === undefined ? '' : `, with the certificate ${tls.certPath}`;
  const any = tls?.verify === false ? ', any certificate is accepted' : '';
  const connect = connectTimeoutMs === undefined ? '' : `, ${formatDuration(connectTimeoutMs)} to connect`;
  const read = readTimeoutMs === undefined ? '' : `, ${formatDuration(readTimeoutMs)} to answer`;
  return `Redis at ${url}${user}${trust}${own}${any}${connect}${read}`;
}

/** Where decisions and flags are kept, and what of it replicas share. */
export function describeStore(config: Config): string[] {
  const { store, redis, dynamoDb, decisions, flags } = config;
  const upstream = hasUpstream(config);
  const served = flags.sources.length > 0 || upstream;
  const lines: string[] = [];
  if (redis !== undefined && served) {
    lines.push(
      `Database: ${redisText(redis)}, for flags in the vendor's layout; replicas share them, and the order of changes`,
    );
  }
  if (dynamoDb !== undefined && served) {
    const at = dynamoDb.url === undefined ? '' : ` at ${withoutUser(dynamoDb.url)}`;
    lines.push(
      `Database: DynamoDB${at}, for flags in the vendor's layout; replicas share them, but not the order of changes`,
    );
  }
  const flagsToo = served && redis === undefined && dynamoDb === undefined;
  const what = [
    decisions.enabled ? 'decisions, cursors and good keys' : undefined,
    flagsToo ? 'flags and the log of their changes' : undefined,
    config.autoConfig?.cache !== undefined && store.type === 'lmdb' ? 'the list of environments' : undefined,
  ].filter((each) => each !== undefined);
  if (store.type === 'none') {
    if (decisions.enabled)
      lines.push('Store: none, so a restart begins with a pull, and every bouncer with everything');
    else if (flagsToo && upstream) lines.push('Store: none, so a start without the service has nothing to serve');
  } else if (store.type === 'lmdb' && what.length > 0) {
    lines.push(`Store: ${store.path}, for ${what.join(', ')}; not shared between replicas`);
  }
  return lines;
}
