import { expect, it } from 'vitest';
import { FakeExchange } from '../../../test/support/flags-fakes.ts';
import { BodyRoom } from './body-room.ts';
import { EventRoutes } from './event-routes.ts';

/** A request whose body comes part by part, when the test says so. */
class SlowExchange extends FakeExchange {
  #onPart: ((bytes: number) => boolean) | undefined;
  #parts: Buffer[] = [];
  #bytesMax = 0;
  #resolve: (body: Buffer) => void = () => {};
  #reject: (error: Error) => void = () => {};

  override readonly method = 'POST';

  override body(bytesMax?: number, onPart?: (bytes: number) => boolean): Promise<Buffer> {
    this.#bytesMax = bytesMax ?? 0;
    this.#onPart = onPart;
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  part(bytes: number): void {
    this.#parts.push(Buffer.alloc(bytes));
    const whole = this.#parts.reduce((sum, { length }) => sum + length, 0);
    if (whole > this.#bytesMax || this.#onPart?.(bytes) !== true) this.fail();
  }

  finish(): void {
    this.#resolve(Buffer.concat(this.#parts));
  }

  fail(): void {
    this.#reject(new Error('no more'));
  }
}

it('bodies on their way share their room, and give it back however they end', async () => {
  const room = new BodyRoom(100);
  const exchanges = [new SlowExchange('/'), new SlowExchange('/'), new SlowExchange('/'), new SlowExchange('/')];
  const [whole, refused, left, large] = exchanges as [SlowExchange, SlowExchange, SlowExchange, SlowExchange];
  const reads = exchanges.map((exchange) => room.read(exchange, 60));
  whole.part(50);
  left.part(30);
  expect(room.bytesLeft).toBe(20);
  refused.part(21);
  expect(await reads[1]).toBe('no room');
  large.part(20);
  large.part(41);
  expect(await reads[3]).toBe('too large');
  expect(room.bytesLeft).toBe(20);
  left.channel.leave();
  left.fail();
  expect(await reads[2]).toBe('gone');
  whole.part(10);
  whole.finish();
  expect(await reads[0]).toHaveLength(60);
  expect(room.bytesLeft).toBe(100);
});

it('events that anybody sends slowly take a bounded room, and none from servers', async () => {
  const info = { id: 'env', name: 'env', sdkKeys: [{ value: 'sdk-test' }], envId: 'env', ttlMs: 0 };
  const routes = new EventRoutes({
    directory: { find: () => ({ environment: { info } }) },
    events: { accept: () => 'accepted' },
    bodyBytesMax: 1_000_000,
  }).routes();
  const post = (path: string): { exchange: SlowExchange; answered: Promise<void> } => {
    const exchange = new SlowExchange(path);
    const route = routes.find((one) => one.path === path);
    return { exchange, answered: Promise.resolve(route?.handle(exchange, { envId: 'env' })) };
  };
  const slow = Array.from({ length: 9 }, () => post('/events/bulk/:envId'));
  for (const { exchange } of slow) exchange.part(999_000);
  await slow[8]?.answered;
  expect(slow.map(({ exchange }) => exchange.status)).toEqual([...Array.from({ length: 8 }, () => 0), 503]);
  const ofServer = post('/bulk');
  ofServer.exchange.part(999_000);
  ofServer.exchange.finish();
  await ofServer.answered;
  expect(ofServer.exchange.status).toBe(202);
});
