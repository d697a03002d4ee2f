import { createParser, type EventSourceMessage } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockOf, closeEvent, encodeComment, encodeEvent, eventBlock, openEvent, type SseEvent } from './sse.ts';

function parse(text: string): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => void events.push(event) }).feed(text);
  return events;
}

describe('an event', () => {
  it('has its id as the last field, so that a cut event leaves no position behind', () => {
    expect(encodeEvent({ event: 'put', data: '{"a":1}', id: '7', retryMs: 500 })).toBe(
      'retry: 500\nevent: put\ndata: {"a":1}\nid: 7\n\n',
    );
  });

  it('may be data alone, and empty', () => {
    expect(encodeEvent({ data: '' })).toBe('data: \n\n');
  });

  it('splits data at every kind of line break', () => {
    expect(encodeEvent({ data: 'a\nb\r\nc\rd' })).toBe('data: a\ndata: b\ndata: c\ndata: d\n\n');
  });

  it('is read back by a parser as it was, line breaks as LF', () => {
    const line = fc.string({ unit: 'grapheme' });
    const id = line.filter((text) => !/[\0\r\n]/.test(text) && text !== '');
    fc.assert(
      fc.property(line, id, (data, lastId) => {
        const [event] = parse(encodeEvent({ event: 'patch', data, id: lastId }));
        expect(event).toEqual({ event: 'patch', data: data.replaceAll(/\r\n|\r/g, '\n'), id: lastId });
      }),
    );
  });

  it('can be sent in pieces', () => {
    expect(openEvent('put') + '{}' + closeEvent('7')).toBe(encodeEvent({ event: 'put', data: '{}', id: '7' }));
    expect(openEvent() + '{}' + closeEvent()).toBe(encodeEvent({ data: '{}' }));
  });

  it.each<[string, SseEvent]>([
    ['a name of two lines', { event: 'a\nb', data: '' }],
    ['an id with LF', { data: '', id: 'a\n' }],
    ['an id with CR', { data: '', id: '\ra' }],
    ['an id with NUL', { data: '', id: 'a\0' }],
    ['half a millisecond', { data: '', retryMs: 0.5 }],
    ['a negative retry', { data: '', retryMs: -1 }],
  ])('is refused with %s', (_, event) => {
    expect(() => encodeEvent(event)).toThrow(/^Cannot write an event: .*, got /);
  });
});

describe('a comment', () => {
  it('is a colon and a line feed, and no event', () => {
    expect(encodeComment()).toBe(':\n');
    expect(encodeComment('hello')).toBe(':hello\n');
    expect(parse(`${encodeComment()}${encodeEvent({ data: 'x' })}`)).toHaveLength(1);
    expect(() => encodeComment('a\nb')).toThrow('Cannot write a comment: it must be one line, got "a\\nb"');
  });
});

describe('a block', () => {
  it('is its bytes, and the same as one chunk, of text and of bytes alike', () => {
    const text = 'é'.repeat(9);
    for (const block of [blockOf(text), blockOf(Buffer.from(text))]) {
      expect(Buffer.from(block.bytes).toString()).toBe(text);
      expect(Buffer.from(block.chunk).toString()).toBe(`12\r\n${text}\r\n`);
    }
  });

  it('shares one memory of its own between both forms', () => {
    const { bytes, chunk } = blockOf('abc');
    expect(bytes.buffer).toBe(chunk.buffer);
    expect(chunk.buffer.byteLength).toBe(chunk.byteLength);
  });

  // RFC 9112, section 7.1: a chunk of length zero is the last one. Fails when the empty case is removed.
  it('of nothing is no chunk, since that would end the response', () => {
    expect(blockOf('').chunk.byteLength).toBe(0);
    expect(blockOf(new Uint8Array(0)).bytes.byteLength).toBe(0);
  });

  it('can be made of an event', () => {
    expect(Buffer.from(eventBlock({ data: 'x' }).bytes).toString()).toBe('data: x\n\n');
  });
});
