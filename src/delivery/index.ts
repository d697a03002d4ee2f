export { acceptsGzip } from './accept.ts';
export type { Block, Channel, Transport } from './channel.ts';
export { ProgressDeadline, type ProgressDeadlineOptions, type Verdict } from './deadline.ts';
export {
  Deliveries,
  type DeliveriesOptions,
  type DeliveriesStats,
  type DeliverOptions,
  type DeliveryAbout,
  type DeliveryProgress,
  type HeldSlot,
  type Outcome,
  type Report,
  type Source,
} from './deliveries.ts';
export { Departure } from './departure.ts';
export { type Exchange, type ExchangeContext, exchangeOf, type ReplyHeaders } from './exchange.ts';
export { FairTime } from './fair-time.ts';
export { whenOwnsSocket } from './http1.ts';
export {
  bytesAcked,
  type LowWater,
  type LowWaterOptions,
  lowWaterOf,
  probeLowWater,
  setLowWater,
  slackMsFor,
  type TcpInfo,
  tcpInfo,
} from './kernel-socket.ts';
export {
  type CloseAllOptions,
  type LiveClient,
  LiveGroup,
  type LiveGroupOptions,
  type LiveLog,
  type LiveStats,
} from './live.ts';
export { type BatchLog, liveLogOf, type Remembering } from './live-log.ts';
export { ChangeTimes, type Taken } from './change-times.ts';
export type { Peer } from './peer.ts';
export { type RawSockets, resetConnection, trackRawSockets } from './raw-sockets.ts';
export { Receipts, type ReceiptsOptions } from './receipts.ts';
export { Stages, type StageTimes } from './stages.ts';
export { resetResponse } from './reset-response.ts';
export {
  blockOf,
  closeEvent,
  encodeComment,
  encodeEvent,
  eventBlock,
  openEvent,
  type SseEvent,
} from './sse.ts';
