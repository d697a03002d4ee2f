import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Change, Item } from '../dataset/index.ts';
import { readEvents } from '../outbound/index.ts';
import { Envelope } from './upstream-envelope.ts';
import { Fdv1Reader } from './upstream-fdv1.ts';
import { Fdv2Reader } from './upstream-fdv2.ts';
import { takeEvents } from './upstream-poll.ts';
import type { UpstreamSink } from './upstream-sink.ts';

/** Writes down what it is told. */
class Notes implements UpstreamSink {
  readonly told: unknown[] = [];

  async replace(items: AsyncIterable<Item>, state: string | undefined): Promise<void> {
    const taken: Item[] = [];
    for await (const item of items) taken.push(item);
    this.told.push({ replace: taken, state });
  }

  async apply(changes: readonly Change[], state: string | undefined): Promise<void> {
    this.told.push({ apply: changes, state });
  }

  async applyRising(changes: readonly Change[]): Promise<void> {
    for (const change of changes) this.told.push({ rising: change });
  }

  async current(): Promise<void> {
    this.told.push('current');
  }
}

async function* pieces(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  for (const [at, from] of [0, ...places].entries()) yield bytes.subarray(from, places[at] ?? bytes.length);
}

interface Written {
  readonly name: string;
  readonly data: string;
}

const stream = (events: readonly Written[]): Buffer =>
  Buffer.from(
    events.map(({ name, data }) => `event: ${name}\ndata: ${data.replaceAll('\n', '\ndata: ')}\n\n`).join(''),
  );

async function read(
  protocol: 'fdv1' | 'fdv2',
  events: readonly Written[],
  cuts: readonly number[] = [],
  hasBasis = false,
): Promise<unknown[]> {
  const notes = new Notes();
  const Reader = protocol === 'fdv1' ? Fdv1Reader : Fdv2Reader;
  const reader = new Reader('test', notes, hasBasis);
  for await (const event of readEvents(pieces(stream(events), cuts))) await reader.take(event);
  return notes.told;
}

const json = (value: unknown): string => JSON.stringify(value);
const put = (data: unknown): Written => ({ name: 'put', data: json({ path: '/', data }) });
const intent = (intentCode: string): Written => ({
  name: 'server-intent',
  data: json({ payloads: [{ id: 'p', target: 1, intentCode }] }),
});
const object = (kind: string, key: string, version: number, value: unknown): Written => ({
  name: 'put-object',
  data: json({ kind, key, version, object: value }),
});
const transferred = (state: string): Written => ({ name: 'payload-transferred', data: json({ state, version: 1 }) });

const anyText = fc.string({
  unit: fc.constantFrom('a', '"', '\\', '{', '}', '[', ']', ',', ':', ' ', 'é', '\u{1F600}', '\n'),
});
const anyValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    anyText,
    fc.integer(),
    fc.constantFrom(true, false, null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(anyText, tie('value'), { maxKeys: 3 }),
  ),
})).value;
const anyItem = fc.record({ version: fc.nat(), data: anyValue, on: fc.boolean(), unknown: anyValue });
const anyKey = fc.string({ minLength: 1, unit: fc.constantFrom('a', 'b', '/', '"', 'é', '{') });
const anyItems = fc.dictionary(anyKey, anyItem, { maxKeys: 4 });
const anyCuts = fc.array(fc.nat(), { maxLength: 20 });

describe('events cut anywhere are read alike', () => {
  it('in FDv1', async () => {
    const world = fc.record({ flags: anyItems, segments: anyItems, item: anyItem, key: anyKey });
    await fc.assert(
      fc.asyncProperty(world, anyCuts, fc.constantFrom(undefined, 1), async (all, cuts, indent) => {
        const { flags, segments, item, key } = all;
        const text = (value: unknown): string => JSON.stringify(value, undefined, indent);
        const events = [
          { name: 'put', data: text({ path: '/', data: { flags, segments }, more: 1 }) },
          { name: 'patch', data: text({ path: `/flags/${key}`, data: item }) },
          { name: 'delete', data: text({ path: `/segments/${key}`, version: 9 }) },
        ];
        const whole = await read('fdv1', events);
        expect(await read('fdv1', events, cuts)).toEqual(whole);
        const [full, change] = whole as [{ replace: Item[] }, { rising: Change }];
        expect(full.replace.map((one) => JSON.parse(one.text) as unknown)).toEqual(
          [...Object.entries(flags), ...Object.entries(segments)].map(([name, value]) => ({ key: name, ...value })),
        );
        expect(JSON.parse(change.rising.item?.text ?? '')).toEqual({ key, ...item });
      }),
      { numRuns: 200 },
    );
  });

  it('in FDv2, from a stream and from a poll', async () => {
    await fc.assert(
      fc.asyncProperty(anyItems, anyCuts, async (flags, cuts) => {
        const objects = Object.entries(flags).map(([key, value]) => object('flag', key, value.version, value));
        const events = [intent('xfer-full'), ...objects, transferred('s1')];
        const whole = await read('fdv2', events);
        expect(await read('fdv2', events, cuts)).toEqual(whole);
        const notes = new Notes();
        const body = `{"events": [${events.map(({ name, data }) => `{"event":${json(name)}, "data":${data}}`).join(' ,\n')}]}`;
        const reply = { body: pieces(Buffer.from(body), cuts) };
        expect(await takeEvents('test', reply, new Fdv2Reader('test', notes, false))).toBe(true);
        expect(notes.told).toEqual(whole);
      }),
      { numRuns: 200 },
    );
  });
});

