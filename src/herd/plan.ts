import type { Profile } from './profiles.ts';
import type { Role } from './words.ts';

/** What one client is and does. */
export interface Plan {
  readonly number: number;
  readonly role: Role;
  readonly profile: Profile;
  readonly key: string;
  readonly arrivalMs: number;
  readonly everyMs: number;
  /** Where it connects from; the system chooses when undefined. */
  readonly localAddress: string | undefined;
  /** Of PHP's: the one flag that is asked for. */
  readonly flag: string | undefined;
  /** Asks for answers that are not compressed, whatever the SDK does. */
  readonly isPlain: boolean;
}

/** What a client holds, and names when it comes back. */
export interface Held {
  hasCopy: boolean;
  basis: string | undefined;
  lastEventId: string | undefined;
  tag: string | undefined;
  /** Of a bouncer: whether the next request asks for everything. */
  startsUp: boolean;
}

const PATHS = {
  fdv1: '/all',
  fdv2: '/sdk/stream',
  'fdv1-poll': '/sdk/latest-all',
  'fdv2-poll': '/sdk/poll',
  php: '/sdk/flags',
  bouncer: '/v1/decisions/stream',
} as const;

/** The path and query that this client asks for. */
export function pathOf({ profile, flag }: Plan, held: Held): string {
  const path = PATHS[profile.kind];
  if (profile.kind === 'bouncer') return path + bouncerQuery(profile.sdk, held.startsUp);
  if (profile.kind === 'php') return flag === undefined ? path : `${path}/${encodeURIComponent(flag)}`;
  const isFdv2 = profile.kind === 'fdv2' || profile.kind === 'fdv2-poll';
  if (!isFdv2 || !profile.namesBasis || held.basis === undefined) return path;
  return `${path}?basis=${encodeURIComponent(held.basis)}`;
}

function bouncerQuery(sdk: string, startsUp: boolean): string {
  if (sdk === 'go') return `?additional_pull=false&community_pull=false${startsUp ? '&startup=true' : ''}`;
  return `?startup=${startsUp}${sdk === 'python' ? '&scopes=ip,range' : ''}`;
}

/** The request that this client sends, head and empty line. */
export function requestOf(plan: Plan, held: Held, { host, base }: { host: string; base: string }): string {
  const { profile, key } = plan;
  const headers: Record<string, string> = {
    host,
    [profile.kind === 'bouncer' ? 'x-api-key' : 'authorization']: key,
    ...profile.headers,
    // a stream's connection is not used again, and yet no SDK says so
    connection: profile.keepsConnection || profile.isStream ? 'keep-alive' : 'close',
  };
  if (plan.isPlain) delete headers['accept-encoding'];
  if (profile.isStream && held.lastEventId !== undefined) headers['last-event-id'] = held.lastEventId;
  if (!profile.isStream && held.tag !== undefined) headers['if-none-match'] = held.tag;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET ${base}${pathOf(plan, held)} HTTP/1.1\r\n${lines.join('')}\r\n`;
}

/** An address of this machine for each client: a bouncer's cursor is kept by key and address. */
export function addressOf(number: number): string {
  return `127.77.${(number >> 8) & 255}.${number & 255}`;
}
