/**
 * One server of the comparison, in a process of its own: `middleware-server.js NUMBER BYTES`. It says where it listens over
 * the channel to its parent, and what it counts whenever it is asked.
 */
import type { AddressInfo } from 'node:net';
import { countsOf, fill } from './middleware-copy.ts';
import { SETUPS } from './middleware-setups.ts';

const [, , number = '', bytes = ''] = process.argv;
const setup = SETUPS[Number(number)];
if (setup === undefined || process.send === undefined)
  throw new Error(`Cannot serve: no parent, or no setup ${number}`);

fill(Number(bytes));
const made = await setup.make();
process.on('message', () => process.send?.(countsOf(made.counted?.())));
made.server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  process.send?.({ port: (made.server.address() as AddressInfo).port });
});