describe('the envelope of a large member', () => {
  const outcome = (text: string): unknown => {
    const envelope = new Envelope('it', 'data');
    const part = envelope.push(Buffer.from(text));
    return [part?.toString(), envelope.finish()];
  };

  it('is the rest of the object, wherever the member stands and whatever looks like it', () => {
    expect(outcome('{"data":{"a":"}"},"path":"/"}')).toEqual(['{"a":"}"}', { path: '/' }]);
    expect(outcome('{"x":{"data":{}},"y":"data","data" : [1,{}] }')).toEqual([
      '[1,{}]',
      { x: { data: {} }, y: 'data' },
    ]);
    expect(outcome('{"path":"\\"data\\":","data":5}')).toEqual([undefined, { path: '"data":', data: 5 }]);
  });

  it('is refused when it is none', () => {
    for (const text of [
      '',
      '[]',
      'null',
      '{"data":{}',
      '{"data":{}}}',
      '{"data":{},"data":{}}',
      '{"data":{} 1}',
      '{"data"{}}',
    ]) {
      expect(() => outcome(text)).toThrow(expect.objectContaining({ code: 'HG_SOURCE' }));
    }
    const large = json({ other: 'x'.repeat(70_000), data: {} });
    expect(() => outcome(large)).toThrow(/may have 65536 bytes/);
  });
});

describe('FDv1', () => {
  it('ignores what nobody knows', async () => {
    const unknown = [
      { name: 'put', data: json({ path: '/other', data: { flags: { a: {} } } }) },
      { name: 'patch', data: json({ path: '/other/a', data: { version: 1 } }) },
      { name: 'delete', data: json({ path: '/other/a', version: 1 }) },
      { name: 'hello', data: 'no JSON' },
    ];
    expect(await read('fdv1', unknown, [], true)).toEqual([]);
    const more = await read('fdv1', [put({ flags: { a: { version: 2 } }, others: { b: {} } })]);
    expect(more).toEqual([
      { replace: [{ kind: 'flags', key: 'a', version: 2, text: '{"key":"a","version":2}' }], state: undefined },
    ]);
  });

  it('takes a deleted item for a deletion', async () => {
    const [full, change] = await read('fdv1', [
      put({ flags: { a: { version: 2, deleted: true } } }),
      { name: 'patch', data: json({ path: '/flags/b', data: { version: 3, deleted: true } }) },
    ]);
    expect(full).toEqual({ replace: [], state: undefined });
    expect(change).toEqual({ rising: { kind: 'flags', key: 'b', version: 3, item: undefined } });
  });

  it.each([
    ['no JSON', { name: 'put', data: '{"path":"/","data":{"flags":{"a":{"version":1}' }],
    ['no data', { name: 'put', data: '{"path":"/"}' }],
    ['data of another kind', { name: 'put', data: '{"path":"/","data":7}' }],
    ['a strange path after the data', { name: 'put', data: '{"data":{},"path":"/x"}' }],
    ['a bad item', { name: 'put', data: '{"data":{"flags":{"a":1}}}' }],
    ['no item', { name: 'patch', data: '{"path":"/flags/a"}' }],
    ['no path', { name: 'patch', data: '{"data":{}}' }],
    ['no version', { name: 'delete', data: '{"path":"/flags/a"}' }],
    ['a version that is none', { name: 'delete', data: '{"path":"/flags/a","version":-1}' }],
  ])('refuses what has %s', async (_, event) => {
    await expect(read('fdv1', [event], [], true)).rejects.toMatchObject({ code: 'HG_SOURCE' });
  });

  it('refuses a change before the data', async () => {
    const patch = { name: 'patch', data: json({ path: '/flags/a', data: { version: 1 } }) };
    await expect(read('fdv1', [patch])).rejects.toThrow(/before the data/);
    expect(await read('fdv1', [put({}), patch])).toHaveLength(2);
  });
});

