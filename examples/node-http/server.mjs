import { createServer } from 'node:http';
import { Copies, deliver, limitDeliveries } from 'headgate/middleware/node';
import { readRows } from '../rows.mjs';

const copies = new Copies({ maxConcurrent: 8, maxQueued: 50, waitMsMax: 10_000 });

const exportAll = limitDeliveries(copies, async (req, res, { signal }) => {
  const rows = await readRows(signal);
  await deliver(res, JSON.stringify(rows), { headers: { 'content-type': 'application/json' } });
});

const server = createServer((req, res) => {
  if (req.url === '/export') return exportAll(req, res);
  res.setHeader('content-type', 'application/json').end(JSON.stringify(copies.stats()));
});
copies.attach(server);

async function stop() {
  copies.close();
  await copies.drain(10_000);
  server.close();
}
process.once('SIGTERM', () => void stop());
const { PORT = 8050 } = process.env;
server.listen({ port: PORT, host: '127.0.0.1' }, () => console.log(JSON.stringify(server.address())));
