import type { DecisionsDraft } from './decisions-draft.ts';
import type { Problems } from './problems.ts';
import type { Config, Mutable, Variables } from './types.ts';
import { parseInteger, parseWord } from './values.ts';

/** Variables of our own about flags, for what the vendor has no name for. They count with every configuration. */
export const SERVICE_VARIABLES: readonly string[] = [
  'HEADGATE_STORE',
  'HEADGATE_UPSTREAM_PROTOCOL',
  'HEADGATE_EVALUATION_THREADS',
];

const THREADS_MAX = 64;

function textOf(variables: Variables, name: string): string | undefined {
  const text = variables[name]?.trim();
  return text === '' ? undefined : text;
}

function readStore(variables: Variables, config: Mutable<Config>, open: DecisionsDraft, problems: Problems): void {
  const text = textOf(variables, 'HEADGATE_STORE');
  if (text === undefined) return;
  if (/^rediss?:/i.test(text)) {
    problems.error(
      'HEADGATE_STORE',
      'expected the path of a folder, or none, got an address of Redis: set USE_REDIS=true and REDIS_URL, or store.type redis in our own file',
    );
    return;
  }
  const path = text.replace(/^lmdb:/, '');
  if (path === '') {
    problems.error('HEADGATE_STORE', `expected the path of a folder, or none, got ${JSON.stringify(text)}`);
    return;
  }
  open.storeAt = 'HEADGATE_STORE';
  config.store = path === 'none' ? { type: 'none', path: '' } : { type: 'lmdb', path };
}

/** Reads our own variables about flags into `config`, over what the file says. */
export function readServiceVariables(
  variables: Variables,
  config: Mutable<Config>,
  open: DecisionsDraft,
  problems: Problems,
): void {
  readStore(variables, config, open, problems);
  const protocol = textOf(variables, 'HEADGATE_UPSTREAM_PROTOCOL');
  if (protocol !== undefined) {
    const parsed = parseWord(protocol, ['auto', 'fdv1', 'fdv2']);
    if (parsed.ok) config.flags.upstreamProtocol = parsed.value;
    else problems.error('HEADGATE_UPSTREAM_PROTOCOL', `expected ${parsed.expected}, got ${JSON.stringify(protocol)}`);
  }
  const threads = textOf(variables, 'HEADGATE_EVALUATION_THREADS');
  if (threads === undefined) return;
  const parsed = parseInteger(threads);
  if (threads === 'auto') config.flags.evaluation.threads = 'auto';
  else if (parsed.ok && parsed.value >= 1 && parsed.value <= THREADS_MAX) {
    config.flags.evaluation.threads = parsed.value;
  } else {
    problems.error(
      'HEADGATE_EVALUATION_THREADS',
      `expected a whole number from 1 to ${THREADS_MAX}, or auto, got ${JSON.stringify(threads)}`,
    );
  }
}
