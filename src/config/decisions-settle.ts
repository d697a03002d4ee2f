import { messageOf } from '../kernel/index.ts';
import type { DecisionsDraft } from './decisions-draft.ts';
import { parseKeyFile } from './keys.ts';
import type { Problems } from './problems.ts';
import { defaultStore } from './schema-store.ts';
import { hasUpstream } from './service-draft.ts';
import type { Config, Mutable } from './types.ts';

/** The port of the vendor's local API, which bouncers are set to. */
const PORT_DECISIONS = 8080;

type ReadText = (path: string) => Promise<string>;

async function readSecret(path: string, read: ReadText): Promise<{ key: string } | { problem: string }> {
  try {
    const key = (await read(path)).trim();
    return /^\S+$/.test(key)
      ? { key }
      : { problem: `expected one key in ${path}, got ${key === '' ? 'nothing' : 'several words'}` };
  } catch (error) {
    return { problem: `Cannot read the key: ${messageOf(error)}` };
  }
}

/** Reads the keys that stand in files of their own, and looks at the file of keys that bouncers may ask with. */
export async function readKeyFiles(
  config: Mutable<Config>,
  open: DecisionsDraft,
  read: ReadText,
  problems: Problems,
): Promise<void> {
  for (const { source, path, where } of open.keyFiles) {
    const result = await readSecret(path, read);
    const target = config.decisions.sources[source];
    if ('problem' in result) problems.error(where, result.problem);
    else if (target?.type === 'lapi') target.key = result.key;
  }
  const { keyFilePath } = config.decisions;
  if (keyFilePath === undefined || open.keyFileAt === undefined) return;
  try {
    const { problems: found } = parseKeyFile(await read(keyFilePath), keyFilePath);
    for (const { where, message } of found) problems.error(where, message);
  } catch (error) {
    problems.error(open.keyFileAt, `Cannot read the keys: ${messageOf(error)}`);
  }
}

/** Names for sources that have none: `lapi`, `lapi-2`, `file`. A name that comes twice is an error. */
function settleNames(config: Mutable<Config>, open: DecisionsDraft, problems: Problems): void {
  const counts = { lapi: 0, file: 0 };
  const names = new Set<string>();
  for (const [index, source] of config.decisions.sources.entries()) {
    counts[source.type]++;
    const count = counts[source.type];
    if (source.name === '') source.name = count === 1 ? source.type : `${source.type}-${count}`;
    if (names.has(source.name)) {
      problems.error(
        open.sourcesAt[index] ?? '',
        `expected a name of its own for each source, got "${source.name}" again`,
      );
    }
    names.add(source.name);
  }
}

/** Who may ask, and whether anybody could. */
function settleAuth(config: Mutable<Config>, open: DecisionsDraft, problems: Problems): void {
  const { decisions, server } = config;
  const upstream = decisions.sources.some(({ type }) => type === 'lapi');
  decisions.delegate = open.auth === undefined ? upstream : open.auth.value === 'delegated';
  if (open.auth?.value === 'delegated' && !upstream) {
    problems.error(
      open.auth.where,
      'decisions.auth: delegated needs a source of type lapi that knows the keys, got none',
    );
  }
  if (decisions.passthrough && !upstream) {
    problems.error(
      open.passthroughAt ?? '',
      'decisions.passthrough: expected a source of type lapi to pass requests on to, got none',
    );
  }
  const verified = ['verify-if-given', 'require'].includes(server.tls?.clientVerification ?? 'none');
  if (decisions.bouncersAllowedOu.length > 0 && !verified) {
    problems.error(
      open.bouncersAllowedOuAt ?? '',
      'client certificates count only when they are verified: set server.tls.clientCa, and do not set clientVerification to none or request',
    );
  }
  const known =
    decisions.keys.length > 0 || decisions.keyFilePath !== undefined || decisions.bouncersAllowedOu.length > 0;
  if (decisions.delegate || known) return;
  problems.error(
    open.auth?.where ?? open.sourcesAt[0] ?? '',
    'nobody could ask for decisions: list decisions.keys, name a decisions.keyFile, or set decisions.auth to delegated with a source of type lapi',
  );
}

/** Whether the flags front has anything to serve. */
export function servesFlags(config: Mutable<Config> | Config): boolean {
  return config.flags.sources.length > 0 || hasUpstream(config);
}

/** Fills in what depends on the file and the environment together, and reports what does not go together. */
export function settleDecisions(config: Mutable<Config>, open: DecisionsDraft, problems: Problems): void {
  const { decisions } = config;
  decisions.enabled = decisions.sources.length > 0;
  if (!decisions.enabled) {
    if (open.named !== undefined) {
      problems.error(
        open.named,
        'decisions: expected at least one source, got none: list a local API or files under decisions.sources, or remove the section',
      );
    }
    return;
  }
  settleNames(config, open, problems);
  settleAuth(config, open, problems);
  if (open.storeAt === undefined) config.store = defaultStore();
  if (!open.portGiven && !servesFlags(config)) config.server.port = PORT_DECISIONS;
}

/** What to know about serving decisions, once there is nothing wrong. */
export function adviseDecisions(config: Mutable<Config>, problems: Problems): void {
  const { decisions, limits } = config;
  if (!decisions.enabled) return;
  const where = config.file ?? 'environment';
  if (limits.mode === 'vendor' && limits.enabled && limits.queue === 0) {
    problems.warn(
      where,
      `nobody may wait for one of the ${limits.slots} slots, and a refusal ends some bouncers for good: set maxQueued (INIT_MAX_QUEUED), or HEADGATE_LIMITS=auto`,
    );
  }
  problems.info(
    where,
    'replicas do not share their cursors: with more than one, the load balancer must send a bouncer to the same one each time',
  );
  if (decisions.sources.some(({ type }) => type === 'lapi')) {
    problems.info(
      where,
      'bouncers behind Headgate no longer pull from the upstream local API, whose bouncers_autodelete may therefore remove them: turn it off there',
    );
  }
}
