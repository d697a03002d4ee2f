export { Copies, type Entry } from './copies.ts';
export type { Copy } from './copy.ts';
export type { EndedFact, ShedFact } from './facts.ts';
export type {
  Asker,
  CopiesOptions,
  CopiesStats,
  Ending,
  LimitOptions,
  NodeRequest,
  NodeResponse,
  Payload,
  Shed,
  ShedReason,
} from './types.ts';
