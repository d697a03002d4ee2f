/** The keys of the demo's environment: of servers, of phones, and what browsers have in the URL. */
export const DEMO_SDK_KEY = 'sdk-demo';
export const DEMO_MOBILE_KEY = 'mob-demo';
export const DEMO_ENV_ID = 'demo';
/** The key of the demo's bouncers. */
export const DEMO_BOUNCER_KEY = 'bouncer-demo';

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

/** An address of {@link DEMO_DECISIONS}, to ask about. */
export const DEMO_BANNED = '192.0.2.7';

/** A few decisions as `cscli decisions import` takes them, on addresses that are kept free for documentation. */
export const DEMO_DECISIONS: string = `value,type,reason
${DEMO_BANNED},ban,too many logins
192.0.2.201,captcha,fast crawler
198.51.100.0/24,ban,a network of scanners
2001:db8::7,ban,too many logins
`;

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
