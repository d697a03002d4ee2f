import type { ServicePlaces } from './service-draft.ts';
import type { Config, DecisionSource, Mutable } from './types.ts';

/** A key of an upstream that stands in a file of its own. */
interface KeyFileReference {
  /** Which source presents it. */
  readonly source: number;
  readonly path: string;
  readonly where: string;
}

/**
 * What the readers of the file and of the environment leave open, since defaults depend on both together, and where
 * each thing stands, for messages.
 */
export interface DecisionsDraft {
  /** Where the section is, when it says anything. */
  named: string | undefined;
  portGiven: boolean;
  auth: { readonly value: 'delegated' | 'keys'; readonly where: string } | undefined;
  passthroughAt: string | undefined;
  bouncersAllowedOuAt: string | undefined;
  keyFileAt: string | undefined;
  storeAt: string | undefined;
  readonly keyFiles: KeyFileReference[];
  /** By source. */
  readonly sourcesAt: string[];
  /** By name of the key. */
  readonly keysAt: Map<string, string>;
  readonly places: ServicePlaces;
}

export function newDecisionsDraft(): DecisionsDraft {
  return {
    named: undefined,
    portGiven: false,
    auth: undefined,
    passthroughAt: undefined,
    bouncersAllowedOuAt: undefined,
    keyFileAt: undefined,
    storeAt: undefined,
    keyFiles: [],
    sourcesAt: [],
    keysAt: new Map(),
    places: new Map(),
  };
}

/** Adds a source and remembers where it stands. */
export function addSource(
  config: Mutable<Config>,
  open: DecisionsDraft,
  source: Mutable<DecisionSource>,
  where: string,
): void {
  config.decisions.sources.push(source);
  open.sourcesAt.push(where);
}
