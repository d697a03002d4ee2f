import { describe, expect, it } from 'vitest';
import { turns, until } from '../../../test/support/conditions.ts';
import { FakeExchange, fakeFront } from '../../../test/support/flags-fakes.ts';
import { flag, infoOf } from '../../../test/support/flags-items.ts';
import { DataSet, formatPosition } from '../../dataset/index.ts';
import { FakeClock } from '../../kernel/index.ts';
import type { Environment } from './environment.ts';
import { FlagsFront } from './front.ts';

const AHEAD_MS = 5000;
const ITEMS = [flag('a', 1), flag('b', 1)];

async function positionAfter(): Promise<string> {
  const data = new DataSet({ name: 'before', kinds: ['flags', 'segments'] });
  await data.replace(ITEMS);
  const { digest, clock } = data.snapshot();
  return formatPosition({ digest, clock, view: 'all' });
}

interface Setting {
  readonly clock: FakeClock;
  readonly front: FlagsFront;
  readonly environment: Environment;
  readonly open: (target: string, headers?: Record<string, string>) => FakeExchange;
}

/** A server that has just begun: it knows its environments, and has no data yet. */
function begin(): Setting {
  const clock = new FakeClock();
  const front = new FlagsFront({ ...fakeFront(), clock, aheadWaitMsMax: AHEAD_MS });
  const environment = front.upsert(infoOf('test'));
  const open = (target: string, headers = {}): FakeExchange => {
    const exchange = new FakeExchange(target, headers);
    const route = front.routes().find(({ path }) => path === exchange.path);
    void route?.handle(exchange, {});
    return exchange;
  };
  return { clock, front, environment, open };
}

describe('who comes before the first data and names a position', () => {
  it('is told what is missing once they are there, and not everything', async () => {
    const { front, environment, open } = begin();
    const position = await positionAfter();
    const node = { 'user-agent': 'NodeJSClient/9.13.7', 'last-event-id': position };
    const [one, other] = [open('/all', node), open(`/sdk/stream?basis=${position}`)];
    await turns(5);
    expect([one.answered, other.answered]).toEqual([false, false]);
    await environment.load(ITEMS, 'source');
    await until('both', () => environment.streams === 2);
    await until('their words', () => one.text.endsWith('\n\n') && other.text.endsWith('\n\n'));
    expect(one.text).not.toContain('event: put\n');
    expect(one.text).toContain('event: patch\n');
    expect(other.text).toContain('"intentCode":"none"');
    front.remove('test');
  });

  it('waits no longer than one who is ahead: then its stream is open, and is given everything', async () => {
    const { clock, front, environment, open } = begin();
    const stream = open('/sdk/stream', { 'last-event-id': await positionAfter() });
    await turns(5);
    clock.advance(AHEAD_MS - 1);
    await turns(5);
    expect(stream.answered).toBe(false);
    clock.advance(1);
    await until('its head', () => stream.answered);
    await environment.load(ITEMS, 'source');
    await until('everything', () => stream.text.includes('event: payload-transferred'));
    expect(stream.text).toContain('"intentCode":"xfer-full"');
    front.remove('test');
  });

  it('does not wait where it would be given everything anyway', async () => {
    const { front, open } = begin();
    const position = await positionAfter();
    const python = open('/all', { 'user-agent': 'PythonClient/9.20.0', 'last-event-id': position });
    const unnamed = open('/sdk/stream');
    await turns(5);
    expect([python.status, unnamed.status]).toEqual([200, 200]);
    front.remove('test');
  });

  it('that leaves meanwhile is not answered', async () => {
    const { front, environment, open } = begin();
    const stream = open('/sdk/stream', { 'last-event-id': await positionAfter() });
    stream.channel.leave();
    await environment.load(ITEMS, 'source');
    await turns(5);
    expect([stream.answered, environment.streams]).toEqual([false, 0]);
    front.remove('test');
  });
});
