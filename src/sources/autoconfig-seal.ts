import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto';
import { HeadgateError } from '../kernel/index.ts';

const MAGIC: Buffer = Buffer.from('HGAC');
/** Says everything that follows: the cipher, the lengths, how the key is made, what the text means. */
const FORMAT = 1;
const PURPOSE: Buffer = Buffer.from('headgate automatic configuration');

const SALT_BYTES = 16;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const SALT_AT = MAGIC.length + 1;
const NONCE_AT = SALT_AT + SALT_BYTES;
const TAG_AT = NONCE_AT + NONCE_BYTES;
const TEXT_AT = TAG_AT + TAG_BYTES;

/** The secret may be a word that somebody made up: each guess costs 32 MiB and some 100 ms. */
const SCRYPT = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };

/**
 * Makes a text unreadable to those who do not have the secret, and shows when it was changed: AES-256-GCM under a key that
 * scrypt (RFC 7914) derives from the secret and a random salt.
 *
 * Layout: `HGAC`, the format (1 byte), salt (16), nonce (12), tag (16), cipher text. What the bytes are for, and everything
 * before the nonce, are associated data: bytes of another purpose or format do not open, whoever moved them here.
 */
export class Seal {
  readonly #secret: string;
  readonly #salt: Buffer = randomBytes(SALT_BYTES);
  /** Made once: the salt tells processes apart, the random nonce what one of them seals. */
  #key: Promise<Buffer> | undefined;

  /** @param secret - any text that is not empty */
  constructor(secret: string) {
    this.#secret = secret;
  }

  async close(text: string): Promise<Uint8Array> {
    const key = await (this.#key ??= derive(this.#secret, this.#salt));
    const head = Buffer.concat([MAGIC, Buffer.of(FORMAT), this.#salt]);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(Buffer.concat([PURPOSE, head]));
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([head, nonce, cipher.getAuthTag(), body]);
  }

  /** Throws HG_STORE for bytes of another format, of another secret, or that were changed. */
  async open(bytes: Uint8Array): Promise<string> {
    const sealed = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (sealed.length < TEXT_AT || !sealed.subarray(0, MAGIC.length).equals(MAGIC)) {
      throw refused(`it is none, got ${sealed.length} bytes of something else`);
    }
    const format = sealed[MAGIC.length];
    if (format !== FORMAT) throw refused(`its format must be ${FORMAT}, got ${format}`);
    const key = await derive(this.#secret, sealed.subarray(SALT_AT, NONCE_AT));
    const nonce = sealed.subarray(NONCE_AT, TAG_AT);
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.concat([PURPOSE, sealed.subarray(0, NONCE_AT)]));
    decipher.setAuthTag(sealed.subarray(TAG_AT, TEXT_AT));
    const text = decipher.update(sealed.subarray(TEXT_AT));
    try {
      return Buffer.concat([text, decipher.final()]).toString('utf8');
    } catch (thrown) {
      throw refused('it was made with another encryption key, or is damaged', thrown);
    }
  }
}

function derive(secret: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(secret, salt, KEY_BYTES, SCRYPT, (error, key) => (error === null ? resolve(key) : reject(error)));
  });
}

function refused(cause: string, thrown?: unknown): HeadgateError {
  return new HeadgateError(
    'HG_STORE',
    `Cannot use the cache of the automatic configuration: ${cause}`,
    thrown === undefined ? undefined : { cause: thrown },
  );
}
