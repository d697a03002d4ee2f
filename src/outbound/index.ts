export { Backoff, type BackoffOptions } from './backoff.ts';
export { readEvents, type StreamEvent } from './events.ts';
export type { OutboundReply, OutboundRequest } from './exchange.ts';
export { Outbound, type OutboundOptions } from './outbound.ts';
export { urlUnder } from './url.ts';
