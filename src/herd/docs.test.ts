import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { herdOptions, runHerd } from './index.ts';

const docs = readFileSync(new URL('../../docs/herd.md', import.meta.url), 'utf8');
const main = readFileSync(new URL('../cli/main.ts', import.meta.url), 'utf8');

it('has every member of a report in docs/herd.md, and no other', async () => {
  const server = createServer((_, response) => response.end('{}'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const parts = [{ kind: 'fdv1-poll', weight: 1 }] as const;
  const report = await runHerd(herdOptions(url, { parts, keys: ['sdk-1'], clients: 2 }), { version: '1.0.0' });
  server.closeAllConnections();
  server.close();
  const table = docs.slice(docs.indexOf('| member |'));
  const rows = new Map(
    [...table.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)].map(([, name = '', text = '']) => [name, text]),
  );
  expect([...rows.keys()]).toEqual(Object.keys(report));
  for (const [name, value] of Object.entries(report)) {
    // counts by name have names of their own, and a spread is told once
    const isSpread = typeof value === 'object' && value !== null && 'p90' in value;
    if (typeof value !== 'object' || value === null || isSpread) continue;
    for (const member of Object.keys(value as object))
      expect([name, rows.get(name)]).toEqual([name, expect.stringContaining(`\`${member}\``)]);
  }
});

it('has every option of the command in docs/herd.md', () => {
  const command = main.slice(main.indexOf(".command('herd')"));
  const options = [...command.matchAll(/'(--[a-z-]+)(?: <\w+>)?'/g)].map(([, name]) => name);
  expect(options.length).toBeGreaterThan(20);
  expect(options.filter((name) => name !== '--reconnect' && !docs.includes(`\`${name}`))).toEqual([]);
});
