import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { type Content, contentOf } from './content.ts';

interface Watched {
  readonly content: Content;
  readonly told: string[];
  /** Waits until something more was told. */
  readonly next: () => Promise<void>;
}

function watch(kind: Parameters<typeof contentOf>[0], isGzip: boolean, mayCatchUp: boolean): Watched {
  const told: string[] = [];
  let wake = (): void => undefined;
  const tell = (what: string): void => {
    told.push(what);
    wake();
  };
  const sink = {
    onWhole: tell,
    onChange: () => tell('change'),
    onBasis: (state: string) => tell(`basis ${state}`),
    onBroken: (what: string) => tell(`broken: ${what}`),
    onPressure: () => undefined,
  };
  const next = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  return { content: contentOf(kind, isGzip, sink, mayCatchUp), told, next };
}

describe("a bouncer's answer", () => {
  const nothing = [
    '{"new": [], "deleted": []}',
    '{"deleted":null,"new":null}',
    ' {\n "new" : [ ] ,\n "deleted" : null }\n',
  ];
  const something = ['{"new": [{"id":1}], "deleted": []}', '{"new":null,"deleted":[{}]}', '', '{}', ' '.repeat(300)];

  // fails when every answer that ended counts as a full copy
  it.each([...nothing.map((text) => [text, 'current']), ...something.map((text) => [text, 'changes'])])(
    'is told from its body when it asked for what changed: %j',
    (text, copy) => {
      for (let at = 0; at <= text.length; at += Math.max(1, text.length - 1)) {
        const { content, told } = watch('bouncer', false, true);
        content.feed(Buffer.from(text.slice(0, at)));
        content.feed(Buffer.from(text.slice(at)));
        content.ended();
        expect(told).toEqual([copy]);
      }
    },
  );

  it('is everything when it asked for everything, whatever came', () => {
    const { content, told } = watch('bouncer', false, false);
    content.feed(Buffer.from(nothing[0] ?? ''));
    content.ended();
    expect(told).toEqual(['full']);
  });

  it('is inflated to be told', async () => {
    const { content, told, next } = watch('bouncer', true, true);
    content.feed(gzipSync(nothing[0] ?? ''));
    content.ended();
    await next();
    expect(told).toEqual(['current']);
  });
});

// fails when the end of what is compressed is taken for the end of the answer
it('a compressed poll is whole when its answer has ended, and not before', async () => {
  const { content, told, next } = watch('fdv2-poll', true, true);
  const body = '{"events":[{"event":"server-intent","data":{"payloads":[{"intentCode":"none"}]}}]}';
  content.feed(Buffer.concat([gzipSync(body), Buffer.alloc(12)]));
  // another one that is inflated beside it has ended by then
  const other = watch('fdv2-poll', true, true);
  other.content.feed(gzipSync(body));
  other.content.ended();
  await other.next();
  expect([other.told, told]).toEqual([['current'], []]);
  const ending = next();
  content.ended();
  await ending;
  expect(told).toEqual(['current']);
});
