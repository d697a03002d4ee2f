import { open, writeFile } from 'node:fs/promises';
import { parseBytes, parseDuration } from '../config/index.ts';
import {
  HERD_KINDS,
  type HerdKind,
  type HerdOptions,
  type HerdPart,
  type HerdReport,
  type HerdShares,
  herdOptions,
  reportPage,
  reportText,
  runHerd,
} from '../herd/index.ts';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import { VERSION } from '../relay.ts';
import { HerdMeter } from './herd-meter.ts';

/** What `headgate herd` may be told. */
export interface HerdArguments {
  readonly kind: string;
  readonly sdk?: string;
  readonly key?: readonly string[];
  readonly bouncerKey?: readonly string[];
  readonly clients: string;
  readonly arrive?: string;
  readonly stalled?: string;
  readonly slow?: string;
  readonly leaving?: string;
  readonly deadline?: string;
  readonly duration?: string;
  readonly maxBytes?: string;
  readonly reconnect: boolean;
  readonly drop?: string;
  readonly every?: string;
  readonly flag?: string;
  readonly plain?: boolean;
  readonly insecure?: boolean;
  readonly allowRemote?: boolean;
  readonly admin?: string;
  readonly seed?: string;
  readonly json?: string;
  readonly html?: string;
  readonly quiet?: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

const USAGE_CODE = 2;
const UNWRITTEN_CODE = 3;
const INTERRUPTED_CODE = 130;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/**
 * `headgate herd`: a herd of clients at a server, and what became of them. Answers the exit code: 0 when every steady client had
 * its full copy within the deadline, 1 when not, 2 when it was told what cannot be done, 3 when a report could not be written.
 */
export async function herd(url: string, given: HerdArguments): Promise<number> {
  try {
    const options = readArguments(url, given, process.env);
    for (const path of filesOf(given)) await checkFile(path);
    // who reads the output or the progress may go away, such as head: what became of the herd is known all the same
    for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
    const report = await runUntilTold(options, given.quiet === true);
    const isWritten = await writeReports(report, given);
    if (!isWritten) return UNWRITTEN_CODE;
    return report.ok ? 0 : 1;
  } catch (error) {
    if (!(error instanceof HeadgateError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return USAGE_CODE;
  }
}

async function runUntilTold(options: HerdOptions, isQuiet: boolean): Promise<HerdReport> {
  const told = new AbortController();
  const stop = (): void => {
    // told twice: no report is wanted
    if (told.signal.aborted) process.exit(INTERRUPTED_CODE);
    told.abort();
  };
  for (const signal of SIGNALS) process.on(signal, stop);
  const meter = new HerdMeter(process.stderr);
  try {
    return await runHerd(options, {
      version: VERSION,
      signal: told.signal,
      ...(isQuiet ? {} : { onProgress: (progress) => meter.show(progress) }),
    });
  } finally {
    meter.end();
    for (const signal of SIGNALS) process.off(signal, stop);
  }
}

/** Answers whether every file could be written: one that could not does not keep the others from it. */
async function writeReports(report: HerdReport, { json, html }: HerdArguments): Promise<boolean> {
  const text = `${JSON.stringify(report, undefined, 2)}\n`;
  if (json === '-') process.stdout.write(text);
  else process.stdout.write(reportText(report));
  const isJson = json === undefined || json === '-' || (await writeReport(json, text));
  const isHtml = html === undefined || (await writeReport(html, reportPage(report)));
  return isJson && isHtml;
}

async function writeReport(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text);
    return true;
  } catch (error) {
    process.stderr.write(`Cannot write a report: ${messageOf(error)}, got ${path}\n`);
    return false;
  }
}

function filesOf({ json, html }: HerdArguments): readonly string[] {
  return [json === '-' ? undefined : json, html].filter((path) => path !== undefined);
}

/** Before the herd runs: a report that cannot be written would be lost. */
async function checkFile(path: string): Promise<void> {
  try {
    await (await open(path, 'a')).close();
  } catch (error) {
    throw new HeadgateError('HG_OPTION', `Cannot write a report: ${messageOf(error)}, got ${path}`);
  }
}

/** What was given, as a herd's options. Throws HG_OPTION with what was expected and what came. */
function readArguments(url: string, given: HerdArguments, env: Environment): HerdOptions {
  const own = keysOf(given.key, env['HEADGATE_HERD_KEY']);
  const bouncers = keysOf(given.bouncerKey, env['HEADGATE_HERD_BOUNCER_KEY']);
  const kinds = partsOf(given.kind, own.length > 0, bouncers.length > 0);
  const isBouncersAlone = kinds.every(({ kind }) => kind === 'bouncer');
  const defaults = herdOptions(url);
  return herdOptions(url, {
    parts: kinds,
    sdks: given.sdk === undefined ? [] : given.sdk.split(',').map((sdk) => sdk.trim()),
    keys: own,
    bouncerKeys: isBouncersAlone && bouncers.length === 0 ? own : bouncers,
    clients: Number(given.clients),
    arriveMs: durationOf('arrive', given.arrive) ?? defaults.arriveMs,
    shares: sharesOf(given, defaults.shares),
    deadlineMs: durationOf('deadline', given.deadline) ?? defaults.deadlineMs,
    durationMs: durationOf('duration', given.duration),
    bytesMax: given.maxBytes === undefined ? undefined : bytesOf('max-bytes', given.maxBytes),
    reconnects: given.reconnect,
    dropAtMs: durationOf('drop', given.drop),
    everyMs: durationOf('every', given.every),
    flag: given.flag,
    isPlain: given.plain === true,
    isInsecure: given.insecure === true,
    allowRemote: given.allowRemote === true,
    admin: given.admin,
    adminToken: env['HEADGATE_ADMIN_TOKEN'],
    seed: given.seed === undefined ? defaults.seed : Number(given.seed),
  });
}

/** Keys that were given, or those of a variable: separated by commas or spaces. */
function keysOf(given: readonly string[] | undefined, variable: string | undefined): readonly string[] {
  return given ?? (variable ?? '').split(/[\s,]+/).filter((key) => key !== '');
}

/** `fdv1`, `fdv1:3,bouncer:1`, or `mix`: every kind that there is a key for. */
function partsOf(text: string, hasKeys: boolean, hasBouncerKeys: boolean): readonly HerdPart[] {
  if (text === 'mix') {
    const all = HERD_KINDS.map((kind) => ({ kind, weight: 1 }));
    const known = all.filter(({ kind }) => (kind === 'bouncer' ? hasBouncerKeys : hasKeys));
    // without a key at all, the check of the options says which is missing
    return known.length > 0 ? known : all;
  }
  return text.split(',').map((part) => {
    const [kind = '', weight = '1'] = part.trim().split(':');
    return { kind: kind as HerdKind, weight: Number(weight) };
  });
}

function sharesOf({ stalled, slow, leaving }: HerdArguments, defaults: HerdShares): HerdShares {
  const stalling = shareOf('stalled', stalled);
  const slowing = shareOf('slow', slow);
  const going = shareOf('leaving', leaving);
  return {
    stalled: stalling.share,
    stalledAfterBytes: stalling.amount ?? defaults.stalledAfterBytes,
    slow: slowing.share,
    slowBytesPerSecond: slowing.amount ?? defaults.slowBytesPerSecond,
    leaving: going.share,
    leavingAfterBytes: going.amount ?? defaults.leavingAfterBytes,
  };
}

/** `30%` or `30%@64KiB`, also with `/s`. */
function shareOf(name: string, text: string | undefined): { readonly share: number; readonly amount?: number } {
  if (text === undefined) return { share: 0 };
  const [, percent, amount] = /^(\d+(?:\.\d+)?)%(?:@(.+?)(?:\/s)?)?$/.exec(text) ?? [];
  if (percent === undefined) throw wrong(name, 'a share such as 30% or 30%@64KiB', text);
  return { share: Number(percent) / 100, ...(amount === undefined ? {} : { amount: bytesOf(name, amount) }) };
}

function durationOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parsed = parseDuration(text);
  if (!parsed.ok) throw wrong(name, parsed.expected, text);
  return parsed.value;
}

function bytesOf(name: string, text: string): number {
  const parsed = parseBytes(text);
  if (!parsed.ok) throw wrong(name, parsed.expected, text);
  return parsed.value;
}

function wrong(name: string, expected: string, got: string): HeadgateError {
  return new HeadgateError('HG_OPTION', `Cannot run a herd: --${name} must be ${expected}, got ${got}`);
}
