import { afterEach, describe, expect, it } from 'vitest';
import {
  type ClientSideRig,
  ENV_ID,
  encoded,
  members,
  startClientSide,
  valued,
} from '../../../../test/support/clientside-rig.ts';
import { turns } from '../../../../test/support/conditions.ts';
import { gone, put } from '../../../../test/support/flags-items.ts';
import type { SseReader } from '../../../../test/support/sse-reader.ts';

const pathOf = (context: object): string => `/sdk/stream/eval/${encoded(context)}?auth=${ENV_ID}`;

let rig: ClientSideRig | undefined;
afterEach(async () => {
  await rig?.stop();
  rig = undefined;
});

/** What a client's program holds: the values of the last state that was completed. */
class Holder {
  readonly values = new Map<string, string>();
  state = '';
  fulls = 0;
  #draft: Map<string, string> | undefined;
  #taken = 0;

  take({ events }: SseReader): this {
    for (; this.#taken < events.length; this.#taken++) {
      const event = events[this.#taken];
      const data = JSON.parse(event?.data ?? '') as Record<string, never>;
      if (event?.event === 'server-intent') this.#intent(data['payloads']?.[0]?.['intentCode'] ?? '');
      else if (event?.event === 'put-object') this.#change().set(data['key'] ?? '', data['object']?.['value'] ?? '');
      else if (event?.event === 'delete-object') this.#change().delete(data['key'] ?? '');
      else if (event?.event === 'payload-transferred') this.#complete();
      if (event?.id !== undefined) this.state = event.id;
    }
    return this;
  }

  /** For a stream of its own. */
  reconnected(): void {
    this.#taken = 0;
    this.#draft = undefined;
  }

  #intent(code: string): void {
    this.#draft = code === 'xfer-full' ? new Map() : undefined;
    if (code === 'xfer-full') this.fulls++;
  }

  #change(): Map<string, string> {
    this.#draft ??= new Map(this.values);
    return this.#draft;
  }

  #complete(): void {
    if (this.#draft === undefined) return;
    this.values.clear();
    for (const [key, value] of this.#draft) this.values.set(key, value);
    this.#draft = undefined;
  }
}

/** A reproducible sequence: mulberry32. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe('whatever happens', () => {
  it.each([1, 2, 3, 4, 5, 6])('a client ends with the values of its context (seed %i)', async (seed) => {
    const random = randomOf(seed);
    const pick = (count: number): number => Math.floor(random() * count);
    const one = await startClientSide({ front: { logBatchesMax: 6 }, side: { evaluationsMax: 2 } });
    rig = one;
    await one.load([valued('b', 1, { value: 'out', segment: { key: 's', value: 'in' } }), members('s', 1, [])]);
    const contexts = ['me', 'you', 'they'].map((key) => ({ kind: 'user', key }));
    const clients = await Promise.all(
      contexts.map(async (context) => ({ context, holder: new Holder(), stream: await one.stream(pathOf(context)) })),
    );
    const history = [one.environment.data.snapshot()];
    let at = 0;
    let version = 2;
    for (let step = 0; step < 60; step++) {
      version++;
      const kind = pick(10);
      const key = `flag-${pick(5)}`;
      const sees = pick(4) === 0 ? [] : (['client'] as const);
      if (kind < 5)
        await one.apply(put(valued(key, version, { value: `v${version}`, sees, byKey: { me: `me${pick(3)}` } })));
      else if (kind < 6) await one.apply(gone('flags', key, version));
      else if (kind < 8) await one.apply(put(members('s', version, pick(2) === 0 ? ['me'] : ['you'])));
      else if (kind < 9)
        await one.apply(put(valued('b', version, { value: 'out', segment: { key: 's', value: `in${version}` } })));
      else {
        // a rollback: the log is broken
        const flag = one.environment.data.snapshot().get('flags', 'b');
        if (flag !== undefined) await one.apply(put(valued('b', flag.version, { value: `back${version}` })));
      }
      // an evaluator that follows the data at a pace of its own, and never goes back
      history.push(one.environment.data.snapshot());
      at = Math.max(at, history.length - 1 - pick(4));
      one.evaluator.snapshot = history[at];
      await turns(pick(6));
      const client = clients[pick(12)];
      if (client === undefined) continue;
      client.holder.take(client.stream).reconnected();
      const basis = client.holder.state === '' ? '' : `&basis=${client.holder.state}`;
      client.stream = await one.stream(`${pathOf(client.context)}${basis}`);
    }
    one.evaluator.snapshot = undefined;
    await one.apply(put(valued('last', version + 1, { value: 'the end' })));
    for (const { context, holder, stream } of clients) {
      await stream.until('the end', () => holder.take(stream).values.get('last') === 'the end');
      const { flags } = await one.evaluator.evaluate({
        environmentId: ENV_ID,
        context: JSON.stringify(context),
        audience: 'client',
        withReasons: false,
      });
      const right = flags.map(({ key, fields }) => [key, (JSON.parse(`{${fields}}`) as { value: string }).value]);
      expect(Object.fromEntries(holder.values)).toEqual(Object.fromEntries(right));
    }
  });
});
