import { createAdaptorServer } from '@hono/node-server';
import { Hono } from 'hono';
import { Copies, copyOf, deliver, limitDeliveries } from 'headgate/middleware/hono';
import { readRows } from '../rows.mjs';

const copies = new Copies({ maxConcurrent: 8, maxQueued: 50, waitMsMax: 10_000 });
const app = new Hono();

app.get('/export', limitDeliveries(copies), async (c) => {
  const rows = await readRows(copyOf(c).signal);
  return deliver(c, JSON.stringify(rows), { headers: { 'content-type': 'application/json' } });
});
app.get('/', (c) => c.json(copies.stats()));
app.onError((error, c) => {
  // the work for a client that has left fails, and nobody needs to know
  if (!c.env.outgoing.destroyed) console.error(error);
  return c.text('Internal Server Error', 500);
});

const server = createAdaptorServer({ fetch: app.fetch });
copies.attach(server);

async function stop() {
  copies.close();
  await copies.drain(10_000);
  server.close();
}
process.once('SIGTERM', () => void stop());
const { PORT = 8050 } = process.env;
server.listen({ port: PORT, host: '127.0.0.1' }, () => console.log(JSON.stringify(server.address())));
