/**
 * Three replicas behind a balancer during many changes, one killed, one held back by three seconds, one restarted: with a
 * Redis that they share, and with a store for each.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/replicas.js [--quick]
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { ReplicaClientKind } from '../test/support/replicas-clients.ts';
import { replicasStorm } from '../test/support/replicas-storm.ts';
import { ReplicasWorld } from '../test/support/replicas-world.ts';
import { exactly, machineLine, Table } from './report.ts';

const KINDS: readonly ReplicaClientKind[] = ['fdv1', 'fdv1-full', 'fdv2', 'fdv2-poll', 'fdv1-poll'];
const SETTLE_MS_MAX = 60_000;
const FLAGS = 500;
const PADDING = 400;

const options = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    clients: { type: 'string' },
    rate: { type: 'string' },
    seconds: { type: 'string' },
  },
});
// beside this program lies what it imports, and not the build that it measures
process.env['BENCH_DIST'] ??= join(import.meta.dirname, '..', '..', 'dist');
const { quick } = options.values;
const clients = Number(options.values.clients ?? (quick ? 20 : 300));
const rate = Number(options.values.rate ?? 100);
const seconds = Number(options.values.seconds ?? (quick ? 12 : 60));

async function run(store: 'redis' | 'own'): Promise<Table> {
  const table = new Table(
    `${clients} clients of each kind, ${rate} changes/s for ${seconds} s, ${store === 'redis' ? 'a shared Redis' : 'a store each'}`,
  );
  const world = await ReplicasWorld.start({ store, flags: FLAGS, padding: PADDING });
  try {
    await world.connect(KINDS, clients, { pollMs: 2000, stayMsMax: 20_000 });
    const cpu = process.cpuUsage();
    table.add('changes', await replicasStorm(world, rate, seconds));
    const isSettled = await world.settled(SETTLE_MS_MAX);
    const { user, system } = process.cpuUsage(cpu);
    const digests = new Set(world.clients.map(({ digest }) => digest));
    table.add('every client at one position (1: yes)', Number(isSettled && digests.size === 1), exactly(1));
    const missing = world.clients.filter(({ view }) => view.differing.length > 0).length;
    table.add('clients that miss a change', missing, exactly(0));
    const back = world.clients.reduce((sum, { view }) => sum + view.stepsBack, 0);
    table.add('steps back, as clients saw them', back, store === 'redis' ? exactly(0) : undefined);
    for (const kind of KINDS) addKind(table, world, kind);
    table.add('CPU of clients and upstream, s', (user + system) / 1e6);
  } finally {
    await world.stop();
  }
  return table;
}

function addKind(table: Table, world: ReplicasWorld, kind: ReplicaClientKind): void {
  const all = world.clients.filter((client) => client.kind === kind);
  const sum = (of: (client: (typeof all)[number]) => number): number =>
    all.reduce((total, client) => total + of(client), 0);
  table.add(`${kind}: bytes per client`, Math.round(sum(({ bytes }) => bytes) / all.length));
  table.add(`${kind}: connects per client`, sum(({ connects }) => connects) / all.length);
  table.add(`${kind}: full copies per client`, sum(({ fulls }) => fulls) / all.length);
  table.add(
    `${kind}: refused (503)`,
    sum(({ statuses }) => statuses.get(503) ?? 0),
  );
}

console.log(machineLine());
for (const store of ['redis', 'own'] as const) (await run(store)).print();
