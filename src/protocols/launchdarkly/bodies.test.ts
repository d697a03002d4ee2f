import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { FakeExchange } from '../../../test/support/flags-fakes.ts';
import { Bodies } from './bodies.ts';

class Posting extends FakeExchange {
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    super('/bulk', { 'content-encoding': 'gzip' });
    this.#bytes = bytes;
  }

  override body(): Promise<Buffer> {
    return Promise.resolve(this.#bytes);
  }
}

// Fails without the bound: the small body overtakes, since all are inflated a piece at a time.
it('no more than four bodies are inflated at once, since each may become as large as is allowed', async () => {
  const bodies = new Bodies(50_000_000);
  const large = gzipSync(Buffer.alloc(30_000_000));
  const ends: string[] = [];
  const read = async (name: string, bytes: Buffer): Promise<void> => {
    await bodies.read(new Posting(bytes));
    ends.push(name);
  };
  await Promise.all([...Array.from({ length: 4 }, () => read('large', large)), read('small', gzipSync('x'))]);
  expect(ends[0]).toBe('large');
  expect(ends.toSorted()).toEqual(['large', 'large', 'large', 'large', 'small']);
});

it('a body whose client has left is no body', async () => {
  const exchange = new Posting(gzipSync('x'));
  const reading = new Bodies(100).read(exchange);
  exchange.channel.leave();
  expect(await reading).toBeUndefined();
});
