export { ClientSide } from './client-side.ts';
export type { ClientRoute, ClientSideOptions, Evaluating, GoalsReply } from './deps.ts';
export type { OpenStream } from './open-stream.ts';
