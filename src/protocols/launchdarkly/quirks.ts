/**
 * What single SDKs do differently, by User-Agent. Everything that treats one SDK unlike another stands in this file.
 *
 * Observed with Node 9.13.7, Go 7.14.6 and Python 9.20.0.
 */

/** Which SDKs get patches instead of a put when they reconnect to an FDv1 stream with `Last-Event-ID`. */
export type CatchUpMode = 'safe' | 'all' | 'off';

/** What is known of a client by its User-Agent. */
export interface Quirks {
  /** The name for logs: the User-Agent up to its first `/`, at most 40 characters. */
  readonly sdk: string;
  /**
   * Whether the `basis` of this client may be older than what it holds: Node's FDv2 source re-uses the URL that it
   * was started with. Such a client is told "up to date" only when the log proves that nothing was touched since.
   */
  readonly frozenBasis: boolean;
  /** Whether patches in place of a put leave this SDK right on FDv1. */
  readonly fdv1CatchUp: 'yes' | 'unless-persistent-store' | 'no';
  /** Whether this SDK was seen to read an endless compressed stream event by event. */
  readonly gzipStreams: boolean;
}

const KNOWN: readonly { readonly prefix: string; readonly quirks: Omit<Quirks, 'sdk'> }[] = [
  // Takes patches; has no data source status that would stay behind.
  { prefix: 'NodeJSClient/', quirks: { frozenBasis: true, fdv1CatchUp: 'yes', gzipStreams: false } },
  // Takes patches. Restarts its own stream for a fresh put when its persistent store failed and came back, and sends
  // Last-Event-ID then too: patches would not repair that store.
  { prefix: 'GoClient/', quirks: { frozenBasis: false, fdv1CatchUp: 'unless-persistent-store', gzipStreams: true } },
  // Takes patches, but reports VALID again only after a put.
  { prefix: 'PythonClient/', quirks: { frozenBasis: false, fdv1CatchUp: 'no', gzipStreams: false } },
];

/** An SDK that nobody has watched gets what every SDK understands. */
const UNKNOWN: Omit<Quirks, 'sdk'> = { frozenBasis: false, fdv1CatchUp: 'no', gzipStreams: false };

const SDK_NAME_LENGTH_MAX = 40;

/** A fleet has few User-Agents; what one client makes up must not grow this. */
const REMEMBERED_MAX = 256;
const remembered = new Map<string | undefined, Quirks>();

/** What is known of the client that sent this User-Agent. */
export function quirksOf(userAgent: string | undefined): Quirks {
  const known = remembered.get(userAgent);
  if (known !== undefined) return known;
  const quirks = readQuirks(userAgent);
  if (remembered.size < REMEMBERED_MAX) remembered.set(userAgent, quirks);
  return quirks;
}

function readQuirks(userAgent: string | undefined): Quirks {
  const known = KNOWN.find(({ prefix }) => userAgent?.startsWith(prefix) === true);
  const sdk = (userAgent ?? 'unknown').split('/', 1)[0]?.slice(0, SDK_NAME_LENGTH_MAX) ?? 'unknown';
  return { sdk, ...(known?.quirks ?? UNKNOWN) };
}

/** Whether a reconnect on FDv1 may be answered with patches. */
export function takesCatchUp(quirks: Quirks, mode: CatchUpMode): boolean {
  if (mode === 'off') return false;
  return quirks.fdv1CatchUp === 'yes' || (mode === 'all' && quirks.fdv1CatchUp === 'unless-persistent-store');
}
