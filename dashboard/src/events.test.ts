import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventParser } from './events.ts';

describe('an event stream', () => {
  it('is taken apart into names and data', () => {
    const events = new EventParser().feed('event: state\ndata: {"a":1}\n\nevent:bucket\r\ndata:x\r\ndata: y\r\n\r\n');
    expect(events).toEqual([
      { name: 'state', data: '{"a":1}' },
      { name: 'bucket', data: 'x\ny' },
    ]);
  });

  it('has comments, fields that mean nothing here, and events without data, none of which is told', () => {
    expect(new EventParser().feed(': hello\n\nid: 7\nretry: 5\nevent: nothing\n\ndata\n\n')).toEqual([
      { name: '', data: '' },
    ]);
  });

  it('is the same wherever the network cuts it', () => {
    const text =
      'event: state\r\ndata: one\r\n\r\n: beat\n\nevent: bucket\ndata: two\ndata: three\n\ndata: four\r\n\r\n';
    const whole = new EventParser().feed(text);
    fc.assert(
      fc.property(fc.array(fc.nat({ max: text.length }), { maxLength: 12 }), (cuts) => {
        const parser = new EventParser();
        const ends = [...cuts.toSorted((a, b) => a - b), text.length];
        const events = ends.flatMap((end, at) => parser.feed(text.slice(ends[at - 1] ?? 0, end)));
        expect(events).toEqual(whole);
      }),
    );
  });

  // Fails when the check of the length is removed.
  it('does not fill the memory of the page with an event that never ends', () => {
    const line = `data: ${'x'.repeat(1024 * 1024)}\n`;
    const parser = new EventParser();
    expect(() => {
      for (let times = 0; times < 9; times++) parser.feed(line);
    }).toThrow(/^Cannot read an event: expected at most/);
    expect(() => new EventParser().feed('x'.repeat(9 * 1024 * 1024))).toThrow(/^Cannot read an event/);
  });
});
