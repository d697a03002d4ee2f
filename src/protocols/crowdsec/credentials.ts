import { hash, timingSafeEqual } from 'node:crypto';

/** Who asks. */
export interface Bouncer {
  /** What its cursors are kept under: a digest of its key, or the name in its certificate. Has no spaces. */
  readonly id: string;
  /** For logs: never the key. */
  readonly name: string;
  /** Which upstream vouches for its key; undefined: it is configured here. */
  readonly upstream?: number;
}

/** The SHA-512 of a key, as the local API keeps it. */
export class KeyDigest {
  readonly #bytes: Buffer;

  private constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** @param key - a header's value, one character for each byte. */
  static of(key: string): KeyDigest {
    return new KeyDigest(hash('sha512', Buffer.from(key, 'latin1'), 'buffer'));
  }

  /** Undefined: this is no digest. */
  static parse(hex: string): KeyDigest | undefined {
    return /^[0-9a-f]{128}$/i.test(hex) ? new KeyDigest(Buffer.from(hex, 'hex')) : undefined;
  }

  /** Enough of it to find the whole by, and not to compare it with. */
  get prefix(): string {
    return this.#bytes.toString('latin1', 0, 16);
  }

  get hex(): string {
    return this.#bytes.toString('hex');
  }

  /** In a time that says nothing about where they differ. */
  equals(other: KeyDigest): boolean {
    return timingSafeEqual(this.#bytes, other.#bytes);
  }
}

/** What a key without a name is called. */
export function nameOf(digest: KeyDigest): string {
  return `key ending …${digest.hex.slice(-4)}`;
}

/** A bouncer by its client certificate, which the server has verified; undefined: its units are not among those allowed. */
export function certifiedOf(
  peer: { readonly commonName: string; readonly organizationalUnits: readonly string[] } | undefined,
  allowedOu: readonly string[],
  address: string,
): Bouncer | undefined {
  if (peer === undefined || !peer.organizationalUnits.some((unit) => allowedOu.includes(unit))) return undefined;
  return { id: `cert:${encodeURIComponent(peer.commonName)}`, name: `${peer.commonName}@${address}` };
}
