import { readFileSync } from 'node:fs';
import type { Reply } from './connections.ts';
import { ROOT } from './files.ts';
import type { SseReader } from './sse-reader.ts';

/** What the vendor's relay was asked, and what it answered. Hosts, dates and the times of a status are left out. */
export interface RelayTrace {
  readonly name: string;
  /** How the relay was set up when it was asked. */
  readonly setup: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly version?: '1.0';
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string;
  };
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly text?: string;
    readonly json?: unknown;
    /** In hexadecimal. */
    readonly bytes?: string;
    readonly events?: readonly { readonly event: string; readonly data: unknown }[];
    /** Whether heartbeats came between events. */
    readonly heartbeats?: boolean;
    /** Whether the relay ended the stream. */
    readonly closed?: boolean;
  };
}

/** A request of the vendor's relay to the services behind it. */
export interface TracedUpstreamRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly json?: unknown;
  /** Whether it tells of the relay itself, and not of its clients. */
  readonly own?: boolean;
}

/** Everything that was recorded. */
export interface RelayTraces {
  readonly traces: readonly RelayTrace[];
  readonly items: Readonly<Record<string, TracedItem>>;
  readonly upstream: Readonly<Record<'online' | 'listed', readonly TracedUpstreamRequest[]>>;
  readonly redis: Readonly<Record<string, unknown>> & { readonly prefix: string };
  readonly metrics: {
    readonly types: Readonly<Record<string, string>>;
    readonly series: readonly (readonly [name: string, labels: Readonly<Record<string, string>>])[];
  };
}

export interface TracedItem {
  readonly key: string;
  readonly version: number;
  readonly [member: string]: unknown;
}

interface Written extends RelayTraces {
  readonly headers: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** The recorded traces, with the flags and groups of headers that they name put in. */
export function readRelayTraces(): RelayTraces {
  const text = readFileSync(`${ROOT}test/fixtures/launchdarkly/traces.json`, 'utf8');
  const { headers: groups, items } = JSON.parse(text) as Written;
  const named = (value: string): unknown => (value.startsWith('@') ? items[value.slice(1)] : value);
  const written = JSON.parse(text, (_name, value: unknown) =>
    typeof value === 'string' ? (named(value) ?? value) : value,
  ) as Written;
  const traces = written.traces.map((trace) => ({
    ...trace,
    response: { ...trace.response, headers: grouped(trace.response.headers, groups) },
  }));
  return { ...written, traces };
}

function grouped(
  { '@': names, ...own }: Readonly<Record<string, string>>,
  groups: Written['headers'],
): Record<string, string> {
  const shared = (names?.split(' + ') ?? []).map((name) => groups[name]);
  return Object.assign({}, ...shared, own) as Record<string, string>;
}

/** What an answer says differently than a trace: what of it (`status`, `header etag`, `json /flag-0/value`), and what stands there instead. */
export type Differences = Readonly<Record<string, string>>;

/** A header that says nothing about the answer, or says when it was made. */
const UNTOLD: ReadonlySet<string> = new Set(['date', 'keep-alive', 'connection']);
/** When something happened, in milliseconds. */
const TIMES: ReadonlySet<string> = new Set(['stateSince', 'time']);

/**
 * Compares a whole answer. One of another status is another answer: the rest of it is not compared.
 *
 * @param text - the body, with what the machine decides here put as it was there
 */
export function compareReply({ response, request }: RelayTrace, reply: Reply, text: string = reply.body): Differences {
  const found = new Map<string, string>();
  if (reply.status !== response.status) return { status: String(reply.status) };
  const version = reply.head.slice(0, 'HTTP/1.1'.length);
  if (version !== `HTTP/${request.version ?? '1.1'}`) found.set('version', version);
  compareHeaders(response, reply, found);
  // how long the body of another method would be is not what is asked
  if (request.method === 'HEAD') found.delete('header content-length');
  if (response.json !== undefined) {
    compareJson(response.json, parsed(text), 'json ', found);
  } else if (response.bytes === undefined) {
    if (text !== (response.text ?? '')) found.set('body', text);
  } else if (reply.buffer.toString('hex') !== response.bytes) found.set('body', reply.buffer.toString('hex'));
  return Object.fromEntries(found);
}

/** Compares a stream, so far: as many events as there are. */
export function compareStream({ response }: RelayTrace, reader: SseReader): Differences {
  const found = new Map<string, string>();
  const { events = [], heartbeats, closed } = response;
  if (reader.reply.status !== response.status) return { status: String(reader.reply.status) };
  compareHeaders(response, reader.reply, found);
  for (let at = 0; at < Math.max(events.length, reader.events.length); at++) {
    const [theirs, ours] = [events[at], reader.events[at]];
    const where = `event ${at + 1}`;
    if (theirs?.event !== ours?.event) found.set(where, `${ours?.event ?? 'none'}`);
    if (ours?.id !== undefined) found.set(`${where} id`, ours.id);
    if (theirs === undefined || ours?.event !== theirs.event) continue;
    if (typeof theirs.data === 'string') {
      if (theirs.data !== ours.data) found.set(`${where} data`, ours.data);
    } else compareJson(theirs.data, parsed(ours.data), `${where} data `, found);
  }
  if (heartbeats === true && !/(^|\n):\n/.test(reader.reply.body)) found.set('heartbeats', 'none');
  if (closed === true && reader.reply.over !== 'whole') found.set('closed', `${reader.reply.over ?? 'open'}`);
  return Object.fromEntries(found);
}

function compareHeaders({ headers }: RelayTrace['response'], reply: Reply, found: Map<string, string>): void {
  const streams = headers['content-type']?.startsWith('text/event-stream') === true;
  for (const name of new Set([...Object.keys(headers), ...Object.keys(reply.headers)])) {
    if (UNTOLD.has(name) && !(streams && name === 'connection')) continue;
    const ours = reply.headers[name];
    if (name === 'expires' && headers[name] === 'date' && Number.isFinite(Date.parse(ours ?? ''))) continue;
    if (ours !== headers[name]) found.set(`header ${name}`, ours ?? 'none');
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Members in any order; times by form. */
function compareJson(theirs: unknown, ours: unknown, at: string, found: Map<string, string>): void {
  const both = [theirs, ours];
  if (!both.every((value) => typeof value === 'object' && value !== null && !Array.isArray(value))) {
    const [a, b] = both.map((value) => JSON.stringify(value));
    if (a !== b && !sameArray(theirs, ours)) found.set(at, b ?? 'none');
    return;
  }
  const [a, b] = both as [Record<string, unknown>, Record<string, unknown>];
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
    if (TIMES.has(name) && typeof a[name] === 'number' && Number.isSafeInteger(b[name])) continue;
    compareJson(a[name], b[name], `${at}/${name}`, found);
  }
}

function sameArray(theirs: unknown, ours: unknown): boolean {
  if (!Array.isArray(theirs) || !Array.isArray(ours) || theirs.length !== ours.length) return false;
  const found = new Map<string, string>();
  for (const [at, value] of theirs.entries()) compareJson(value, ours[at], `${at}`, found);
  return found.size === 0;
}
