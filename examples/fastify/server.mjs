import fastify from 'fastify';
import { Copies, copyOf, deliver, limitDeliveries } from 'headgate/middleware/fastify';
import { readRows } from '../rows.mjs';

const copies = new Copies({ maxConcurrent: 8, maxQueued: 50, waitMsMax: 10_000 });
const app = fastify();

app.get('/export', { onRequest: limitDeliveries(copies) }, async (request, reply) => {
  const rows = await readRows(copyOf(reply).signal);
  await deliver(reply.type('application/json'), JSON.stringify(rows));
});
app.get('/', async () => copies.stats());

copies.attach(app.server);

async function stop() {
  copies.close();
  await copies.drain(10_000);
  await app.close();
}
process.once('SIGTERM', () => void stop());
const { PORT = 8050 } = process.env;
await app.listen({ port: Number(PORT), host: '127.0.0.1' });
console.log(JSON.stringify(app.server.address()));
