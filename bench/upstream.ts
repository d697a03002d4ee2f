/**
 * A local API as Headgate sees one, for the benchmark of decisions: it takes any key, answers pulls at once, and changes when it
 * is told to over its channel. One bouncer pulls from it, so one list of what is new since the last pull is enough.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { decisionsOf } from '../test/support/decision-data.ts';

/** What it is told. */
export type UpstreamOrder =
  /** How many decisions it holds, from now on. */
  | { readonly kind: 'hold'; readonly count: number }
  /** At each pull of changes from now on, so many are deleted and as many others are new. */
  | { readonly kind: 'churn'; readonly count: number }
  /** All are replaced by the same ones with new numbers and later ends, as a blocklist is renewed. */
  | { readonly kind: 'renew' };

/** What it answers to an order, when it was done. */
export interface UpstreamAnswer {
  readonly port: number;
  /** Pulls so far, and how many decisions those of changes brought. */
  readonly pulls: number;
  readonly brought: number;
}

interface Held {
  readonly id: number;
  readonly value: string;
  /** The part of its JSON text behind the duration. */
  readonly text: string;
  readonly untilMs: number;
}

const HOUR_MS = 3_600_000;
const PART = 2000;
/** Those that come with the churn have addresses of their own. */
const CHURN_SEED = 1000;

let held: Held[] = [];
let come: Held[] = [];
let gone: Held[] = [];
let churn = 0;
let churned = 0;
let lastId = 0;
let pulls = 0;
let brought = 0;

function rowOf(decision: { scope: string; type: string; value: string; reason?: string }, hours: number): Held {
  const { scope, type, value, reason = '' } = decision;
  const id = ++lastId;
  const rest = {
    id,
    origin: 'lists',
    scenario: reason,
    scope: scope === 'ip' ? 'Ip' : 'Range',
    type,
    uuid: randomUUID(),
    value,
  };
  return { id, value, text: JSON.stringify(rest).slice(1), untilMs: Date.now() + hours * HOUR_MS };
}

const rowsOf = (count: number, seed?: number): Held[] =>
  decisionsOf(seed === undefined ? { count } : { count, seed }).map((each) =>
    rowOf(each, Number.parseInt(each.duration, 10)),
  );

function durationText(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return `${ms < 0 ? '-' : ''}${parts[0]}h${parts[1]}m${parts[2]}s`;
}

function turnOver(): void {
  if (churn === 0) return;
  const next = rowsOf(churn, CHURN_SEED + churned++);
  const out = held.splice(0, churn);
  held.push(...next);
  come.push(...next);
  gone.push(...out.map((each) => ({ ...each, untilMs: Date.now() })));
}

function renew(): void {
  const untilMs = Date.now() + 200 * HOUR_MS;
  held = held.map((each) => {
    const id = ++lastId;
    return { ...each, id, text: each.text.replace(/^"id":\d+/, `"id":${id}`), untilMs };
  });
  come = [...held];
}

async function writeItems(response: ServerResponse, rows: readonly Held[]): Promise<void> {
  for (let at = 0; at < rows.length; at += PART) {
    const nowMs = Date.now();
    const items = rows
      .slice(at, at + PART)
      .map((each) => `{"duration":"${durationText(each.untilMs - nowMs)}",${each.text}`);
    const drained = response.write(`${at === 0 ? '' : ','}${items.join(',')}`);
    if (!drained) await once(response, 'drain');
  }
}

async function answerPull(response: ServerResponse, startup: boolean): Promise<void> {
  pulls++;
  if (!startup) turnOver();
  const [added, deleted] = startup ? [held, []] : [come, gone];
  [come, gone] = [[], []];
  if (!startup) brought += added.length + deleted.length;
  response.writeHead(200, { 'content-type': 'application/json' });
  response.write('{"new": [');
  await writeItems(response, added);
  response.write('], "deleted": [');
  await writeItems(response, deleted);
  response.end(']}');
}

const server = createServer((request, response) => {
  const url = new URL(request.url ?? '', 'http://upstream');
  if (request.method === 'HEAD') {
    response.writeHead(200).end();
  } else if (url.pathname === '/v1/decisions/stream') {
    answerPull(response, url.searchParams.get('startup') === 'true').catch(() => response.destroy());
  } else {
    response.writeHead(404).end();
  }
});

process.on('message', (order: UpstreamOrder) => {
  if (order.kind === 'hold') {
    held = rowsOf(order.count);
    [come, gone, churn] = [[], [], 0];
  }
  if (order.kind === 'churn') churn = order.count;
  if (order.kind === 'renew') renew();
  answer();
});

function answer(): void {
  process.send?.({ port: (server.address() as AddressInfo).port, pulls, brought } satisfies UpstreamAnswer);
}

server.listen({ port: 0, host: '127.0.0.1' }, answer);
