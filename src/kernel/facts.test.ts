import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it, vi } from 'vitest';
import { Fact } from './facts.ts';

describe('Fact', () => {
  // Fails when the `hasSubscribers` check in `publish` is removed.
  it('is not even made while nobody listens', () => {
    const make = vi.fn<() => { n: number }>(() => ({ n: 1 }));
    new Fact('headgate:test.unheard').publish(make);
    expect(make).not.toHaveBeenCalled();
  });

  it('reaches each listener, whichever object of that name it is published on', () => {
    const heard: number[] = [];
    const listening = new Fact<{ n: number }>('headgate:test.heard');
    const stops = [listening.listen(({ n }) => heard.push(n)), listening.listen(({ n }) => heard.push(-n))];
    new Fact<{ n: number }>('headgate:test.heard').publish(() => ({ n: 1 }));
    expect(heard).toEqual([1, -1]);
    stops[0]?.();
    listening.publish(() => ({ n: 2 }));
    expect(heard).toEqual([1, -1, -2]);
    stops[1]?.();
    listening.publish(() => ({ n: 3 }));
    expect(heard).toEqual([1, -1, -2]);
  });

  it('can be heard from outside by its name on node:diagnostics_channel', () => {
    const heard: unknown[] = [];
    const listener = (message: unknown): number => heard.push(message);
    subscribe('headgate:test.outside', listener);
    new Fact<{ n: number }>('headgate:test.outside').publish(() => ({ n: 1 }));
    unsubscribe('headgate:test.outside', listener);
    expect(heard).toEqual([{ n: 1 }]);
  });
});
