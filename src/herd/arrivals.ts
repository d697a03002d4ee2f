import type { Role } from './words.ts';

/** When each of `clients` comes, in milliseconds: all at once, or evenly over `overMs`. */
export function arrivalsOf(clients: number, overMs: number): readonly number[] {
  return Array.from({ length: clients }, (_, number) => (overMs * number) / clients);
}

/** Numbers from 0 to below 1 that are the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Which role each of `clients` has: each share rounded, spread by chance all over the order of arrival. */
export function rolesOf(
  clients: number,
  shares: Readonly<Record<Exclude<Role, 'steady'>, number>>,
  random: () => number,
): readonly Role[] {
  const roles: Role[] = [];
  for (const role of ['stalled', 'slow', 'leaving'] as const) {
    const count = Math.min(Math.round(shares[role] * clients), clients - roles.length);
    for (let left = count; left > 0; left--) roles.push(role);
  }
  while (roles.length < clients) roles.push('steady');
  // Fisher and Yates
  for (let last = roles.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    const moved = roles[last]!;
    roles[last] = roles[other]!;
    roles[other] = moved;
  }
  return roles;
}

/** Something with a weight. */
export interface Weighted<T> {
  readonly value: T;
  readonly weight: number;
}

/**
 * `count` values, each as often as its weight says and evenly mixed: at any point of the list none is behind its share by
 * more than one.
 */
export function mixOf<T>(count: number, weighted: readonly Weighted<T>[]): readonly T[] {
  const total = weighted.reduce((sum, { weight }) => sum + weight, 0);
  const credits = weighted.map(() => 0);
  return Array.from({ length: count }, () => {
    let best = 0;
    for (const [at, { weight }] of weighted.entries()) {
      credits[at] = (credits[at] ?? 0) + weight;
      if ((credits[at] ?? 0) > (credits[best] ?? 0)) best = at;
    }
    credits[best] = (credits[best] ?? 0) - total;
    return weighted[best]!.value;
  });
}