describe('FDv2', () => {
  it('tells nothing before the payload is there, and an item once, as it was said last', async () => {
    const started = [intent('xfer-full'), object('flag', 'a', 1, { version: 1 }), object('segment', 's', 1, {})];
    expect(await read('fdv2', started)).toEqual([]);
    const more = [
      object('flag', 'a', 2, { version: 2 }),
      { name: 'delete-object', data: json({ kind: 'segment', key: 's', version: 2 }) },
      transferred('s1'),
    ];
    expect(await read('fdv2', [...started, ...more])).toEqual([
      { replace: [{ kind: 'flags', key: 'a', version: 2, text: '{"key":"a","version":2}' }], state: 's1' },
    ]);
  });

  it('goes on with changes after a payload, without a word, and begins anew with an intent', async () => {
    const told = await read('fdv2', [
      intent('xfer-full'),
      transferred('s1'),
      { name: 'delete-object', data: json({ kind: 'flag', key: 'a', version: 2 }) },
      transferred('s2'),
      object('flag', 'lost', 1, {}),
      intent('xfer-full'),
      object('flag', 'b', 1, {}),
      transferred('s3'),
    ]);
    expect(told).toMatchObject([
      { replace: [], state: 's1' },
      { apply: [{ key: 'a', version: 2, item: undefined }], state: 's2' },
      { replace: [{ key: 'b' }], state: 's3' },
    ]);
  });

  it('says that all is as it was, and goes on from there', async () => {
    const events = [intent('none'), object('flag', 'a', 5, {}), transferred('s2')];
    const told = await read('fdv2', events, [], true);
    expect(told).toMatchObject(['current', { apply: [{ key: 'a', version: 5 }], state: 's2' }]);
    for (const code of ['none', 'xfer-changes']) {
      await expect(read('fdv2', [intent(code)])).rejects.toThrow(/nothing is held/);
    }
  });

  it('puts the version of the envelope into an object without one', async () => {
    const told = await read('fdv2', [
      intent('xfer-full'),
      object('flag', '"version":1', 7, { on: true }),
      transferred('s'),
    ]);
    expect(told).toMatchObject([
      { replace: [{ version: 7, text: '{"key":"\\"version\\":1","version":7,"on":true}' }] },
    ]);
    const own = await read('fdv2', [intent('xfer-full'), object('flag', 'a', 7, { version: 1 }), transferred('s')]);
    expect(own).toMatchObject([{ replace: [{ version: 7, text: '{"key":"a","version":1}' }] }]);
  });

  it('ignores kinds and events that nobody knows, and drops a payload on an error', async () => {
    const told = await read('fdv2', [
      intent('xfer-full'),
      object('surprise', 'a', 1, {}),
      { name: 'heart-beat', data: '{}' },
      { name: 'news', data: 'x' },
      object('flag', 'lost', 1, {}),
      { name: 'error', data: json({ payloadId: 'p', reason: 'busy' }) },
      intent('xfer-full'),
      object('flag', 'b', 1, {}),
      transferred('s1'),
    ]);
    expect(told).toMatchObject([{ replace: [{ key: 'b' }] }]);
  });

  it.each([
    ['an object without an intent', [object('flag', 'a', 1, {})]],
    ['the end of a payload without an intent', [transferred('s')]],
    ['an object after an error', [intent('xfer-full'), { name: 'error', data: '{}' }, object('flag', 'a', 1, {})]],
    ['no payloads', [{ name: 'server-intent', data: '{"payloads":[]}' }]],
    ['an intent that nobody knows', [intent('guess')]],
    ['no object', [intent('xfer-full'), { name: 'put-object', data: '{"kind":"flag","key":"a","version":1}' }]],
    ['no version', [intent('xfer-full'), { name: 'put-object', data: '{"kind":"flag","key":"a","object":{}}' }]],
    ['no key', [intent('xfer-full'), { name: 'delete-object', data: '{"kind":"flag","version":1}' }]],
    ['no state', [intent('xfer-full'), { name: 'payload-transferred', data: '{"version":1}' }]],
    ['no JSON', [{ name: 'server-intent', data: 'x' }]],
  ])('refuses %s', async (_, events) => {
    await expect(read('fdv2', events)).rejects.toMatchObject({ code: 'HG_SOURCE' });
  });

  it('leaves at a goodbye, with its reason', async () => {
    const bye = { name: 'goodbye', data: json({ reason: 'maintenance' }) };
    await expect(read('fdv2', [intent('xfer-full'), bye])).rejects.toThrow(/said goodbye, got "maintenance"/);
  });
});
