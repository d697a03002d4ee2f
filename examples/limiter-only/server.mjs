import { createServer } from 'node:http';
import { setTimeout as work } from 'node:timers/promises';
import { Limiter } from 'headgate/admission';

// two jobs at a time, fair between tenants: who sends fifty does not keep away who sends one
const limiter = new Limiter({ name: 'jobs', maxConcurrent: 2, maxQueued: 100, waitMsMax: 30_000 });

/** Runs a job when its turn comes; tells how long it waited, or why it was refused. */
async function run(tenant, signal) {
  const answer = await limiter.acquire({ tenant, signal });
  if (!answer.admitted) return { status: 503, reason: answer.reason };
  try {
    await work(100, undefined, { signal });
    return { status: 200, waitedMs: Math.round(answer.slot.waitedMs) };
  } finally {
    answer.slot.release();
  }
}

const server = createServer((req, res) => {
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const answer = ({ status, ...said }) => {
    const retryAfter = status === 503 ? { 'retry-after': String(limiter.retryAfterSeconds()) } : {};
    res.writeHead(status, { 'content-type': 'application/json', ...retryAfter }).end(JSON.stringify(said));
  };
  const [, jobs, tenant = ''] = req.url.split(/[/?]/);
  if (jobs !== 'jobs' || tenant === '') answer({ status: 200, ...limiter.stats() });
  else run(tenant, gone.signal).then(answer, () => res.destroy());
});

process.once('SIGTERM', () => {
  server.close();
  limiter.close(); // those who wait are told; what runs goes on to its end
});
const { PORT = 8050 } = process.env;
server.listen({ port: PORT, host: '127.0.0.1' }, () => console.log(JSON.stringify(server.address())));
