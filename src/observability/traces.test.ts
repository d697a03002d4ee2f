import { afterEach, describe, expect, it } from 'vitest';
import * as decisions from '../protocols/crowdsec/index.ts';
import * as flags from '../protocols/launchdarkly/index.ts';
import { type SpanRecord, traceDeliveries } from './traces.ts';

const CLIENT = { environment: 'production', route: '/all', sdk: 'GoClient', remoteAddress: '192.0.2.7' };
const BOUNCER = { bouncer: 'nginx-1', agent: 'nginx/v1', route: '/v1/decisions/stream', remoteAddress: '192.0.2.8' };
const DELIVERED = { waitedMs: 20, encoding: 'gzip', bytes: 1000, ms: 400, parkedMs: 100.4 } as const;
const REFUSED = { reason: 'timeout', early: false, waitedMs: 2000, retryAfterSeconds: 3 };
const NOW_MS = 1_000_000;

let stop: (() => void) | undefined;
afterEach(() => stop?.());

function spansOf(act: () => void): SpanRecord[] {
  const spans: SpanRecord[] = [];
  stop = traceDeliveries(
    (span) => spans.push(span),
    () => NOW_MS,
  );
  act();
  return spans;
}

describe('the trace of a delivery', () => {
  it('tells when it waited and when it was sent, one after the other', () => {
    const [span] = spansOf(() =>
      flags.delivered.publish(() => ({ ...CLIENT, ...DELIVERED, what: 'full', outcome: 'completed' })),
    );
    expect(span).toEqual({
      name: 'delivery full',
      startMs: NOW_MS - 420,
      endMs: NOW_MS,
      attributes: {
        'headgate.front': 'flags',
        'headgate.environment': 'production',
        'http.route': '/all',
        'user_agent.name': 'GoClient',
        'client.address': '192.0.2.7',
        'headgate.copy': 'full',
        'headgate.encoding': 'gzip',
        'headgate.outcome': 'completed',
        'headgate.bytes': 1000,
      },
      children: [
        { name: 'wait', startMs: NOW_MS - 420, endMs: NOW_MS - 400, attributes: {}, children: [] },
        {
          name: 'send',
          startMs: NOW_MS - 400,
          endMs: NOW_MS,
          attributes: { 'headgate.outcome': 'completed', 'headgate.parked_ms': 100 },
          children: [],
        },
      ],
    });
  });

  it('tells what was pinned and encoded before it was sent, and how long encoding took in all', () => {
    const stages = { pinMs: 3, prepareMs: 50, encodeMs: 90 };
    const [span] = spansOf(() =>
      flags.delivered.publish(() => ({ ...CLIENT, ...DELIVERED, what: 'full', outcome: 'completed', stages })),
    );
    expect(span?.startMs).toBe(NOW_MS - 473);
    const times = span?.children.map(({ name, startMs, endMs }) => [name, NOW_MS - startMs, NOW_MS - endMs]);
    expect(times).toEqual([
      ['wait', 473, 453],
      ['pin', 453, 450],
      ['encode', 450, 360],
      ['send', 400, 0],
    ]);
  });

  it.each([
    ['completed', undefined],
    ['client_gone', undefined],
    ['stalled', 'stalled'],
    ['capped', 'capped'],
    ['error', 'error'],
    ['shutdown', 'shutdown'],
  ] as const)('that ended as %s has the fault %s', (outcome, fault) => {
    const spans = spansOf(() =>
      decisions.delivered.publish(() => ({
        ...BOUNCER,
        ...DELIVERED,
        what: 'delta',
        added: 1,
        deleted: 2,
        outcome,
      })),
    );
    expect(spans.map((span) => span.fault)).toEqual([fault]);
    expect(spans[0]?.attributes).toMatchObject({ 'headgate.bouncer': 'nginx-1', 'headgate.deleted': 2 });
  });

  it('that was refused, or whose client left, is the wait', () => {
    const spans = spansOf(() => {
      flags.refused.publish(() => ({ ...CLIENT, ...REFUSED }));
      decisions.refused.publish(() => ({ ...BOUNCER, ...REFUSED, early: true, waitedMs: 0 }));
      decisions.left.publish(() => ({ ...BOUNCER, waitedMs: 5 }));
    });
    expect(spans.map(({ name, startMs, fault }) => [name, NOW_MS - startMs, fault])).toEqual([
      ['delivery refused', 2000, 'timeout'],
      ['delivery refused', 0, 'early'],
      ['delivery left', 5, undefined],
    ]);
  });
});
