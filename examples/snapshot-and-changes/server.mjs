// 1. The data: a key and a JSON text each.
import { createServer } from 'node:http';
import { Limiter } from 'headgate/admission';
import { DataSet, formatPosition, parsePosition, payloadOf, planOf } from 'headgate/dataset';
import { closeEvent, Deliveries, Departure, eventBlock, exchangeOf } from 'headgate/delivery';
import { LiveGroup, liveLogOf, openEvent, trackRawSockets } from 'headgate/delivery';

const priceOf = (key, price) => ({ kind: 'price', key, version: 1, text: JSON.stringify({ ...price, version: 1 }) });
const prices = new DataSet({ name: 'prices', kinds: ['price'] });
const items = Array.from({ length: 100_000 }, (_, id) => priceOf(`item-${id}`, { name: `Item ${id}`, cents: id }));
await prices.replace(items);

// 2. What clients see of it: one event with everything, later events with what changed, each with a position.
const idOf = ({ digest, clock }) => formatPosition({ digest, clock, view: 'prices' });
const shape = { name: 'prices', separator: ',', entry: ({ key, text }) => `${JSON.stringify(key)}:${text}` };
const copyOf = (snapshot) =>
  planOf(`${openEvent('copy')}{`, { kind: 'price', shape }, `}${closeEvent(idOf(snapshot))}`);
const dataOf = (changes) => `{${changes.map(({ key, item }) => shape.entry(item ?? { key, text: 'null' }))}}`;
const changesOf = (changes, state) => eventBlock({ event: 'changes', data: dataOf(changes), id: idOf(state) });

// 3. The budget: copies at a time, clients that wait, readers that stopped and gave their slot on, bytes of old pages.
const bounds = { maxConcurrent: 32, maxQueued: 1000, waitMsMax: 10_000, maxParked: 256, maxPinnedBytes: 64 << 20 };
const limiter = new Limiter({ name: 'copies', ...bounds, pinnedBytes: () => prices.pinnedBytes });
prices.onFreed(() => limiter.recheck());
const deliveries = new Deliveries();

// 4. Live changes: every open stream is a cursor in the log.
const live = new LiveGroup({ log: liveLogOf(prices.log, 'live', (batch) => changesOf(batch.changes, batch)) });
prices.subscribe(() => live.publish());

// 5. A client comes. What it missed is in the log: it gets that. Else a full copy, under a slot.
async function follow(exchange) {
  const open = () => exchange.open(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  const since = prices.since(parsePosition(exchange.header('last-event-id') ?? ''));
  if (since.kind === 'current' || (since.kind === 'changes' && since.bytes < 256 * 1024)) {
    const channel = open();
    if (since.kind === 'changes') channel.send(since.memo('catch-up', () => changesOf(since.keys, since)));
    return live.add(channel, prices.log.next, channel);
  }
  const answer = await limiter.acquire({ signal: new Departure(exchange).signal });
  if (!answer.admitted) return exchange.reply(503, { 'retry-after': `${limiter.retryAfterSeconds()}` });
  const pin = prices.pin();
  const channel = open();
  const source = payloadOf(pin.snapshot, copyOf(pin.snapshot), 'identity');
  const parking = () => limiter.waiting > 0;
  const { outcome } = await deliveries.deliver({ channel, source, slot: answer.slot, parking });
  if (outcome === 'completed') live.add(channel, pin.snapshot.offset, channel);
  pin.release();
}

// 6. Somebody changes an item: PUT /prices/KEY.
async function change(exchange, key) {
  const item = priceOf(key, JSON.parse(await exchange.body(65_536)));
  await prices.apply([{ ...item, item }], 'effective');
  exchange.reply(204, {});
}

// 7. The server, and its end in good order.
const server = createServer((req, res) => {
  const exchange = exchangeOf(req, res, { rawSockets });
  const [, root, key] = exchange.path.split('/');
  if (root !== 'prices') exchange.reply(404, {});
  else if (exchange.method === 'PUT') change(exchange, key).catch((error) => exchange.reply(400, {}, error.message));
  else exchange.onTurn(() => void follow(exchange));
});
const rawSockets = trackRawSockets(server);
process.once('SIGTERM', () => {
  server.close();
  limiter.close();
  void live.closeAll({ overMs: 1000 });
});
const { PORT = 8040 } = process.env;
server.listen({ port: PORT, host: '127.0.0.1', backlog: 4096 }, () => console.log(JSON.stringify(server.address())));
