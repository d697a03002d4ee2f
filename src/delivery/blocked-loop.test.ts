import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { pages } from '../../test/support/delivery-fakes.ts';
import { openRig } from '../../test/support/transports.ts';
import { Deliveries, type Report } from './deliveries.ts';

/** Healthy readers with a thread of their own, so that they read on while this one is blocked. */
const READERS = `
const http = require('node:http');
const { parentPort, workerData } = require('node:worker_threads');
const agent = new http.Agent({ maxSockets: Infinity });
let whole = 0;
let done = 0;
for (let i = 0; i < workerData.readers; i++) {
  const end = (isWhole) => {
    whole += isWhole ? 1 : 0;
    if (++done === workerData.readers) parentPort.postMessage(whole);
  };
  http.get({ host: '127.0.0.1', port: workerData.port, agent }, (res) => {
    res.resume();
    res.once('close', () => end(res.complete));
  }).on('error', () => end(false));
}
`;

// Rule 9, both of its guards at once. Fails when #sweep judges at once and FairTime is the clock; either alone saves them.
it('a loop that was blocked for longer than the slack kills no healthy reader', async () => {
  const readers = 20;
  const deliveries = new Deliveries({ slackMs: 1000, creditMs: 10, sweepMs: 50, floorBytesPerSecond: 1024 * 1024 });
  const reports: Report[] = [];
  let begun = 0;
  const rig = await openRig('http1', (exchange) => {
    begun++;
    const channel = exchange.open(200, { 'content-type': 'text/plain' });
    void deliveries.deliver({ channel, source: pages(200) }).then((report) => {
      reports.push(report);
      if (report.outcome === 'completed') channel.end();
    });
    // in the middle of it, with writes out to every reader
    if (begun === readers) setImmediate(() => setImmediate(() => setImmediate(block)));
  });
  const worker = new Worker(READERS, { eval: true, workerData: { port: rig.port, readers } });
  const [whole] = (await once(worker, 'message')) as [number];
  await worker.terminate();
  await rig.close();
  expect(reports.map(({ outcome }) => outcome)).toEqual(Array.from({ length: readers }, () => 'completed'));
  expect(whole).toBe(readers);
}, 20_000);

function block(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500);
}
