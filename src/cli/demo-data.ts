/** The keys of the demo's environment: of servers, of phones, and what browsers have in the URL. */
export const DEMO_SDK_KEY = 'sdk-demo';
export const DEMO_MOBILE_KEY = 'mob-demo';
export const DEMO_ENV_ID = 'demo';

const SALT = 'demo';

/** A few flags, in the format of the SDKs' own data files, so that a newcomer can edit one and watch it arrive. */
export const DEMO_DATA: object = {
  flags: {
    'new-checkout': booleanFlag('new-checkout', true, { variations: [20_000, 80_000] }),
    'dark-mode': booleanFlag('dark-mode', true, undefined),
    'maintenance-banner': {
      ...booleanFlag('maintenance-banner', false, undefined),
      variations: ['none', 'planned', 'now'],
      offVariation: 0,
    },
  },
  segments: {
    'beta-testers': {
      key: 'beta-testers',
      version: 1,
      included: ['ada', 'grace'],
      excluded: [],
      rules: [],
      salt: SALT,
    },
  },
};

function booleanFlag(key: string, on: boolean, rollout: { variations: readonly [number, number] } | undefined): object {
  const fallthrough =
    rollout === undefined
      ? { variation: 0 }
      : { rollout: { variations: rollout.variations.map((weight, variation) => ({ variation, weight })) } };
  return {
    key,
    version: 1,
    on,
    prerequisites: [],
    targets: [],
    rules: [
      {
        id: 'beta',
        variation: 0,
        clauses: [{ attribute: '', op: 'segmentMatch', values: ['beta-testers'], negate: false }],
        trackEvents: false,
      },
    ],
    fallthrough,
    offVariation: 1,
    variations: [true, false],
    clientSideAvailability: { usingMobileKey: true, usingEnvironmentId: true },
    salt: SALT,
    trackEvents: false,
    trackEventsFallthrough: false,
    debugEventsUntilDate: null,
    deleted: false,
  };
}
