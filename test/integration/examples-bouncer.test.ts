import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { Examples } from '../support/example-process.ts';

const WAIT_MS_MAX = 20_000;
const TEST_MS_MAX = 60_000;

describe('the bouncer of the examples', () => {
  // fails when it does not catch, and when it takes a start that was refused for one
  it(
    'goes on when it was refused, cut off or reset, and starts with everything until it has that',
    async () => {
      const entry = { id: 1, type: 'ban', value: '192.0.2.7' };
      const asked: (string | undefined)[] = [];
      const server = createServer((req, res) => {
        const at = asked.push(req.url);
        if (at === 1) res.writeHead(503, { 'retry-after': '0' }).end();
        else if (at === 2) req.socket.resetAndDestroy();
        else if (at === 3) res.end(JSON.stringify({ new: [entry], deleted: null }));
        else if (at === 4) res.write('{"new":[', () => req.socket.resetAndDestroy());
        else res.end(JSON.stringify({ new: null, deleted: [entry] }));
      });
      await once(server.listen(0, '127.0.0.1'), 'listening');
      using examples = new Examples();
      const { port } = server.address() as AddressInfo;
      const bouncer = examples.run('decisions/bouncer.mjs', [`http://127.0.0.1:${port}`]);
      await bouncer.waitFor('a ban', (line) => line['0'] === 'ban 192.0.2.7', { msMax: WAIT_MS_MAX });
      await bouncer.waitFor('its end', (line) => Object.keys(line).length === 0, { msMax: WAIT_MS_MAX });
      const startups = asked.slice(0, 5).map((url) => url?.replace(/^.*startup=/, ''));
      expect(startups).toEqual(['true', 'true', 'true', 'false', 'false']);
      await bouncer.stop('SIGKILL');
      server.close();
    },
    TEST_MS_MAX,
  );
});
