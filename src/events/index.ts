export { dropped, type EventsFact, failed, received, sent, stopped } from './facts.ts';
export { EventForwarder } from './forwarder.ts';
export type {
  DropCause,
  EnvironmentEventStats,
  EventAudience,
  EventForwarderOptions,
  EventStats,
  EventsKind,
  EventTally,
  FailureCause,
  InboundEvents,
} from './types.ts';
