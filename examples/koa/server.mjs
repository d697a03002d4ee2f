import { createServer } from 'node:http';
import Koa from 'koa';
import { Copies, copyOf, deliver, limitDeliveries } from 'headgate/middleware/koa';
import { readRows } from '../rows.mjs';

const copies = new Copies({ maxConcurrent: 8, maxQueued: 50, waitMsMax: 5000 });
const limited = limitDeliveries(copies);
const app = new Koa();

app.use((ctx, next) => {
  if (ctx.path === '/export') return limited(ctx, next);
  ctx.body = copies.stats();
});
app.use(async (ctx) => {
  const rows = await readRows(copyOf(ctx).signal);
  ctx.type = 'json';
  await deliver(ctx, JSON.stringify(rows));
});

const server = createServer(app.callback());
copies.attach(server);

process.once('SIGTERM', async () => {
  server.close();
  copies.close();
  await copies.drain(10_000);
  server.closeAllConnections();
});
const { PORT = 8050 } = process.env;
server.listen({ port: PORT, host: '127.0.0.1' }, () => console.log(JSON.stringify(server.address())));
