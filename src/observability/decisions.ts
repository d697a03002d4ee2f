import type { Clock } from '../kernel/index.ts';
import {
  answered,
  cursorEvicted,
  cursorShared,
  delivered,
  keyDropped,
  keyLearned,
  left,
  notForwarded,
  refused,
  unavailable,
} from '../protocols/crowdsec/index.ts';
import type { Lines } from './lines.ts';
import { Repeated } from './repeated.ts';

const SHARED = 'two bouncers with one key and one address share a cursor; give each a key of its own';

/**
 * Writes what the decisions front makes known, by the bouncer's name: refusals and cuts are warnings, a bouncer's own
 * disconnect is for debugging. What comes in floods is summed.
 *
 * @returns writes what is held back, and stops listening.
 */
export function logDecisions(logger: Lines, clock: Clock): () => void {
  const warn = new Repeated((fields) => logger.warn(fields, String(fields['what'])), clock);
  const info = new Repeated((fields) => logger.info(fields, String(fields['what'])), clock);
  const stops = [
    refused.listen(({ waitedMs, ...fact }) => {
      const fields = { what: 'refused', ...fact, waitedMs: Math.round(waitedMs) };
      warn.add(`refused/${fact.route}/${fact.reason}`, fields);
    }),
    unavailable.listen((fact) => warn.add(`unavailable/${fact.reason}`, { what: 'no answer yet', ...fact })),
    left.listen(({ waitedMs, ...fact }) =>
      logger.debug({ ...fact, waitedMs: Math.round(waitedMs) }, 'left while waiting'),
    ),
    delivered.listen((fact) => {
      const { bouncer, agent, route, remoteAddress, outcome, bytes, encoding, error, what: copy } = fact;
      const seconds = Math.round(fact.ms) / 1000;
      const fields = { bouncer, agent, route, remoteAddress, outcome, bytes, seconds, encoding, copy };
      if (outcome === 'completed' || outcome === 'client_gone') logger.debug(fields, `delivery ${outcome}`);
      else if (outcome === 'error') logger.error({ ...fields, err: error }, 'delivery error');
      else warn.add(`cut/${route}/${outcome}`, { what: `cut: ${outcome}`, ...fields });
    }),
    cursorShared.listen((fact) => warn.add(`shared/${fact.bouncer}`, { what: SHARED, ...fact })),
    cursorEvicted.listen((fact) =>
      warn.add(`evicted/${fact.bouncer}`, { what: 'cursor dropped: its key has too many', ...fact }),
    ),
    keyLearned.listen((fact) => info.add('learned', { what: 'key accepted by the upstream', ...fact })),
    keyDropped.listen((fact) =>
      logger.warn(fact, 'key dropped: the upstream has refused it twice, a minute or more apart'),
    ),
    notForwarded.listen(({ error, ...fact }) => {
      const cause = error === undefined ? {} : { err: error };
      warn.add(`not forwarded/${fact.route}`, { what: 'not passed on to the upstream', ...fact, ...cause });
    }),
    // by far the most frequent fact: not even made when nobody reads it
    ...(logger.isDebugging ? [answered.listen((fact) => logger.debug(fact, 'answered'))] : []),
  ];
  return () => {
    for (const stop of stops) stop();
    warn.flush();
    info.flush();
  };
}
