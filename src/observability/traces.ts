import { delivered as deliveredDecisions, left, refused as refusedDecisions } from '../protocols/crowdsec/index.ts';
import { delivered as deliveredFlags, refused as refusedFlags } from '../protocols/launchdarkly/index.ts';

/** A stretch of time with a name, for a trace. Times are Unix times in milliseconds. */
export interface SpanRecord {
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** What went wrong, when something did. */
  readonly fault?: string;
  readonly children: readonly SpanRecord[];
}

interface Ended {
  readonly waitedMs: number;
  readonly ms: number;
  readonly parkedMs: number;
  readonly bytes: number;
  readonly encoding: string;
  readonly what: string;
  readonly outcome: string;
}

type Attributes = SpanRecord['attributes'];

/** These are the client's doing, or nobody's; the rest is a cut, or a fault of ours. */
const WELL: ReadonlySet<string> = new Set(['completed', 'client_gone']);

/**
 * Listens to deliveries and tells each as a span, once it has ended: waiting and sending, with what came of it. Spans are
 * made after the fact, so that a delivery costs nothing more while it is under way.
 *
 * @param now - Unix time in milliseconds
 * @returns stops listening
 *
 * @example
 * const stop = traceDeliveries((span) => console.log(span.name), Date.now);
 * stop();
 */
export function traceDeliveries(tell: (span: SpanRecord) => void, now: () => number): () => void {
  const ended = (attributes: Attributes, fact: Ended): void => tell(deliverySpan(attributes, fact, now()));
  const waited = (attributes: Attributes, waitedMs: number, fault: string | undefined): void =>
    tell(waitSpan(attributes, waitedMs, { fault, endMs: now() }));
  const stops = [
    deliveredFlags.listen((fact) => ended(flagsAttributes(fact), fact)),
    refusedFlags.listen((fact) => waited(flagsAttributes(fact), fact.waitedMs, fact.early ? 'early' : fact.reason)),
    deliveredDecisions.listen((fact) => {
      const { added, deleted } = fact;
      ended({ ...decisionsAttributes(fact), 'headgate.added': added, 'headgate.deleted': deleted }, fact);
    }),
    refusedDecisions.listen((fact) =>
      waited(decisionsAttributes(fact), fact.waitedMs, fact.early ? 'early' : fact.reason),
    ),
    left.listen((fact) => waited(decisionsAttributes(fact), fact.waitedMs, undefined)),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function flagsAttributes(fact: { environment: string; route: string; sdk: string; remoteAddress: string }): Attributes {
  return {
    'headgate.front': 'flags',
    'headgate.environment': fact.environment,
    'http.route': fact.route,
    'user_agent.name': fact.sdk,
    'client.address': fact.remoteAddress,
  };
}

function decisionsAttributes(fact: {
  bouncer: string;
  route: string;
  agent: string;
  remoteAddress: string;
}): Attributes {
  return {
    'headgate.front': 'decisions',
    'headgate.bouncer': fact.bouncer,
    'http.route': fact.route,
    'user_agent.name': fact.agent,
    'client.address': fact.remoteAddress,
  };
}

function deliverySpan(attributes: Attributes, fact: Ended, endMs: number): SpanRecord {
  const { waitedMs, ms, outcome, what, encoding, bytes, parkedMs } = fact;
  const sendMs = endMs - ms;
  const startMs = sendMs - waitedMs;
  return {
    name: `delivery ${what}`,
    startMs,
    endMs,
    attributes: {
      ...attributes,
      'headgate.copy': what,
      'headgate.encoding': encoding,
      'headgate.outcome': outcome,
      'headgate.bytes': bytes,
    },
    ...(WELL.has(outcome) ? {} : { fault: outcome }),
    children: [
      { name: 'wait', startMs, endMs: sendMs, attributes: {}, children: [] },
      {
        name: 'send',
        startMs: sendMs,
        endMs,
        attributes: { 'headgate.parked_ms': Math.round(parkedMs) },
        children: [],
      },
    ],
  };
}

/** Of a client that got no slot: refused, or gone. */
function waitSpan(
  attributes: Attributes,
  waitedMs: number,
  { fault, endMs }: { fault: string | undefined; endMs: number },
): SpanRecord {
  const startMs = endMs - waitedMs;
  return {
    name: fault === undefined ? 'delivery left' : 'delivery refused',
    startMs,
    endMs,
    attributes: { ...attributes, 'headgate.outcome': fault ?? 'left' },
    ...(fault === undefined ? {} : { fault }),
    children: [{ name: 'wait', startMs, endMs, attributes: {}, children: [] }],
  };
}
