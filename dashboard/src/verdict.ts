import type { Environment, State } from './contract.ts';
import { count, counted } from './format.ts';

/** How something is to be looked at: in colour, and always in words as well. */
export type Tone = 'good' | 'warn' | 'bad' | 'calm';

/** Whether it is well, in a word, and why not. */
export interface Verdict {
  readonly word: string;
  readonly tone: Tone;
  readonly reasons: readonly string[];
}

const REASONS_MAX = 4;
const NAME_CHARACTERS = 60;

/** Whether the process is well. */
export function verdictOf(state: State): Verdict {
  const reasons = reasonsOf(state);
  if (state.stopping) return { word: 'Stopping', tone: 'warn', reasons: ['nobody new is admitted', ...reasons] };
  if (!state.ready) return { word: 'Not ready', tone: 'bad', reasons };
  if (!state.healthy || reasons.length > 0) {
    const why = reasons.length > 0 ? reasons : ['/status says of which part'];
    return { word: 'Ready, not healthy', tone: 'warn', reasons: why };
  }
  return { word: 'Ready and healthy', tone: 'good', reasons };
}

function reasonsOf({ environments, decisions }: State): readonly string[] {
  const down = (decisions?.sources ?? []).filter(({ up }) => !up);
  const served = environments.filter(({ ready }) => ready);
  const reasons = [
    ...environments.filter(({ ready }) => !ready).map(({ name }) => `${short(name)} has no data yet`),
    ...served
      .filter((environment) => connectionTone(environment) !== 'good')
      .map(({ name, connection }) => `the source of ${short(name)} is ${connection}`),
    ...served
      .filter(({ dataStore }) => isStoreTroubled(dataStore))
      .map(({ name, dataStore }) => `the store of ${short(name)} is ${dataStore}`),
    ...down.map(({ name, ageMs }) =>
      ageMs === null
        ? `the source ${short(name)} has no data yet`
        : `the source ${short(name)} fails: the last good decisions are served`,
    ),
  ];
  const more = reasons.length - REASONS_MAX;
  return more > 0 ? [...reasons.slice(0, REASONS_MAX), `and ${count(more)} more`] : reasons;
}

/** A name within a sentence. */
function short(name: string): string {
  return name.length <= NAME_CHARACTERS ? name : `${name.slice(0, NAME_CHARACTERS)}…`;
}

/** Whether a store is not as it should be; of an environment without one nothing is said. */
export function isStoreTroubled(dataStore: string): boolean {
  return dataStore !== '' && dataStore !== 'VALID';
}

/** How the connection of an environment to its source is to be looked at. */
export function connectionTone({ connection }: Environment): Tone {
  if (connection === 'VALID') return 'good';
  return connection === 'OFF' ? 'bad' : 'warn';
}

/** What goes on, in a sentence. */
export function summaryOf(state: State, refusedInMinute: number): string {
  const { budget, deliveries, environments, streams, decisions } = state;
  const clients = [
    ...(environments.length > 0 || decisions === null ? [counted(streams, 'open stream')] : []),
    ...(decisions === null ? [] : [counted(decisions.bouncers, 'bouncer')]),
  ].join(' and ');
  const refused = refusedInMinute === 0 ? '' : `, ${count(refusedInMinute)} refused in the last minute`;
  if (budget.waiting > 0) {
    const waiting = `${count(budget.waiting)} wait for a slot`;
    return `A herd is here: ${counted(deliveries.active, 'delivery', 'deliveries')} under way, ${waiting}${refused}.`;
  }
  if (deliveries.active > 0)
    return `${counted(deliveries.active, 'delivery', 'deliveries')} under way, nobody waits${refused}. ${clients}.`;
  return `Quiet: no delivery under way, nobody waits${refused}. ${clients}.`;
}
