import { HeadgateError } from '../../../kernel/index.ts';

/** A flag as the vendor's evaluator wants it: parsed, and revived in place. Only what is read here is named. */
export interface RevivedFlag {
  readonly deleted?: boolean;
  readonly rules?: readonly { readonly trackEvents?: boolean; readonly clauses?: readonly Clause[] }[];
  readonly prerequisites?: readonly { readonly key: string }[];
  readonly trackEvents?: boolean;
  readonly trackEventsFallthrough?: boolean;
  readonly debugEventsUntilDate?: number;
  readonly samplingRatio?: number;
  readonly clientSide?: boolean;
  readonly clientSideAvailability?: { readonly usingMobileKey?: boolean; readonly usingEnvironmentId?: boolean };
}

/** The same of a segment. */
export interface RevivedSegment {
  readonly deleted?: boolean;
  readonly rules?: readonly { readonly clauses?: readonly Clause[] }[];
}

export interface Clause {
  readonly op?: string;
  readonly values?: readonly unknown[];
}

/** Why a flag has the value that it has. */
export interface Reason {
  readonly kind: string;
  readonly ruleIndex?: number;
  readonly inExperiment?: boolean;
}

/** What the vendor's evaluator answers. */
export interface Verdict {
  readonly detail: { readonly value: unknown; readonly variationIndex?: number | null; readonly reason: Reason };
  readonly prerequisites?: readonly string[];
}

/** Where the vendor's evaluator looks things up. Of a membership that is not there it takes none; `undefined` is: no store. */
export interface Queries {
  getFlag(key: string, answer: (flag: RevivedFlag | undefined) => void): void;
  getSegment(key: string, answer: (segment: RevivedSegment | undefined) => void): void;
  getBigSegmentsMembership(
    contextKey: string,
  ): Promise<[membership: Readonly<Record<string, boolean>> | null, status: string] | undefined>;
}

interface VendorEvaluator {
  evaluateCb(flag: RevivedFlag, context: unknown, answer: (verdict: Verdict) => void): void;
}

/** The parts of the vendor's SDK that evaluation uses. */
export interface Vendor {
  evaluator(queries: Queries): VendorEvaluator;
  /** Parses an item's text into what `Queries` answer with. Throws when it is not JSON. */
  revive(kind: 'flags' | 'segments', text: string): object;
  /** A context as `evaluateCb` wants it. Throws when it is none. */
  context(json: string): unknown;
}

interface Insides {
  readonly _evaluator?: { readonly constructor: new (platform: unknown, queries: Queries) => VendorEvaluator };
  readonly _platform?: unknown;
}

const SILENT = { error(): void {}, warn(): void {}, info(): void {}, debug(): void {} };

/**
 * Loads the vendor's SDK. Its evaluator is not among what it exports: it is taken from a client that is offline, which is
 * why the package is pinned to one version. Doing without the client's `allFlagsState` saves a third of the time, and
 * leaves it to us which flags are evaluated and where big segments come from. A test compares the two.
 *
 * @throws HeadgateError HG_OPTION when the SDK that is installed is built differently.
 */
export async function loadVendor(): Promise<Vendor> {
  const sdk = await import('@launchdarkly/node-server-sdk');
  const client = sdk.init('none', { offline: true, sendEvents: false, diagnosticOptOut: true, logger: SILENT });
  const { _evaluator: evaluator, _platform: platform } = client as unknown as Insides;
  client.close();
  if (typeof (evaluator as Partial<VendorEvaluator> | undefined)?.evaluateCb !== 'function' || platform === undefined) {
    throw new HeadgateError(
      'HG_OPTION',
      'Cannot evaluate flags: @launchdarkly/node-server-sdk must be the version that package.json names, got another one',
    );
  }
  return {
    evaluator: (queries) => new evaluator!.constructor(platform, queries),
    revive(kind, text) {
      const item: unknown = JSON.parse(text);
      if (typeof item !== 'object' || item === null) throw new Error('it is not an object');
      sdk.reviveFullPayload(kind === 'flags' ? { flags: { item } } : { segments: { item } });
      return item;
    },
    context(json) {
      const context = sdk.Context.fromLDContext(JSON.parse(json));
      if (!context.valid) throw new Error(context.message ?? 'the context is not valid');
      return context;
    },
  };
}
