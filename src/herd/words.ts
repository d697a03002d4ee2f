/** How a client speaks: streams and polls of flags in both protocols, PHP's look-ups, and bouncers. */
export const HERD_KINDS = ['fdv1', 'fdv2', 'fdv1-poll', 'fdv2-poll', 'php', 'bouncer'] as const;

/** One of {@link HERD_KINDS}. */
export type HerdKind = (typeof HERD_KINDS)[number];

const FLAG_SDKS = ['go', 'node', 'python'] as const;

/** The SDKs that a kind can be, each with the behaviour that was seen of it. */
export const HERD_SDKS: Readonly<Record<HerdKind, readonly string[]>> = {
  fdv1: FLAG_SDKS,
  fdv2: FLAG_SDKS,
  'fdv1-poll': FLAG_SDKS,
  'fdv2-poll': FLAG_SDKS,
  php: ['php'],
  bouncer: ['go', 'lua', 'python', 'node', 'php', 'traefik'],
};

/** How a client reads: at once, at a rate, its first bytes and then nothing, or its first bytes and then it leaves. */
export const ROLES = ['steady', 'slow', 'stalled', 'leaving'] as const;

/** One of {@link ROLES}. */
export type Role = (typeof ROLES)[number];
