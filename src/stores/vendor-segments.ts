/** Which contexts are in segments that are too large to be sent: written by a relay or by a tool, asked for one by one. */
export interface BigSegmentStore {
  /**
   * For references `<segment>.g<generation>`, whether the context is in it or is kept out of it. Undefined when nothing is
   * known of the context. Rejects with HG_STORE.
   *
   * @param contextHash - SHA-256 of the context's key, in base64
   */
  membership(contextHash: string): Promise<Readonly<Record<string, boolean>> | undefined>;
  /** When it was last known to be up to date, Unix time in milliseconds; undefined when never. Rejects with HG_STORE. */
  updatedMs(): Promise<number | undefined>;
  close(): Promise<void>;
}

/** A membership of two lists; who is in both is in. */
export function membershipOf(
  included: Iterable<string>,
  excluded: Iterable<string>,
): Readonly<Record<string, boolean>> | undefined {
  // without a prototype: a segment may have any name
  const membership = Object.create(null) as Record<string, boolean>;
  let count = 0;
  for (const [references, isIn] of [[excluded, false] as const, [included, true] as const]) {
    for (const reference of references) {
      membership[reference] = isIn;
      count++;
    }
  }
  return count === 0 ? undefined : membership;
}
