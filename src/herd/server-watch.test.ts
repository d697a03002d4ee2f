import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { ServerWatch } from './server-watch.ts';
import { findTarget } from './target.ts';

const closing: (() => unknown)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function watchOf(answers: readonly string[]): Promise<ServerWatch> {
  let asked = 0;
  const server = createServer((_, response) => response.end(answers[asked++] ?? ''));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new ServerWatch(await findTarget(url, { name: '--admin', allowRemote: false }), undefined);
}

const page = (started: number, admitted: number, refused: string): string =>
  `process_start_time_seconds ${started}\nheadgate_admission_admitted_total ${admitted}\n${refused}`;

describe('what a server says', () => {
  // fails when what it counted at first is taken from what it counts at last
  it('is counted on when it was started again in between', async () => {
    const watch = await watchOf([
      page(1, 100, 'headgate_refusals_total{reason="full"} 50\n'),
      page(1, 130, 'headgate_refusals_total{reason="full"} 53\n'),
      page(2, 5, ''),
      page(2, 8, 'headgate_refusals_total{reason="timeout"} 2\n'),
    ]);
    await watch.begin();
    for (let looks = 0; looks < 3; looks++) await watch.look();
    expect(watch.report()).toMatchObject({ restarts: 1, admitted: 38, refused: { full: 3, timeout: 2 }, asked: 4 });
  });
});
