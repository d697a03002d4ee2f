import { createServer } from 'node:http';
import express from 'express';
import { Copies, copyOf, deliver, limitDeliveries } from 'headgate/middleware/express';
import { readRows } from '../rows.mjs';

const copies = new Copies({ maxConcurrent: 8, maxQueued: 50, waitMsMax: 10_000 });
const app = express();

app.get('/export', limitDeliveries(copies), async (req, res) => {
  const rows = await readRows(copyOf(res).signal);
  await deliver(res.type('json'), JSON.stringify(rows));
});
app.get('/', (req, res) => res.json(copies.stats()));
// the work for a client that has left fails, and nobody needs to know
app.use((error, req, res, next) => res.destroyed || next(error));

const server = createServer(app);
copies.attach(server);

async function stop() {
  copies.close();
  await copies.drain(10_000);
  server.close();
}
process.once('SIGTERM', () => void stop());
const { PORT = 8050 } = process.env;
server.listen({ port: PORT, host: '127.0.0.1' }, () => console.log(JSON.stringify(server.address())));
