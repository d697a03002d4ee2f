import { describe, expect, it } from 'vitest';
import { FakeExchange } from '../../test/support/flags-fakes.ts';
import { Departure } from './departure.ts';

describe('a departure', () => {
  it('is told when the client leaves before its reply is complete', () => {
    const exchange = new FakeExchange('/');
    using departure = new Departure(exchange);
    expect(departure.signal.aborted).toBe(false);
    exchange.channel.leave();
    expect(departure.signal.aborted).toBe(true);
  });

  it('is told at once of a client that has left', () => {
    const exchange = new FakeExchange('/');
    exchange.channel.leave();
    using departure = new Departure(exchange);
    expect(departure.signal.aborted).toBe(true);
  });

  // fails when `complete` is not looked at
  it('is none where the reply was complete', () => {
    const exchange = new FakeExchange('/');
    using departure = new Departure(exchange);
    exchange.channel.end();
    expect(departure.signal.aborted).toBe(false);
  });

  // fails when the listener is not taken back
  it('is not looked for once it is disposed of', () => {
    const exchange = new FakeExchange('/');
    const departure = new Departure(exchange);
    departure[Symbol.dispose]();
    exchange.channel.leave();
    expect(departure.signal.aborted).toBe(false);
  });
});
