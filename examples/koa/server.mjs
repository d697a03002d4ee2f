import Koa from 'koa';
import { Copies, copyOf, deliver, limitDeliveries } from 'headgate/middleware/koa';
import { readRows } from '../rows.mjs';

const copies = new Copies({ maxConcurrent: 8, maxQueued: 50, waitMsMax: 10_000 });
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
// the work for a client that has left fails, and nobody needs to know
app.on('error', (error, ctx) => ctx?.res.destroyed || console.error(error));

const { PORT = 8050 } = process.env;
const server = app.listen(Number(PORT), '127.0.0.1', () => console.log(JSON.stringify(server.address())));
copies.attach(server);

async function stop() {
  copies.close();
  await copies.drain(10_000);
  server.close();
}
process.once('SIGTERM', () => void stop());
