/** 0 makes some clients (OkHttp) repeat at once. */
const SECONDS_MIN = 1;

/** Some clients (the Python SDK's polls) sleep it inside the request; more would outlast their patience. */
const SECONDS_MAX = 10;

/** Said when nothing is known about the rate. */
const SECONDS_UNKNOWN = 2;

/**
 * When a refused caller should come back: not before those who wait now are served, spread over as long again, so
 * that those refused in one second do not return in one second.
 *
 * ```
 *   queue served in   ≤ 1 s    2 s    3 s    ≥ 5 s
 *   answer            1..2     2..4   3..6   5..10     whole seconds
 * ```
 *
 * @param queued - callers that wait.
 * @param perMs - handovers per millisecond; undefined when unknown.
 * @param random - uniform in [0, 1).
 */
export function retryAfter(queued: number, perMs: number | undefined, random: () => number): number {
  const served = perMs === undefined ? SECONDS_UNKNOWN : Math.ceil(queued / perMs / 1000);
  const earliest = Math.min(Math.max(served, SECONDS_MIN), SECONDS_MAX / 2);
  return Math.min(earliest + Math.floor(random() * (earliest + 1)), SECONDS_MAX);
}
