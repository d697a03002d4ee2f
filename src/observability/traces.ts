import type { StageTimes } from '../delivery/index.ts';
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
  readonly stages?: StageTimes;
}

type Attributes = SpanRecord['attributes'];

/** These are the client's doing, or nobody's; the rest is a cut, or a fault of ours. */
const WELL: ReadonlySet<string> = new Set(['completed', 'client_gone']);

/**
 * Listens to deliveries and tells each as a span, once it has ended: waiting for a slot, pinning what is sent, encoding and
 * sending it, with what came of it. Spans are made after the fact, so that a delivery costs next to nothing more while it is
 * under way. Pages are encoded while others are sent: that span says how long all of it took, from where it began.
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
  const { waitedMs, ms, outcome, what, encoding, bytes, parkedMs, stages } = fact;
  const sendMs = endMs - ms;
  const pinnedMs = sendMs - (stages?.prepareMs ?? 0);
  const slotMs = pinnedMs - (stages?.pinMs ?? 0);
  const startMs = slotMs - waitedMs;
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
      span('wait', startMs, slotMs),
      ...(stages === undefined
        ? []
        : [span('pin', slotMs, pinnedMs), span('encode', pinnedMs, pinnedMs + stages.encodeMs)]),
      {
        ...span('send', sendMs, endMs),
        attributes: { 'headgate.outcome': outcome, 'headgate.parked_ms': Math.round(parkedMs) },
      },
    ],
  };
}

function span(name: string, startMs: number, endMs: number): SpanRecord {
  return { name, startMs, endMs, attributes: {}, children: [] };
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
    children: [span('wait', startMs, endMs)],
  };
}
