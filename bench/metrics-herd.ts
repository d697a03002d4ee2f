import { join } from 'node:path';
import { createServer, type AddressInfo } from 'node:net';
import { SDK_KEY, type Size, writeArchive } from './data.ts';
import { Headgate, type HerdResult, load } from './processes.ts';
import { atMost, exactly, Table } from './report.ts';

const OVERHEAD_PERCENT_MAX = 3;
const TEN_MB: Size = { flags: 20_000, segments: 100 };
const ONE_MB: Size = { flags: 2000, segments: 50 };
/** More often than any Prometheus asks. */
const SCRAPE_MS = 5000;
/** What a server does by itself after its data were loaded is over by then. */
const SETTLE_MS = 1500;

/** How much of it. */
export interface HerdPairs {
  readonly pairs: number;
  readonly clients: number;
  /** A tenth of the data. */
  readonly quick: boolean;
}

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

/** A server without a log does not say where it listens. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** CPU seconds of the server for each gigabyte that a herd was sent, by a server of its own. */
async function secondsPerGb(
  place: { readonly folder: string; readonly archive: string },
  { clients }: HerdPairs,
  measured: boolean,
  table: Table,
): Promise<number> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const server = await Headgate.startUnlogged(join(place.folder, 'herd.yaml'), port, {
    server: { host: '127.0.0.1', port, drainDelay: '0s', grace: '1s' },
    limits: { mode: 'auto', slots: 32, parking: true },
    log: { level: measured ? 'info' : 'none' },
    admin: measured ? { port: adminPort } : 'off',
    flags: { sources: [{ type: 'archive', path: place.archive }] },
  });
  const scrape = async (): Promise<void> => {
    const response = await fetch(`http://127.0.0.1:${adminPort}/metrics`);
    table.add('a page of metrics, kB', (await response.text()).length / 1000);
  };
  let scraping: NodeJS.Timeout | undefined;
  try {
    await wait(SETTLE_MS);
    if (measured) scraping = setInterval(() => void scrape(), SCRAPE_MS);
    const url = `http://127.0.0.1:${port}/all`;
    const options = { url, pid: server.pid, H: `Authorization: ${SDK_KEY}`, until: 'event:put', count: clients };
    const result = await load<HerdResult>('herd', options).result;
    if (measured) await scrape();
    table.ran(result.server);
    table.add('clients with everything', result.complete, exactly(result.expected));
    return result.cpuSecondsUntilHealthy / ((result.complete * result.bytesMin) / 1e9);
  } finally {
    clearInterval(scraping);
    await server.stop();
  }
}

/** What metrics and logs cost a herd: pairs in turn, with both and with neither. */
export async function herdOverhead(folder: string, options: HerdPairs): Promise<Table> {
  const { pairs, clients, quick } = options;
  const archive = join(folder, 'herd.tar.gz');
  await writeArchive(archive, quick ? ONE_MB : TEN_MB);
  const size = quick ? '1 MB' : '10 MB';
  const table = new Table(
    `a herd of ${clients} FDv1 clients, ${size} each, ${pairs} pairs: with metrics (read each ${SCRAPE_MS / 1000} s) and log, and with neither`,
  );
  const place = { folder, archive };
  for (let pair = 0; pair < pairs; pair++) {
    // which of the two goes first changes, since the machine does
    const first = pair % 2 === 0;
    const one = await secondsPerGb(place, options, first, table);
    const other = await secondsPerGb(place, options, !first, table);
    const [measured, bare] = first ? [one, other] : [other, one];
    table.add('with neither: CPU per GB, s', bare);
    table.add('with both: CPU per GB, s', measured);
    table.add('more with both, %', 100 * (measured / bare - 1), atMost(OVERHEAD_PERCENT_MAX, '%'));
  }
  return table;
}
