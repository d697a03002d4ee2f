import { type Config, describeConfig, explainSizing, type Known, parseBytes, parseLink } from '../config/index.ts';
import { sizeOfFiles } from './data-size.ts';
import { type ConfigOptions, readConfig } from './serve.ts';

/** What `--explain` is told. */
export interface ExplainOptions {
  readonly explain?: boolean;
  readonly clients?: string;
  readonly data?: string;
  readonly link?: string;
}

/** More than any fleet that one process is asked to serve. */
const CLIENTS_MAX = 10_000_000;

interface Asked {
  readonly clients: number | undefined;
  readonly dataBytes: number | undefined;
  readonly linkBytesPerSecond: number | undefined;
}

/** Reads what was asked for, or says in one sentence what is wrong with it. */
function askedOf({ clients, data, link }: ExplainOptions): Asked | string {
  const count = clients === undefined ? undefined : Number(clients);
  if (count !== undefined && !(Number.isInteger(count) && count > 0 && count <= CLIENTS_MAX)) {
    return `--clients must be a whole number from 1 to ${CLIENTS_MAX}, got ${clients}`;
  }
  const bytes = data === undefined ? undefined : parseBytes(data);
  if (bytes !== undefined && !(bytes.ok && bytes.value > 0)) {
    return `--data must be ${bytes.ok ? 'more than 0' : bytes.expected}, got ${data}`;
  }
  const speed = link === undefined ? undefined : parseLink(link);
  if (speed?.ok === false) return `--link must be ${speed.expected}, got ${link}`;
  return { clients: count, dataBytes: bytes?.value, linkBytesPerSecond: speed?.value };
}

async function knownOf(config: Config, asked: Asked): Promise<{ known: Known; problems: readonly string[] }> {
  const { clients, dataBytes, linkBytesPerSecond } = asked;
  const herd = clients === undefined ? {} : { herd: { clients, linkBytesPerSecond } };
  if (dataBytes !== undefined) {
    const data = { environments: 0, decisions: 0, bytes: dataBytes, largestBytes: dataBytes, from: 'as --data says' };
    return { known: { data, ...herd }, problems: [] };
  }
  const { files, problems, ...size } = await sizeOfFiles(config);
  const from = `from the size of ${files} file${files === 1 ? '' : 's'}`;
  return { known: { ...(size.bytes > 0 ? { data: { ...size, from } } : {}), ...herd }, problems };
}

/** `headgate check-config`: prints what would happen and every problem with its line. Answers the exit code. */
export async function checkConfig(options: ConfigOptions & ExplainOptions): Promise<number> {
  const asked = askedOf(options);
  if (typeof asked === 'string') {
    process.stderr.write(`Cannot explain: ${asked}\n`);
    return 2;
  }
  const { config, problems } = await readConfig(options);
  for (const { severity, where, message } of problems) process.stdout.write(`${severity}: ${where}: ${message}\n`);
  if (config === undefined) return 1;
  process.stdout.write(`${describeConfig(config)}\n`);
  const { explain, clients, data, link } = options;
  if (explain !== true && clients === undefined && data === undefined && link === undefined) return 0;
  const { known, problems: unread } = await knownOf(config, asked);
  const warnings = unread.map((problem) => `warning: ${problem}; it counts for nothing here`);
  process.stdout.write(`${[...warnings, ...explainSizing(config, known)].join('\n')}\n`);
  return 0;
}
