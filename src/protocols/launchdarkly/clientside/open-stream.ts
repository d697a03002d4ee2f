import type { Channel } from '../../../delivery/index.ts';
import type { ClientInfo } from '../client.ts';
import type { Audience } from '../directory.ts';
import type { Environment } from '../environment.ts';

/** A stream of a browser or a phone that is open. */
export interface OpenStream {
  readonly environment: Environment;
  readonly audience: Audience;
  /** What it showed: a stream ends with its key. */
  readonly credential: string | undefined;
  readonly route: string;
  readonly info: ClientInfo;
  readonly channel: Channel;
  /** When it was opened, on the front's clock: its age counts from then. */
  readonly openedMs: number;
}
