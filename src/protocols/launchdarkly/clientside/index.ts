export { ClientSide } from './client-side.ts';
export type { ClientSideOptions, Evaluating } from './deps.ts';
