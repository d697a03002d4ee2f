export type {
  ForwardReply,
  ForwardRequest,
  FrontOptions,
  SmallStore,
  Upstream,
} from './deps.ts';
export {
  answered,
  cursorEvicted,
  cursorShared,
  delivered,
  keyDropped,
  keyLearned,
  left,
  notForwarded,
  pickedUp,
  refused,
  unavailable,
} from './facts.ts';
export { DecisionsFront } from './front.ts';
