import { afterEach, describe, expect, it } from 'vitest';
import {
  type ClientSideRig,
  ENV_ID,
  encoded,
  type RigOptions,
  startClientSide,
  valued,
} from '../../../../test/support/clientside-rig.ts';
import { until } from '../../../../test/support/conditions.ts';
import { FakeExchange } from '../../../../test/support/flags-fakes.ts';
import { put } from '../../../../test/support/flags-items.ts';

const ME = { kind: 'user', key: 'me' };
const PATH = `/sdk/stream/eval/${encoded(ME)}?auth=${ENV_ID}`;

let rig: ClientSideRig | undefined;
afterEach(async () => {
  await rig?.stop();
  rig = undefined;
});

async function start(options: RigOptions = {}): Promise<ClientSideRig> {
  rig = await startClientSide(options);
  await rig.load([valued('a', 1, { value: 'one' })]);
  return rig;
}

/** A request whose body comes when the test says so. */
class SlowExchange extends FakeExchange {
  override readonly method = 'REPORT';
  #come: (body: Buffer) => void = () => {};
  readonly #body = new Promise<Buffer>((resolve) => {
    this.#come = resolve;
  });

  override body(): Promise<Buffer> {
    return this.#body;
  }

  come(context: object): void {
    this.#come(Buffer.from(JSON.stringify(context)));
  }
}

describe('an environment that goes while the context of a request is on its way', () => {
  it.each([
    ['/eval/:envId', `/eval/${ENV_ID}`],
    ['/sdk/stream/eval', `/sdk/stream/eval?auth=${ENV_ID}`],
    ['/sdk/evalx/:envId/context', `/sdk/evalx/${ENV_ID}/context`],
  ])('gets no stream and no evaluation by %s', async (route, target) => {
    const one = await start();
    const exchange = new SlowExchange(target, { 'content-type': 'application/json', authorization: '' });
    const handle = one.side.routes().find(({ path, methods }) => path === route && methods.includes('REPORT'))?.handle;
    const answered = handle?.(exchange, { envId: ENV_ID });
    one.front.remove(ENV_ID);
    exchange.come(ME);
    await answered;
    expect([exchange.status, exchange.headers['retry-after']]).toEqual([503, '1']);
    expect([one.side.streams, one.evaluator.asked.length]).toEqual([0, 0]);
  });
});

describe('a context', () => {
  it('that would hold the event loop is refused, however large the bodies of events may be', async () => {
    const one = await start({ side: { bodyBytesMax: 5 * 1024 * 1024 } });
    const context = (bytes: number): string => {
      const text = JSON.stringify({ ...ME, about: '' });
      return text.replace('""', `"${'x'.repeat(bytes - text.length)}"`);
    };
    const path = `/sdk/evalx/${ENV_ID}/context`;
    expect((await one.report(path, context(128 * 1024)).whole()).status).toBe(200);
    expect((await one.report(path, context(128 * 1024 + 1)).whole()).status).toBe(413);
  });
});

describe('a thread that ended while it was found out what a change leads to', () => {
  it('costs no stream its catch-up for longer than that', async () => {
    const one = await start();
    const stream = await one.stream(PATH);
    const { id } = await stream.event(3);
    const affected = one.evaluator.affected.bind(one.evaluator);
    let asked = 0;
    Object.assign(one.evaluator, {
      affected: async (...question: Parameters<typeof affected>) => {
        if (asked++ === 0) throw new Error('a thread ended');
        return affected(...question);
      },
    });
    await one.apply(put(valued('a', 2, { value: 'two' })));
    expect((await stream.reply.ended()).over).toBe('cut');
    const again = await one.stream(PATH, { 'last-event-id': id ?? '' });
    expect((await again.event(2)).json).toMatchObject({ key: 'a', version: 2 });
    expect(asked).toBe(2);
  });
});

describe('where big segments have a say', () => {
  it('the position of another context is none, though its data be the same', async () => {
    const one = await start();
    one.evaluator.revision = 'r1';
    const { id = '' } = await (await one.stream(PATH)).event(3);
    const same = await one.stream(PATH, { 'last-event-id': id });
    expect((await same.event(1)).json).toMatchObject({ payloads: [{ intentCode: 'none' }] });
    const path = `/sdk/stream/eval/${encoded({ kind: 'user', key: 'other' })}?auth=${ENV_ID}`;
    const other = await one.stream(path, { 'last-event-id': id });
    expect((await other.event(1)).json).toMatchObject({ payloads: [{ intentCode: 'xfer-full' }] });
  });
});

describe('goals', () => {
  it('are asked for by a bounded number at a time', async () => {
    const release: (() => void)[] = [];
    const goals = (): Promise<{ status: number; headers: Record<string, string>; body: Uint8Array }> =>
      new Promise((resolve) => {
        release.push(() => resolve({ status: 200, headers: {}, body: Buffer.from('[]') }));
      });
    const one = await start({ side: { goals } });
    const replies = Array.from({ length: 32 }, () => one.ask(`/sdk/goals/${ENV_ID}`));
    await until('all asked', () => release.length === 32);
    const refused = await one.get(`/sdk/goals/${ENV_ID}`);
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1']);
    for (const go of release.splice(0)) go();
    for (const reply of replies) expect((await reply.whole()).status).toBe(200);
    const after = one.ask(`/sdk/goals/${ENV_ID}`);
    await until('one more', () => release.length === 1);
    release[0]?.();
    expect((await after.whole()).body).toBe('[]');
  });
});
