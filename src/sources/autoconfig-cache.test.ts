import { createCipheriv, scryptSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { AutoConfigRecord } from '../../test/support/autoconfig-cache.ts';
import { turns, until } from '../../test/support/conditions.ts';
import { FakeClock, type HeadgateError } from '../kernel/index.ts';
import { AutoConfigCache } from './autoconfig-cache.ts';
import { Seal } from './autoconfig-seal.ts';

const SECRET = 'correct horse battery staple';
const TEXT = '{"environments":[["507f1f77bcf86cd799439011",{"sdkKey":{"value":"sdk-aaaaaaaa-bbbb"}}]]}';

/** A key takes a tenth of a second of one core to derive, on purpose. */
const SLOW_MS = 30_000;

describe('Seal', { timeout: SLOW_MS }, () => {
  it('gives back what it was given, also to another process, and never the same bytes', async () => {
    const seal = new Seal(SECRET);
    const once = await seal.close(TEXT);
    const again = await seal.close(TEXT);
    expect(await new Seal(SECRET).open(once)).toBe(TEXT);
    expect(await seal.open(again)).toBe(TEXT);
    expect(Buffer.compare(once, again)).not.toBe(0);
    const salts = [once, again, await new Seal(SECRET).close(TEXT)].map((bytes) => {
      return Buffer.from(bytes.subarray(5, 21)).toString('hex');
    });
    expect(salts[0]).toBe(salts[1]);
    expect(salts[0]).not.toBe(salts[2]);
  });

  it('shows nothing of the text', async () => {
    const sealed = Buffer.from(await new Seal(SECRET).close(TEXT)).toString('latin1');
    for (const word of ['environments', '507f1f77', 'sdk-', 'aaaa', SECRET]) expect(sealed).not.toContain(word);
  });

  it('refuses another key, a changed byte anywhere, and what is cut', async () => {
    const sealed = await new Seal(SECRET).close(TEXT);
    const codeOf = async (bytes: Uint8Array, secret = SECRET): Promise<string> => {
      return await new Seal(secret).open(bytes).catch((error: HeadgateError) => error.code);
    };
    expect(await codeOf(sealed, `${SECRET}.`)).toBe('HG_STORE');
    // one byte of each part: what it is, salt, nonce, tag, text
    for (const at of [0, 10, 25, 40, 60]) {
      expect(await codeOf(sealed.map((byte, index) => (index === at ? byte ^ 1 : byte)))).toBe('HG_STORE');
    }
    for (const length of [0, 4, 48, sealed.length - 1])
      expect(await codeOf(sealed.subarray(0, length))).toBe('HG_STORE');
  });

  // Fails when the associated data are left out on both sides.
  it('refuses what was made with the same key for another purpose', async () => {
    const sealed = Buffer.from(await new Seal(SECRET).close(TEXT));
    const key = scryptSync(SECRET, sealed.subarray(5, 21), 32, { N: 2 ** 15, r: 8, p: 1, maxmem: 2 ** 26 });
    const cipher = createCipheriv('aes-256-gcm', key, sealed.subarray(21, 33));
    const text = Buffer.concat([cipher.update(TEXT), cipher.final()]);
    const other = Buffer.concat([sealed.subarray(0, 33), cipher.getAuthTag(), text]);
    await expect(new Seal(SECRET).open(other)).rejects.toThrow('another encryption key, or is damaged');
  });

  it('says of another format that it is one', async () => {
    const sealed = Uint8Array.from(await new Seal(SECRET).close(TEXT));
    sealed[4] = 2;
    await expect(new Seal(SECRET).open(sealed)).rejects.toThrow('its format must be 1, got 2');
    await expect(new Seal(SECRET).open(Buffer.from(TEXT))).rejects.toThrow('it is none');
  });
});

describe('AutoConfigCache', { timeout: SLOW_MS }, () => {
  class Rig {
    readonly clock = new FakeClock();
    readonly record = new AutoConfigRecord();
    readonly failures: string[] = [];
    readonly cache: AutoConfigCache;

    constructor(secret = SECRET) {
      const { record } = this;
      this.cache = new AutoConfigCache({
        store: { load: () => record.load(), save: (bytes) => record.save(bytes), encryptionKey: secret },
        clock: this.clock,
        failed: (error) => this.failures.push(`${error.code} ${error.message}`),
      });
    }

    async kept(): Promise<string | undefined> {
      return this.record.bytes === undefined ? undefined : new Seal(SECRET).open(this.record.bytes);
    }

    /** Waits until nothing is under way, so that a timer is armed if one is to come. */
    async armed(): Promise<void> {
      await until('a timer', () => this.clock.armed === 1);
    }
  }

  it('saves the latest text, once for many', async () => {
    const rig = new Rig();
    for (const text of ['a', 'b', 'c']) rig.cache.save(() => text);
    rig.clock.advance(999);
    await turns(3);
    expect(rig.record.saves).toBe(0);
    rig.clock.advance(1);
    await rig.record.until('what was saved', () => rig.record.bytes !== undefined);
    expect(await rig.kept()).toBe('c');
    expect(rig.record.saves).toBe(1);
  });

  it('is not put off by changes that never end', async () => {
    const rig = new Rig();
    rig.cache.save(() => 'a');
    rig.clock.advance(600);
    rig.cache.save(() => 'b');
    rig.clock.advance(400);
    await rig.record.until('what was saved', () => rig.record.bytes !== undefined);
    expect(await rig.kept()).toBe('b');
  });

  it('writes one after another, and what came meanwhile afterwards', async () => {
    const rig = new Rig();
    rig.record.hold();
    rig.cache.save(() => 'a');
    rig.clock.advance(1000);
    await rig.record.until('a save', () => rig.record.saves === 1);
    rig.cache.save(() => 'b');
    rig.clock.advance(60_000);
    await turns(3);
    expect(rig.record.saves).toBe(1);
    rig.record.release();
    await rig.armed();
    rig.clock.advance(1000);
    await rig.record.until('another save', () => rig.record.saves === 2);
    await rig.cache.stop();
    expect(await rig.kept()).toBe('b');
  });

  it('does not write again what is there already', async () => {
    const before = new Rig();
    before.cache.save(() => TEXT);
    await before.cache.stop();
    const rig = new Rig();
    rig.record.bytes = before.record.bytes;
    expect(await rig.cache.load()).toBe(TEXT);
    rig.cache.save(() => TEXT);
    await rig.cache.stop();
    expect(rig.record.saves).toBe(0);
  });

  it('tells once that it cannot write, and writes when it can', async () => {
    const rig = new Rig();
    rig.record.failure = new Error('disk full');
    rig.cache.save(() => 'a');
    rig.clock.advance(1000);
    await rig.armed();
    rig.clock.advance(30_000);
    await rig.record.until('another try', () => rig.record.saves === 2);
    await rig.armed();
    expect(rig.failures).toEqual(['HG_STORE Cannot write the cache of the automatic configuration: disk full']);
    rig.record.failure = undefined;
    rig.clock.advance(30_000);
    await rig.record.until('what was saved', () => rig.record.bytes !== undefined);
    expect(await rig.kept()).toBe('a');
  });

  it('ends its wait for a store that does not answer', async () => {
    const rig = new Rig();
    rig.record.hold();
    rig.cache.save(() => 'a');
    let isOver = false;
    const stopped = rig.cache.stop().then(() => {
      isOver = true;
    });
    await rig.record.until('a save', () => rig.record.saves === 1);
    expect(isOver).toBe(false);
    rig.clock.advance(2000);
    await stopped;
    expect(rig.clock.armed).toBe(0);
  });

  it('tells why it cannot read, and answers nothing', async () => {
    const rig = new Rig();
    expect(await rig.cache.load()).toBeUndefined();
    expect(rig.failures).toEqual([]);
    rig.record.bytes = Buffer.from('something else that is there');
    expect(await rig.cache.load()).toBeUndefined();
    rig.record.failure = new Error('no such table');
    expect(await rig.cache.load()).toBeUndefined();
    expect(rig.failures).toEqual([
      'HG_STORE Cannot use the cache of the automatic configuration: it is none, got 28 bytes of something else',
      'HG_STORE Cannot read the cache of the automatic configuration: no such table',
    ]);
    expect(rig.record.saves).toBe(0);
  });
});
