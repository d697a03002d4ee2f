import type { Problems } from './problems.ts';
import type { LimitsSpec, Origin } from './types.ts';
import type { StreamLimits } from './vendor-lapi.ts';

/** The vendor of bouncers lets any number of requests wait; nobody has more connections than this. */
const QUEUE_UNBOUNDED = 1_000_000;
/** And for as long as this. */
const QUEUE_WAIT_MS = 10_000;

type Numbers = Omit<LimitsSpec, 'mode'>;

/** Everything that says something about the limits. */
export interface LimitsAsked {
  readonly origin: Origin;
  /** `HEADGATE_LIMITS`. */
  readonly wanted: 'auto' | 'off' | undefined;
  /** `HEADGATE_LINK`, in bytes per second; `Infinity`: it bounds nothing. */
  readonly link: number | undefined;
  /** The `limits` section of our own file; undefined when it has none. */
  readonly own: LimitsSpec | undefined;
  /** `decisions.wait` of our own file. */
  readonly waitDecisionsMs: number | undefined;
  /** `api.server.decisions_stream`; undefined when the file has no such section. */
  readonly stream: StreamLimits | undefined;
  readonly streamAt: { readonly slots: string; readonly wait: string };
  /** The flags vendor's numbers. */
  readonly relay: Numbers;
}

/** The stream's numbers under their vendor's meaning: no deadline, no parking, one queue for everybody. */
function streamAlone({ slots, waitMs = QUEUE_WAIT_MS }: StreamLimits): Numbers {
  return {
    ...(slots === undefined ? {} : { slots }),
    queue: QUEUE_UNBOUNDED,
    waitStreamMs: waitMs,
    waitPollMs: waitMs,
    waitDecisionsMs: waitMs,
    floorBytesPerSecond: 0,
  };
}

/** The stream's numbers in place of those that `auto` would compute. */
function streamBeside({ slots, waitMs }: StreamLimits): Numbers {
  return { ...(slots === undefined ? {} : { slots }), ...(waitMs === undefined ? {} : { waitDecisionsMs: waitMs }) };
}

function numbersOf(stream: StreamLimits | undefined, mode: LimitsSpec['mode']): Numbers {
  if (stream === undefined) return {};
  return mode === 'vendor' ? streamAlone(stream) : streamBeside(stream);
}

/** Numbers of the stream that something else overrides. */
function warnOverridden(asked: LimitsAsked, mode: LimitsSpec['mode'], problems: Problems): void {
  const { stream, own, streamAt } = asked;
  if (stream === undefined) return;
  const warn = (where: string, by: string): void => problems.warn(where, `has no effect: ${by}; remove one of the two`);
  if (mode === 'off') {
    if (stream.slots !== undefined) warn(streamAt.slots, 'limits are off');
    return;
  }
  if (stream.slots !== undefined && own?.slots !== undefined) warn(streamAt.slots, `limits.slots is ${own.slots}`);
  if (stream.waitMs === undefined) return;
  if (asked.waitDecisionsMs !== undefined) warn(streamAt.wait, 'decisions.wait is set');
  else if (own?.waitDecisionsMs !== undefined) warn(streamAt.wait, 'limits.wait.decisions is set');
}

/**
 * What is asked of the limits, by everyone who may. The variable decides on the mode, then the `limits` section; then
 * vendors' names mean what their vendors mean; our own file and our own variables without a word about it get `auto`.
 * Of the numbers our own come first, but for those that the flags vendor's variables lay over a file.
 */
export function limitsAsked(asked: LimitsAsked, problems: Problems): LimitsSpec {
  const spec = withoutLink(asked, problems);
  if (asked.link === undefined) return spec;
  if (spec.mode === 'auto') return { ...spec, linkBytesPerSecond: asked.link };
  const instead =
    spec.mode === 'off' ? 'limits are off' : "the vendor's names compute nothing; HEADGATE_LIMITS=auto does";
  problems.warn('HEADGATE_LINK', `has no effect: ${instead}`);
  return spec;
}

function withoutLink(asked: LimitsAsked, problems: Problems): LimitsSpec {
  const { origin, wanted, own, stream, relay, waitDecisionsMs } = asked;
  const none = relay.slots === 0;
  const { slots: _, ...rest } = relay;
  const numbers = none ? rest : relay;
  if (origin === 'vendor') {
    if (wanted !== 'auto') return { ...relay, mode: wanted ?? 'vendor' };
    return { ...numbers, mode: 'auto' };
  }
  const mode = wanted ?? (none ? 'off' : (own?.mode ?? (stream === undefined ? 'auto' : 'vendor')));
  warnOverridden(asked, mode, problems);
  return {
    ...numbersOf(stream, mode),
    ...own,
    ...(waitDecisionsMs === undefined ? {} : { waitDecisionsMs }),
    ...numbers,
    mode,
  };
}
