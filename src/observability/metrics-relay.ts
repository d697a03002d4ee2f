import { EVALUATION, FLAGS, RELAY_9_STATE } from './catalog.ts';
import type { EnvironmentFigures, EventFigures, EventsTally, FlagFigures } from './figures.ts';
import { type Collected, observed } from './instruments.ts';
import { TENANTS_MAX } from './metrics-flags.ts';

/** What a relay of flags does besides delivering: how its environments are, evaluations, events. */
export function* flagMetrics(flags: FlagFigures, environments: readonly EnvironmentFigures[]): Generator<Collected> {
  yield* stateMetrics(flags.healthy, environments);
  const { evaluations, events } = flags;
  yield observed(EVALUATION.done, evaluations.evaluations);
  yield observed(EVALUATION.queued, evaluations.queued);
  yield observed(EVALUATION.running, evaluations.running);
  yield observed(EVALUATION.cacheHits, evaluations.cacheHits);
  yield observed(EVALUATION.cacheMisses, evaluations.cacheMisses);
  yield observed(EVALUATION.cacheSize, evaluations.cacheBytes);
  yield observed(EVALUATION.threads, evaluations.threads);
  yield observed(EVALUATION.threadFailures, evaluations.threadFailures);
  yield observed(EVALUATION.unreadable, evaluations.itemFailures);
  if (events === undefined) return;
  yield observed(RELAY_9_STATE.eventsPending, events.heldEvents);
  yield* eventMetrics(events.environments.slice(0, TENANTS_MAX));
}

function* stateMetrics(healthy: boolean, environments: readonly EnvironmentFigures[]): Generator<Collected> {
  yield observed(RELAY_9_STATE.status, [
    [['healthy'], Number(healthy)],
    [['degraded'], Number(!healthy)],
  ]);
  yield observed(RELAY_9_STATE.environments, environments.length);
  const count = (states: readonly string[], stateOf: (it: EnvironmentFigures) => string): [string[], number][] =>
    states.map((state) => [[state], environments.filter((it) => stateOf(it) === state).length]);
  yield observed(
    RELAY_9_STATE.statuses,
    count(['connected', 'disconnected'], ({ connected }) => (connected ? 'connected' : 'disconnected')),
  );
  yield observed(
    RELAY_9_STATE.connections,
    count(['VALID', 'INITIALIZING', 'INTERRUPTED', 'OFF'], ({ connection }) => connection),
  );
  yield observed(
    RELAY_9_STATE.dataStores,
    count(['VALID', 'INITIALIZING', 'INTERRUPTED'], ({ dataStore }) => dataStore),
  );
  yield observed(RELAY_9_STATE.expiringKeys, environments.filter(({ hasExpiringKey }) => hasExpiringKey).length);
}

function* eventMetrics(environments: readonly EventFigures[]): Generator<Collected> {
  const each = (value: (it: EventFigures) => number): [string[], number][] =>
    environments.map((environment) => [[environment.name], value(environment)]);
  const events = (tallies: Readonly<Record<string, EventsTally>>): number =>
    Object.values(tallies).reduce((sum, tally) => sum + tally.events, 0);
  yield observed(
    RELAY_9_STATE.eventsReceived,
    each(({ received }) => received.bytes),
  );
  yield observed(
    RELAY_9_STATE.eventsSent,
    each(({ sent }) => sent.events),
  );
  yield observed(
    RELAY_9_STATE.eventsSentSize,
    each(({ sent }) => sent.bytes),
  );
  yield observed(
    RELAY_9_STATE.eventsFailed,
    each(({ failed }) => events(failed)),
  );
  yield observed(
    RELAY_9_STATE.eventsDropped,
    each(({ dropped }) => events(dropped)),
  );
  yield observed(
    FLAGS.eventsLost,
    environments.flatMap(({ name, failed, dropped }) =>
      [...Object.entries(failed), ...Object.entries(dropped)].map(
        ([cause, tally]) => [[name, cause], tally.events] as [string[], number],
      ),
    ),
  );
}
